"""The webhook of a home: a message to a chat (Slack, Mattermost, ...) when an operator is needed.

The address is a secret: who knows it can write into the chat. It lies in a file of the home that only its owner reads,
and no message, log or document has it. One thread sends; a chat that is slow or away delays nothing else. Where several
servers of one home run, one of them sends.

Once an admin has allowed it, a message has the address of a still image of the station (`web_ui.stills`), if the chat
can reach the page: incoming webhooks take no files.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from enpire.errors import UsageError
from enpire.service.webhooks import NAME, WebhookSettings, read_webhook
from web_ui.chat_messages import message, text_of
from web_ui.documents import Alarm
from web_ui.request_guard import is_loopback
from web_ui.stills import AlarmImage, Stills


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When messages are sent, in seconds."""

    settled_s: float = 5.0
    """An alarm that ends earlier is not sent."""
    again_s: float = 60.0
    """Least time between two messages of one alarm, which reaches more stations or comes and goes."""
    answer_s: float = 10.0
    """Longest wait for the chat's whole answer."""
    pauses_s: Sequence[float] = (1.0, 5.0, 30.0, 120.0)
    """Pauses before a message that did not arrive is sent again; after the last one it is given up."""
    still_s: float = 3.0
    """Longest wait for the image of a test."""
    look_s: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookState:
    """What is known of the webhook, without its address."""

    configured: bool
    sent: int = 0
    """Messages that this server sent and the chat accepted."""
    last_ms: int | None = None
    problem: str = ""
    """Why the last message was not accepted; empty if it was."""
    page: str = ""
    """Address of the page in the links of messages."""
    local: bool = False
    """Whether only the lab's machine can open that address."""
    images: bool = False
    """Whether an admin has allowed images."""
    reached: bool = False
    """Whether the chat can be expected to load something from that address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """What the thread looks at next."""

    campaign: str = ""
    alarms: Mapping[str, Alarm] = field(default_factory=dict[str, Alarm])


@dataclass(slots=True, kw_only=True)
class _Delivery:
    """What became of the message of one alarm. Times are monotonic seconds."""

    names: tuple[str, ...] = ()
    """The stations of its last message, which was accepted or given up."""
    since_s: float | None = None
    """When it reached stations that no message has had."""
    next_s: float = 0.0
    """When its next message is sent at the earliest."""
    tries: int = 0
    image: AlarmImage | None = None


def _opener() -> OpenerDirector:
    """What sends a request. A redirect counts as a refusal, so that the message goes nowhere else."""
    made = OpenerDirector()
    for part in (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor):
        made.add_handler(part())
    return made


_OPENER = _opener()
MOST_IMAGES = 8
"""Most alarms for which images are held, or requested from stations, at a time."""
MOST_HANGING = 4
"""Most requests to a chat that has not answered in time; no further one is sent before one of them ends."""


class Webhook:
    """Sends alarms of one home to its chat. `show` never waits; `start` and `stop` are for the server's own life."""

    def __init__(self, home: Path, stills: Stills, page: str = "", pace: Pace | None = None) -> None:
        """Send nothing before `start`.

        Args:
            home: folder of the lab.
            stills: where the images of messages are kept.
            page: address that the server prints; empty for none. The one under which an admin reached the page from
                another machine, when they set the webhook, is used instead.
            pace: when messages are sent.
        """
        self._home, self._stills, self._page, self._pace = home, stills, page, pace or Pace()
        self._news = _News()
        self._deliveries: dict[str, _Delivery] = {}
        self._state = WebhookState(configured=False)
        self._noting, self._testing = threading.Lock(), threading.Lock()
        self._hanging = threading.BoundedSemaphore(MOST_HANGING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a message on its way is not waited for."""
        self._ended.set()

    def show(self, campaign: str, alarms: Mapping[str, Alarm]) -> None:
        """Take the alarms of now; returns at once."""
        self._news = _News(campaign=campaign, alarms=alarms)

    def state(self) -> WebhookState:
        """What is known, without the address."""
        chat = read_webhook(self._home)
        page = self._page_of(chat)
        return replace(
            self._state, configured=bool(chat.address), page=page, local=_is_local(page), images=chat.images,
            reached=_reaches(chat.address, page),
        )  # fmt: skip

    def test(self) -> None:
        """Send one message now, without a repetition; `state` has the result.

        Raises:
            UsageError: no webhook is set, or another test has not ended.
        """
        chat = read_webhook(self._home)
        if not chat.address:
            raise UsageError("No webhook is set; an admin sets it in Settings.")
        if not self._testing.acquire(blocking=False):
            raise UsageError("A test message is on its way already; wait until the chat has answered it.")
        try:
            self._send(chat, "A test of the webhook of this lab.", self._image_now(chat))
        finally:
            self._testing.release()

    def _run(self) -> None:
        with _alone(self._home, self._ended, self._pace.look_s) as mine:
            while mine and not self._ended.wait(self._pace.look_s):
                if (chat := read_webhook(self._home)).address:
                    self._follow_all(chat)

    def _follow_all(self, chat: WebhookSettings) -> None:
        now_s, alarms = time.monotonic(), self._news.alarms
        self._deliveries = {
            key: one if key in alarms else _Delivery(next_s=one.next_s)  # an alarm that comes and goes floods no chat
            for key, one in self._deliveries.items() if key in alarms or one.next_s > now_s
        }  # fmt: skip
        for key in tuple(alarms):
            news = self._news  # the newest: a message takes its time, and an operator may have answered meanwhile
            if self._ended.is_set() or (alarm := news.alarms.get(key)) is None:
                continue
            self._follow(chat, news.campaign, alarm, self._deliveries.setdefault(key, _Delivery()))

    def _follow(self, chat: WebhookSettings, campaign: str, alarm: Alarm, known: _Delivery) -> None:
        """Take the image of an alarm while it begins, and send its message when it has lasted."""
        new = tuple(name for name in alarm.names if name not in known.names)
        if not new or alarm.acknowledged_by:
            known.since_s, known.tries, known.image = None, 0, None
            return
        if known.since_s is None:
            known.since_s = time.monotonic()
        if known.image is None and self._takes_images(chat):
            known.image = self._stills.look(new, alarm.newest_ms * 1_000_000)
        if time.monotonic() < max(known.since_s + self._pace.settled_s, known.next_s):
            return
        problem = self._send(chat, text_of(campaign, alarm), known.image)
        if problem and not problem.startswith(REFUSED) and known.tries < len(self._pace.pauses_s):
            known.next_s = time.monotonic() + self._pace.pauses_s[known.tries]
            known.tries += 1
        else:
            again_s = time.monotonic() + self._pace.again_s
            self._deliveries[alarm.key] = _Delivery(names=alarm.names, next_s=again_s)

    def _takes_images(self, chat: WebhookSettings) -> bool:
        held = sum(one.image is not None for one in self._deliveries.values())
        return chat.images and held < MOST_IMAGES and _reaches(chat.address, self._page_of(chat))

    def _page_of(self, chat: WebhookSettings) -> str:
        """The address of the page in links: one that other machines reach, if one is known."""
        return self._page if _is_local(chat.page) else chat.page

    def _image_now(self, chat: WebhookSettings) -> AlarmImage | None:
        """An image of the first station that has one, for a test."""
        now_ns, stations = time.time_ns(), self._stills.stations()
        deadline_s = time.monotonic() + self._pace.still_s
        while self._takes_images(chat):
            image = self._stills.look(stations, now_ns)
            if image is not None or time.monotonic() >= deadline_s or self._ended.wait(0.25):
                return image
        return None

    def _send(self, chat: WebhookSettings, text: str, image: AlarmImage | None) -> str:
        """Send a message once, with its image, if it has one; to a chat that refuses that, without. The problem."""
        page = self._page_of(chat)
        still = self._stills.keep(image) if image is not None and chat.images else None
        problem = self._post(chat.address, message(text, page, still, local=_is_local(page)))
        if still is not None and problem.startswith(REFUSED):
            problem = self._post(chat.address, message(text, page, local=_is_local(page)))
        return problem

    def _post(self, address: str, body: Mapping[str, object]) -> str:
        """Why the chat did not accept a message in time; empty if it did. The text never has the address."""
        problem = LATE
        if self._hanging.acquire(blocking=False):
            answered: list[str] = []

            def exchange() -> None:
                try:
                    answered.append(_exchange(address, body, self._pace.answer_s))
                finally:
                    self._hanging.release()

            # A look-up of a name, and an answer that arrives byte by byte, have no time limit of their own.
            sending = threading.Thread(target=exchange, name="webhook message", daemon=True)
            sending.start()
            sending.join(self._pace.answer_s)
            problem = answered[0] if answered else LATE
        with self._noting:
            self._state = replace(
                self._state, sent=self._state.sent + (not problem), last_ms=time.time_ns() // 1_000_000,
                problem=problem,
            )  # fmt: skip
        return problem


REFUSED = "The chat refused the message:"
"""A message with this answer is not sent again."""
LATE = "The chat did not answer in time."


def _exchange(address: str, body: Mapping[str, object], wait_s: float) -> str:
    """Send a body; why the chat did not accept it, empty if it did. The text never has the address."""
    request = Request(address, json.dumps(body).encode(), {"content-type": "application/json"}, method="POST")
    try:
        with _OPENER.open(request, timeout=wait_s):
            return ""
    except HTTPError as answer:
        answer.close()
        repeat = answer.code in (408, 429) or answer.code >= 500
        return f"{'The chat answered' if repeat else REFUSED} {answer.code}."
    except TimeoutError:
        return LATE
    except (OSError, HTTPException, ValueError) as problem:
        if isinstance(getattr(problem, "reason", None), TimeoutError):
            return LATE
        return f"The chat did not answer ({type(problem).__name__})."  # its text may have the address


def _is_local(page: str) -> bool:
    """Whether only the lab's machine can open an address of the page; also if there is none."""
    host = urlsplit(page).hostname or ""
    if not host or is_loopback(host) or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _reaches(chat: str, page: str) -> bool:
    """Whether a chat can be expected to load something from the page: other machines can, or it is on this one."""
    return page != "" and (not _is_local(page) or _is_local(chat))


@contextlib.contextmanager
def _alone(home: Path, ended: threading.Event, look_s: float) -> Iterator[bool]:
    """Enter when no other server of this home sends; False if the server ends before."""
    file: IO[bytes] | None = None
    try:
        while not ended.is_set():
            try:
                file = file or (home / f".{NAME}.lock").open("ab")
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                ended.wait(look_s)
            else:
                yield True
                return
        yield False
    finally:
        if file is not None:
            file.close()
