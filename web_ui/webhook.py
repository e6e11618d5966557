"""The webhook of a home: a message to a chat (Slack, Mattermost, ...) when an operator is needed.

The address is a secret: who knows it can write into the chat. It lies in a file of the home that only its owner reads,
and no message, log or document has it. One thread sends; a chat that is slow or away delays nothing else. Where several
servers of one home run, one of them sends.

A message has the address of a still image of the station (`web_ui.stills`), if the chat can reach the page: incoming
webhooks take no files.
"""

from __future__ import annotations

import contextlib
import fcntl
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

from enpire.service.webhooks import NAME, read_address, read_page
from web_ui.documents import Alarm
from web_ui.request_guard import is_loopback
from web_ui.stills import Stills, TakenStill


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When messages are sent, in seconds."""

    settled_s: float = 5.0
    """An alarm that ends earlier is not sent."""
    answer_s: float = 10.0
    """Longest wait for the chat's answer."""
    pauses_s: Sequence[float] = (1.0, 5.0, 30.0, 120.0)
    """Pauses before a message that did not arrive is sent again; after the last one it is given up."""
    still_s: float = 3.0
    """Longest wait for the image of a message."""
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
    has_images: bool = False
    """Whether messages have an image: the chat can reach that address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """What the thread looks at next."""

    campaign: str = ""
    alarms: Mapping[str, Alarm] = field(default_factory=dict[str, Alarm])


def _opener() -> OpenerDirector:
    """What sends a request. A redirect counts as a refusal, so that the message goes nowhere else."""
    made = OpenerDirector()
    for part in (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor):
        made.add_handler(part())
    return made


_OPENER = _opener()


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
        self._sent: dict[str, tuple[str, ...]] = {}
        """Alarm -> the stations of its last message."""
        self._state = WebhookState(configured=False)
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
        address, page = read_address(self._home), self._page_now()
        return replace(
            self._state, configured=bool(address), page=page, has_images=bool(address) and _reaches(address, page)
        )

    def test(self) -> None:
        """Send one message now, without a repetition; `state` has the result."""
        address = read_address(self._home)
        if address:
            self._send(address, "A test of the webhook of this lab.", self._stills.stations(), pauses_s=())
        else:
            self._note("No webhook is set; an admin sets it in Settings.")

    def _run(self) -> None:
        with _alone(self._home, self._ended, self._pace.look_s) as mine:
            while mine and not self._ended.wait(self._pace.look_s):
                address = read_address(self._home)
                news = self._news
                if not address:
                    continue
                self._sent = {key: names for key, names in self._sent.items() if key in news.alarms}
                for alarm in news.alarms.values():
                    if self._is_due(alarm):
                        self._sent[alarm.key] = alarm.names
                        self._send(address, text_of(news.campaign, alarm), alarm.names, self._pace.pauses_s)

    def _is_due(self, alarm: Alarm) -> bool:
        settled = time.time() * 1000 >= alarm.newest_ms + 1000 * self._pace.settled_s
        new = not set(alarm.names) <= set(self._sent.get(alarm.key, ()))
        return settled and new and not alarm.acknowledged_by

    def _page_now(self) -> str:
        """The address of the page in links: one that other machines reach, if one is known."""
        known = read_page(self._home)
        return known if known and not is_loopback(urlsplit(known).hostname or "") else self._page

    def _send(self, address: str, text: str, stations: Sequence[str], pauses_s: Sequence[float]) -> None:
        """Send a message with an image, if there is one; to a chat that refuses that, without."""
        page = self._page_now()
        reached = _reaches(address, page)
        still = self._stills.take(stations, self._pace.still_s, self._ended) if reached else None
        problem = self._deliver(address, message(text, page, still, alone=not reached), pauses_s)
        if still is not None and problem.startswith(REFUSED):
            self._deliver(address, message(text, page), pauses_s)

    def _deliver(self, address: str, body: Mapping[str, object], pauses_s: Sequence[float]) -> str:
        """Send a body, again after each pause, until the chat accepts it or refuses it for good; the last problem."""
        problem = ""
        for pause_s in (*pauses_s, None):
            problem = self._post(address, body)
            self._note(problem)
            if not problem or problem.startswith(REFUSED) or pause_s is None or self._ended.wait(pause_s):
                break
        return problem

    def _post(self, address: str, body: Mapping[str, object]) -> str:
        """Why the chat did not accept a message; empty if it did. The text never has the address."""
        request = Request(address, json.dumps(body).encode(), {"content-type": "application/json"}, method="POST")
        try:
            with _OPENER.open(request, timeout=self._pace.answer_s):
                return ""
        except HTTPError as answer:
            answer.close()
            repeat = answer.code in (408, 429) or answer.code >= 500
            return f"{'The chat answered' if repeat else REFUSED} {answer.code}."
        except (OSError, HTTPException, ValueError) as problem:
            return f"The chat did not answer ({type(problem).__name__})."  # its text may have the address

    def _note(self, problem: str) -> None:
        self._state = replace(
            self._state, sent=self._state.sent + (not problem), last_ms=time.time_ns() // 1_000_000, problem=problem
        )


REFUSED = "The chat refused the message:"
"""A message with this answer is not sent again."""


def text_of(campaign: str, alarm: Alarm) -> str:
    """One alarm as a message: what, where, and what holds without an answer."""
    names = ", ".join(alarm.names[:10]) + (f" and {len(alarm.names) - 10} more" if len(alarm.names) > 10 else "")
    default = f" Without an answer: {alarm.default}." if alarm.default else ""
    return f"{campaign}: {alarm.text} ({names}).{default}"


def message(text: str, page: str, still: TakenStill | None = None, *, alone: bool = False) -> Mapping[str, object]:
    """The body in Slack's form, which Mattermost, Rocket.Chat and Discord (at /slack) also read.

    Args:
        text: of the message.
        page: address of the page; empty for none.
        still: image of the message. It is an attachment, which chats show; Slack would refuse a block whose image it
            cannot load.
        alone: whether only the machine of the page reaches it.
    """
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    link = f"\n<{page}/inbox|Open the inbox>" if page else ""
    if page and alone:
        link += " (on the lab's machine only; there is no image, because the chat cannot reach it)"
    section = {"type": "section", "text": {"type": "mrkdwn", "text": f":warning: {plain[:2800]}{link}"}}
    body: dict[str, object] = {"text": f"ENPIRE {plain[:2800]}", "blocks": [section]}
    if still is not None:
        shown = f"{still.station}, camera {still.camera}"
        body["attachments"] = [{"fallback": shown, "text": shown, "image_url": f"{page}{still.path}"}]
    return body


def _reaches(chat: str, page: str) -> bool:
    """Whether a chat can be expected to load something from the page: it is not loopback, or both are."""
    host = urlsplit(page).hostname or ""
    return host != "" and (not is_loopback(host) or is_loopback(urlsplit(chat).hostname or ""))


@contextlib.contextmanager
def _alone(home: Path, ended: threading.Event, look_s: float) -> Iterator[bool]:
    """Enter when no other server of this home sends; False if the server ends before."""
    file: IO[bytes] | None = None
    try:
        while not ended.is_set():
            with contextlib.suppress(OSError):
                file = file or (home / f".{NAME}.lock").open("ab")
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield True
                return
            ended.wait(look_s)
        yield False
    finally:
        if file is not None:
            file.close()
