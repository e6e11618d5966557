"""The webhook: what a chat gets, when it is sent again, and that its address stays in one private file."""

from __future__ import annotations

import json
import logging
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from enpire.errors import UsageError
from enpire.service.webhooks import NAME, WebhookSettings, keep_webhook, read_webhook
from tests.fakes.loopback_server import answering
from tests.fakes.waiting import never, until
from tests.web_ui.conftest import Site
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.documents import Alarm
from web_ui.stills import Stills
from web_ui.webhook import LATE, MOST_HANGING, REFUSED, Pace, Webhook

QUICK = Pace(settled_s=0.0, again_s=0.0, answer_s=300.0, still_s=0.0, pauses_s=(0.01, 0.01), look_s=0.01)
SECRET = "hooks/T0CAFE/B0BABE/hunter2"
JPEG = b"\xff\xd8 an image \xff\xd9"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Chat:
    """What arrived, and what is answered: the answers in turn, then 200."""

    answers: list[int] = field(default_factory=list[int])
    bodies: list[dict[str, object]] = field(default_factory=list)
    address: str = ""
    held: threading.Event = field(default_factory=threading.Event)
    dripping: bool = False
    """Whether the answer never ends: a header line every moment."""


@contextmanager
def a_chat(*answers: int, slow: bool = False) -> Iterator[Chat]:
    chat = Chat(list(answers))
    if not slow:
        chat.held.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            chat.bodies.append({"path": self.path, **json.loads(body)})
            chat.held.wait(300)
            status = chat.answers.pop(0) if chat.answers else 200
            while chat.dripping:
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                time.sleep(0.01)
            self.send_response(status)
            if status == 302:
                self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with answering(Handler) as address:
        chat.address = f"{address}/{SECRET}"
        try:
            yield chat
        finally:
            chat.held.set()


@contextmanager
def sending(
    home: Path, chat: Chat, lab: ScriptedLab | None = None, pace: Pace = QUICK, *, images: bool = True
) -> Iterator[Webhook]:
    keep_webhook(home, WebhookSettings(address=chat.address, images=images))
    webhook = Webhook(home, Stills(lab or ScriptedLab()), "http://lab:8000", pace)
    webhook.start()
    try:
        yield webhook
    finally:
        webhook.stop()


def alarm(*names: str, by: str = "", key: str = "offline") -> dict[str, Alarm]:
    now_ms = time.time_ns() // 1_000_000
    made = Alarm(
        key=key, text="Offline <b> & away", tone="bad", names=names, since_ms=now_ms, newest_ms=now_ms, responses=(),
        default="other stations get the work", acknowledged_by=by,
    )  # fmt: skip
    return {key: made}


def test_an_alarm_is_sent_once_in_slacks_form_and_again_when_it_grows(tmp_path: Path) -> None:
    with a_chat() as chat, sending(tmp_path, chat) as webhook:
        webhook.show("night", alarm("s1", "s2"))
        until(lambda: webhook.state().sent == 1)
        body = chat.bodies[0]
        text = "night: Offline &lt;b&gt; &amp; away (s1, s2). Without an answer: other stations get the work."
        assert body["path"] == f"/{SECRET}"
        assert body["text"] == f":warning: ENPIRE {text}\n<http://lab:8000/inbox|Open the inbox>"
        assert set(body) == {"path", "text"}, "chats that know no blocks have the link, too"
        webhook.show("night", alarm("s1"))
        webhook.show("night", alarm("s1", "s2", "s3"))
        until(lambda: webhook.state().sent == 2)
        webhook.show("night", alarm("s1", "s2", "s3", "s4", by="ada"))
        webhook.show("night", {**alarm("s1", by="ada"), **alarm("s9", key="fault")})
        until(lambda: webhook.state().sent == 3)
        assert ["s9" in str(one["text"]) for one in chat.bodies] == [False, False, True]


@pytest.mark.parametrize(
    ("answers", "arrived", "problem"),
    [
        ((500, 429), 3, ""),
        ((500, 500, 500), 3, "The chat answered 500."),
        ((404,), 1, f"{REFUSED} 404."),
        ((302,), 1, f"{REFUSED} 302."),
    ],
)
def test_a_message_is_repeated_unless_the_chat_refuses_it(
    tmp_path: Path, answers: tuple[int, ...], arrived: int, problem: str
) -> None:
    with a_chat(*answers) as chat, sending(tmp_path, chat) as webhook:
        webhook.show("night", alarm("s1"))
        until(lambda: len(chat.bodies) == arrived and webhook.state().problem == problem and not chat.answers)
        webhook.show("night", alarm("s1", key="next"))  # the thread is at the next alarm: the first is not repeated
        until(lambda: webhook.state().sent == (2 if not problem else 1))
        assert len(chat.bodies) == arrived + 1


def test_a_chat_that_hangs_delays_nothing(tmp_path: Path) -> None:
    with a_chat(slow=True) as chat, sending(tmp_path, chat) as webhook:
        webhook.show("night", alarm("s1"))
        until(lambda: bool(chat.bodies))
        for _ in range(1000):
            webhook.show("night", alarm("s1"))
        state = webhook.state()
        assert (state.sent, state.problem) == (0, ""), "the first message still waits for its answer"


def test_a_chat_whose_answer_never_ends_is_late_and_holds_up_no_other_message(tmp_path: Path) -> None:
    with a_chat() as chat:
        chat.dripping = True
        pace = Pace(settled_s=0.0, answer_s=0.2, pauses_s=(0.01,) * 10_000, look_s=0.01)
        with sending(tmp_path, chat, pace=pace) as webhook:
            webhook.show("night", alarm("s1"))
            until(lambda: webhook.state().problem == LATE)
            chat.dripping = False
            webhook.show("night", alarm("s2", key="next"))
            until(lambda: webhook.state().sent and "s2" in str(chat.bodies[-1]["text"]))


def test_while_requests_hang_no_further_one_is_made(tmp_path: Path) -> None:
    pace = Pace(settled_s=0.0, answer_s=5.0, pauses_s=(), look_s=0.01)
    with a_chat() as chat, sending(tmp_path, chat, pace=pace) as webhook:
        for _ in range(MOST_HANGING):
            assert webhook._hanging.acquire(blocking=False)
        webhook.show("night", alarm("s1"))
        until(lambda: webhook.state().problem == LATE)
        assert chat.bodies == []
        webhook._hanging.release()
        webhook.show("night", alarm("s1", key="next"))
        until(lambda: webhook.state().sent == 1)
        assert webhook._hanging.acquire(timeout=60), "a request that ended makes room"


def test_one_alarm_that_is_repeated_delays_no_other(tmp_path: Path) -> None:
    pace = Pace(settled_s=0.0, answer_s=5.0, pauses_s=(3600.0,), look_s=0.01)
    with a_chat(500) as chat, sending(tmp_path, chat, pace=pace) as webhook:
        webhook.show("night", alarm("s1"))
        until(lambda: webhook.state().problem == "The chat answered 500.")
        webhook.show("night", {**alarm("s1"), **alarm("s2", key="next")})
        until(lambda: webhook.state().sent == 1)
        assert "s2" in str(chat.bodies[1]["text"])


def test_an_alarm_that_was_answered_meanwhile_is_not_sent_again(tmp_path: Path) -> None:
    with a_chat(500) as chat, sending(tmp_path, chat, pace=Pace(settled_s=0, pauses_s=(0.2,), look_s=0.01)) as webhook:
        webhook.show("night", alarm("s1"))
        until(lambda: webhook.state().problem == "The chat answered 500.")
        webhook.show("night", alarm("s1", by="ada"))
        never(lambda: len(chat.bodies) > 1, 0.5, lambda: webhook.show("night", alarm("s1", "s2")))


def test_an_alarm_that_comes_and_goes_floods_no_chat(tmp_path: Path) -> None:
    pace = Pace(settled_s=0.0, again_s=3600.0, look_s=0.01)
    with a_chat() as chat, sending(tmp_path, chat, pace=pace) as webhook:
        webhook.show("night", alarm("s1"))
        until(lambda: webhook.state().sent == 1)
        webhook.show("night", {})
        until(lambda: not webhook._deliveries["offline"].names)
        webhook.show("night", alarm("s1", "s2"))
        never(lambda: len(chat.bodies) > 1, 0.3, lambda: webhook.show("night", alarm("s1", key="next")))


def test_one_of_two_servers_of_a_home_sends(tmp_path: Path) -> None:
    with a_chat() as chat, sending(tmp_path, chat) as first:
        first.show("night", alarm("s1"))
        until(lambda: first.state().sent == 1)
        with sending(tmp_path, chat) as second:
            second.show("night", alarm("s1"))
            first.show("night", alarm("s1", "s2"))
            until(lambda: first.state().sent == 2)
            first.stop()
            until(lambda: second.state().sent == 1)
        assert len(chat.bodies) == 3


def test_the_address_is_in_one_private_file_and_nowhere_else(
    site: Site, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with a_chat(200, 403) as chat:
        client = site.enter("admin")
        answers = [
            client.get("/api/v1/webhook"),
            client.put("/api/v1/webhook", json={"address": "ftp://elsewhere"}),
            client.put("/api/v1/webhook", json={"address": chat.address}),
            client.post("/api/v1/webhook/test", json={}),
            client.post("/api/v1/webhook/test", json={}),
        ]
        assert [one.status_code for one in answers] == [200, 400, 200, 200, 200]
        assert [answers[0].json()["configured"], answers[2].json()["configured"]] == [False, True]
        assert answers[4].json()["problem"] == f"{REFUSED} 403."
        site.enter("operator")
        assert client.put("/api/v1/webhook", json={"address": ""}).status_code == 403
        assert client.get("/api/v1/webhook").json()["problem"] == f"{REFUSED} 403."
        kept = site.home / "webhook"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        everywhere = [path for path in site.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert everywhere == [kept]
        said = caplog.text + "".join(capfd.readouterr()) + "".join(one.text for one in answers)
        assert "hunter2" not in said
        site.enter("admin")
        assert client.put("/api/v1/webhook", json={"address": ""}).json()["configured"] is False
        assert not kept.exists()


def test_links_lead_where_the_admin_reached_the_page(tmp_path: Path, site: Site) -> None:
    site.app.state.webhook._page = "http://here:8000"
    headers = {"origin": "http://localhost:8421", "host": "localhost:8421"}
    body = {"address": "https://chat.example.org/hooks/1"}
    answer = site.enter("admin").put("/api/v1/webhook", json=body, headers=headers)
    assert answer.json()["page"] == "http://here:8000", "only the lab's machine reaches localhost"
    assert read_webhook(site.home).page == "http://localhost:8421"
    stored = Webhook(tmp_path, Stills(ScriptedLab()), "http://127.0.0.1:8000")
    (tmp_path / NAME).write_text("https://chat.example.org/hooks/1", encoding="utf-8")
    assert stored.state().page == "http://127.0.0.1:8000", "a file of before, of one line"
    (tmp_path / NAME).write_text("https://chat.example.org/hooks/1\nhttps://lab.example.org", encoding="utf-8")
    assert (stored.state().page, stored.state().images) == ("https://lab.example.org", False), "of before, of two lines"
    for odd in ("https://lab.example.org/x|<!channel>", "https://lab.example.org\n"):
        keep_webhook(tmp_path, WebhookSettings(address=body["address"], page=odd))
        assert stored.state().page == "https://lab.example.org"
    keep_webhook(tmp_path, WebhookSettings(address=body["address"], page="https://a|b> c"))
    assert read_webhook(tmp_path).page == ""


@pytest.mark.parametrize(
    "address",
    [
        "ftp://chat.example.org/1", "https://", "https://[broken", "https://chat.example.org:99999/", "https://c\u00e4t.org",
        "https://chat.example.org/a b", "https://chat.example.org/\nimages", f"https://chat.example.org/{'a' * 2000}",
        "http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://0.0.0.0/", "http://224.0.0.1/",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_chat_is_refused_and_not_read(tmp_path: Path, site: Site, address: str) -> None:
    answer = site.enter("admin").put("/api/v1/webhook", json={"address": address})
    assert answer.status_code in (400, 422), answer.text
    with pytest.raises(UsageError, match="copy"):
        keep_webhook(tmp_path, WebhookSettings(address=address))
    (tmp_path / NAME).write_text(address.replace("\n", " "), encoding="utf-8")
    assert read_webhook(tmp_path) == WebhookSettings()
    assert not Webhook(tmp_path, Stills(ScriptedLab())).state().configured


def test_one_test_message_at_a_time(tmp_path: Path) -> None:
    with a_chat(slow=True) as chat:
        webhook = Webhook(tmp_path, Stills(ScriptedLab()), "http://lab:8000", QUICK)
        with pytest.raises(UsageError, match="No webhook is set"):
            webhook.test()
        keep_webhook(tmp_path, WebhookSettings(address=chat.address))
        first = threading.Thread(target=webhook.test, daemon=True)
        first.start()
        until(lambda: chat.bodies)
        with pytest.raises(UsageError, match="on its way already"):
            webhook.test()
        chat.held.set()
        first.join(60)
        webhook.test()
        assert webhook.state().sent == 2
