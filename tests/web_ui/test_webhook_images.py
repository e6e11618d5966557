"""The images of the webhook's messages: off until an admin allows them, and of the time of their alarm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from enpire.service.webhooks import WebhookSettings, keep_webhook
from enpire.wire.live_images import Preview
from tests.fakes.waiting import until
from tests.web_ui.conftest import Site
from tests.web_ui.scripted_lab import ScriptedLab
from tests.web_ui.test_webhook import JPEG, QUICK, a_chat, alarm, sending
from tests.web_ui.test_webhook import no_proxy as no_proxy
from web_ui.stills import Stills
from web_ui.webhook import Pace, Webhook


def a_lab(**images: Preview) -> ScriptedLab:
    """A lab in which these stations (s2 -> sim-2) have a camera."""
    return ScriptedLab(pictures={(name.replace("s", "sim-"), "front"): image for name, image in images.items()})


def test_images_are_off_until_an_admin_allows_them_for_this_chat(site: Site) -> None:
    site.lab.pictures["sim-3", "front"] = Preview(jpeg=JPEG)
    site.app.state.webhook._page = "http://lab.example.org:8000"
    client = site.enter("admin")
    assert client.put("/api/v1/webhook/images", json={"allowed": True}).status_code == 400, "there is no webhook"
    with a_chat() as chat:

        def attached(path: str, body: dict[str, object]) -> bool:
            assert client.put(f"/api/v1/webhook{path}", json=body).status_code == 200
            client.post("/api/v1/webhook/test", json={})
            return "attachments" in chat.bodies[-1]

        assert not attached("", {"address": chat.address})
        assert attached("/images", {"allowed": True})
        [shown] = cast("list[dict[str, str]]", chat.bodies[-1]["attachments"])
        path = f"/stills/{shown['image_url'].rpartition('/')[2]}"
        assert client.get(path).status_code == 200
        site.enter("operator")
        assert client.put("/api/v1/webhook/images", json={"allowed": False}).status_code == 403
        site.enter("admin")
        assert not attached("/images", {"allowed": False})
        assert client.get(path).status_code == 404, "images of before are gone, too"
        assert attached("/images", {"allowed": True})
        assert not attached("", {"address": f"{chat.address}/other"}), "it was allowed for another chat"
    log = [str(line["deed"]) for line in client.get("/api/v1/users/audit").json()]
    assert {"allowed images in messages of the webhook", "ended images in messages of the webhook"} <= {*log}


def test_a_message_has_an_image_that_the_chat_loads_without_signing_in(site: Site) -> None:
    site.lab.pictures["sim-3", "front"] = Preview(jpeg=JPEG)
    site.app.state.webhook._page = "http://lab.example.org:8000"
    with a_chat() as chat:
        client = site.enter("admin")
        client.put("/api/v1/webhook", json={"address": chat.address})
        client.put("/api/v1/webhook/images", json={"allowed": True})
        answer = client.post("/api/v1/webhook/test", json={}).json()
        assert (answer["sent"], answer["images"], answer["reached"], answer["local"]) == (1, True, True, False)
        [shown] = cast("list[dict[str, str]]", chat.bodies[0]["attachments"])
    assert shown["text"] == shown["fallback"]
    assert re.fullmatch(r"sim-3, camera front, \d\d:\d\d:\d\d UTC, when the alarm began", shown["text"])
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
        (a_lab(s2=Preview(jpeg=JPEG, came_ns=1)), ("sim-2",)),
        (a_lab(s2=Preview(jpeg=JPEG)), ("sim-1", "the campaign")),
        (ScriptedLab(gone=True, pictures={("sim-2", "front"): Preview(jpeg=JPEG)}), ("sim-2",)),
    ],
    ids=["cannot", "silent", "old", "others", "no lab"],
)
def test_a_message_without_an_image_is_sent_all_the_same(
    tmp_path: Path, lab: ScriptedLab, names: tuple[str, ...]
) -> None:
    with a_chat() as chat, sending(tmp_path, chat, lab) as webhook:
        webhook.show("night", alarm(*names))
        until(lambda: webhook.state().sent == 1)
    assert "attachments" not in chat.bodies[0]


def test_the_image_is_of_the_time_at_which_the_alarm_began_and_of_a_station_that_it_reached_last(
    tmp_path: Path,
) -> None:
    lab = a_lab(s1=Preview(jpeg=JPEG), s2=Preview(jpeg=JPEG))
    pace = Pace(settled_s=0.0, again_s=0.0, pauses_s=(0.3,), look_s=0.01)
    with a_chat(500) as chat, sending(tmp_path, chat, lab, pace) as webhook:
        webhook.show("night", alarm("sim-1"))
        until(lambda: webhook.state().problem)
        lab.pictures["sim-1", "front"] = Preview(jpeg=b"the robot was moved away")
        until(lambda: webhook.state().sent == 1)
        webhook.show("night", alarm("sim-1", "sim-2"))
        until(lambda: webhook.state().sent == 2)
        shown = [cast("list[dict[str, str]]", body["attachments"])[0] for body in chat.bodies]
    assert [one["text"][:5] for one in shown] == ["sim-1", "sim-1", "sim-2"]
    kept = webhook._stills.find(shown[1]["image_url"].rpartition("/")[2])
    assert kept == JPEG, "the image of the first try, not of the second one"


def test_a_chat_that_refuses_an_image_gets_the_message_without(tmp_path: Path) -> None:
    with a_chat(400) as chat, sending(tmp_path, chat, a_lab(s2=Preview(jpeg=JPEG))) as webhook:
        webhook.show("night", alarm("sim-2"))
        until(lambda: webhook.state().sent == 1)
    assert ["attachments" in body for body in chat.bodies] == [True, False]
    assert chat.bodies[0]["text"] == chat.bodies[1]["text"]


@pytest.mark.parametrize(
    ("page", "local"),
    [
        ("http://127.0.0.1:8000", True), ("http://localhost:8000", True), ("http://[::1]:8000", True),
        ("http://0.0.0.0:8000", True), ("http://lab.localhost:8000", True), ("", True),
        ("http://lab:8000", False), ("http://10.0.0.7:8000", False), ("https://lab.example.org", False),
    ],
)  # fmt: skip
def test_where_only_the_labs_machine_opens_the_page_the_message_says_so(tmp_path: Path, page: str, local: bool) -> None:
    with a_chat() as chat:
        webhook = Webhook(tmp_path, Stills(a_lab(s2=Preview(jpeg=JPEG))), page, QUICK)
        keep_webhook(tmp_path, WebhookSettings(address="https://chat.example.org/hooks/1", images=True))
        assert (webhook.state().local, webhook.state().reached) == (local, not local)
        keep_webhook(tmp_path, WebhookSettings(address=chat.address, images=True))
        assert webhook.state().reached == (page != ""), "a chat on the same machine reaches it"
        webhook.test()
    first, *link = str(chat.bodies[0]["text"]).splitlines()
    assert first == ":warning: ENPIRE A test of the webhook of this lab."
    said = " on the lab's machine; other machines cannot open this address." if local else ""
    assert link == ([f"<{page}/inbox|Open the inbox>{said}"] if page else [])
