"""The webhook: what a chat gets, when it is sent again, and that its address stays in one private file."""

from __future__ import annotations

import json
import logging
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import cast

import pytest

from enpire.service.webhooks import NAME, keep_address, read_page
from enpire.wire.live_images import Preview
from tests.fakes.loopback_server import answering
from tests.fakes.waiting import until
from tests.web_ui.conftest import Site
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.documents import Alarm
from web_ui.stills import MOST, Stills
from web_ui.webhook import REFUSED, Pace, Webhook, message

QUICK = Pace(settled_s=0.0, answer_s=300.0, still_s=0.0, pauses_s=(0.01, 0.01), look_s=0.01)
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
def sending(home: Path, chat: Chat, lab: ScriptedLab | None = None, page: str = "http://lab:8000") -> Iterator[Webhook]:
    keep_address(home, chat.address)
    webhook = Webhook(home, Stills(lab or ScriptedLab()), page, QUICK)
    webhook.start()
    try:
        yield webhook
    finally:
        webhook.stop()


def alarm(*names: str, by: str = "", key: str = "offline") -> dict[str, Alarm]:
    made = Alarm(
        key=key, text="Offline <b> & away", tone="bad", names=names, since_ms=0, newest_ms=0, responses=(),
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
        assert body["text"] == f"ENPIRE {text}"
        section = {"type": "mrkdwn", "text": f":warning: {text}\n<http://lab:8000/inbox|Open the inbox>"}
        assert body["blocks"] == [{"type": "section", "text": section}]
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


def a_lab(**images: Preview) -> ScriptedLab:
    """A lab in which these stations (s2 -> sim-2) have a camera."""
    return ScriptedLab(pictures={(name.replace("s", "sim-"), "front"): image for name, image in images.items()})


def test_a_message_has_an_image_that_the_chat_loads_without_signing_in(site: Site) -> None:
    site.lab.pictures["sim-3", "front"] = Preview(jpeg=JPEG)
    site.app.state.webhook._page = "http://lab.example.org:8000"
    with a_chat() as chat:
        client = site.enter("admin")
        client.put("/api/v1/webhook", json={"address": chat.address})
        answer = client.post("/api/v1/webhook/test", json={}).json()
        assert (answer["sent"], answer["has_images"]) == (1, True)
        [shown] = cast("list[dict[str, str]]", chat.bodies[0]["attachments"])
    assert (shown["text"], shown["fallback"]) == ("sim-3, camera front", "sim-3, camera front")
    page, _, path = shown["image_url"].partition("/stills/")
    assert page == "http://lab.example.org:8000"
    client.cookies.clear()
    image = client.get(f"/stills/{path}")
    assert (image.status_code, image.content, image.headers["content-type"]) == (200, JPEG, "image/jpeg")
    assert image.headers["cross-origin-resource-policy"] == "cross-origin"
    other = client.get(f"/stills/{path.swapcase()}")
    assert (other.status_code, other.headers["content-type"]) == (404, "application/problem+json")
    assert len(path) > 40


@pytest.mark.parametrize(
    ("lab", "names"),
    [
        (a_lab(s2=Preview(why="no GL library")), ("sim-2",)),
        (a_lab(s2=Preview()), ("sim-2",)),
        (a_lab(s2=Preview(jpeg=JPEG)), ("sim-1", "the campaign")),
        (ScriptedLab(gone=True, pictures={("sim-2", "front"): Preview(jpeg=JPEG)}), ("sim-2",)),
    ],
    ids=["cannot", "silent", "others", "no lab"],
)
def test_a_message_without_an_image_is_sent_all_the_same(
    tmp_path: Path, lab: ScriptedLab, names: tuple[str, ...]
) -> None:
    with a_chat() as chat, sending(tmp_path, chat, lab) as webhook:
        webhook.show("night", alarm(*names))
        until(lambda: webhook.state().sent == 1)
    assert "attachments" not in chat.bodies[0]


def test_a_chat_that_refuses_an_image_gets_the_message_without(tmp_path: Path) -> None:
    with a_chat(400) as chat, sending(tmp_path, chat, a_lab(s2=Preview(jpeg=JPEG))) as webhook:
        webhook.show("night", alarm("sim-2"))
        until(lambda: webhook.state().sent == 1)
    assert ["attachments" in body for body in chat.bodies] == [True, False]
    assert chat.bodies[0]["text"] == chat.bodies[1]["text"]


def test_a_chat_that_cannot_reach_the_page_is_told_so(tmp_path: Path) -> None:
    webhook = Webhook(tmp_path, Stills(a_lab(s2=Preview(jpeg=JPEG))), "http://127.0.0.1:8000", QUICK)
    keep_address(tmp_path, "https://chat.example.org/hooks/1")
    assert not webhook.state().has_images
    keep_address(tmp_path, "http://127.0.0.1:8065/hooks/1")
    assert webhook.state().has_images, "a chat on the same machine reaches it"
    text = str(message("Offline", "http://127.0.0.1:8000", alone=True)["blocks"])
    assert "(on the lab's machine only; there is no image, because the chat cannot reach it)" in text


def test_links_lead_where_the_admin_reached_the_page(tmp_path: Path, site: Site) -> None:
    site.app.state.webhook._page = "http://here:8000"
    headers = {"origin": "http://localhost:8421", "host": "localhost:8421"}
    body = {"address": "https://chat.example.org/hooks/1"}
    answer = site.enter("admin").put("/api/v1/webhook", json=body, headers=headers)
    assert answer.json()["page"] == "http://here:8000", "only the lab's machine reaches localhost"
    assert read_page(site.home) == "http://localhost:8421"
    stored = Webhook(tmp_path, Stills(ScriptedLab()), "http://127.0.0.1:8000")
    (tmp_path / NAME).write_text("https://chat.example.org/hooks/1", encoding="utf-8")
    assert stored.state().page == "http://127.0.0.1:8000", "a file of before, of one line"
    keep_address(tmp_path, "https://chat.example.org/hooks/1", "https://lab.example.org")
    assert (stored.state().page, stored.state().has_images) == ("https://lab.example.org", True)


def test_a_still_ends_with_its_time_and_when_there_are_too_many() -> None:
    lab, ended = a_lab(s2=Preview(jpeg=JPEG)), threading.Event()

    def taken(stills: Stills) -> str:
        still = stills.take(["sim-2"], 0, ended)
        assert still is not None
        return still.path.rpartition("/")[2]

    brief = Stills(lab, lasts_s=0)
    assert brief.find(taken(brief)) is None
    stills = Stills(lab)
    names = [taken(stills) for _ in range(MOST + 1)]
    assert [stills.find(name) for name in names] == [None, *([JPEG] * MOST)]
    assert len(set(names)) == MOST + 1
