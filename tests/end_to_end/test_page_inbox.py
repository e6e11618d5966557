"""The inbox: alarms by cause, answered and acknowledged, sent to a chat, and reported by the browser with a still."""

from __future__ import annotations

import io
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from PIL import Image

from enpire.wire.live_images import Preview
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.scripted_lab import ScriptedLab
from tests.web_ui.test_webhook import a_chat
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
GRIPPER = "the gripper does not close; check its cable"
SPY = """
window.notes = [];
window.Notification = class {
  static permission = "default";
  static requestPermission() { this.permission = "granted"; return Promise.resolve("granted"); }
  constructor(title, options) { notes.push({title, body: options.body, image: options.image ?? ""}); }
  close() {}
};
"""


def test_an_alarm_is_reported_answered_and_acknowledged(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    expect, watch, page = playwright.expect, Watch(), context.new_page()
    watch.follow(page)
    page.add_init_script(SPY)
    set_up(page, running)
    with a_chat() as chat:
        _set_a_webhook(page, chat.address)
        page.get_by_role("link", name="Inbox").click()
        expect(page.get_by_text("No alarm", exact=True)).to_be_visible()
        page.get_by_role("button", name="Notify me in this browser").click()
        lab.pictures["sim-3", "front"] = Preview(jpeg=_jpeg())
        lab.alarms |= {"sim-2": GRIPPER, "sim-3": GRIPPER}
        card = page.locator("[data-alarm]")
        expect(card).to_contain_text("sim-2, sim-3")
        expect(card).to_contain_text("Without an answer: the station gets no new orders.")
        expect(page.get_by_text("an answer counts until the campaign ends, in at most")).to_be_visible()
        expect(page.get_by_role("link", name="Inbox").locator(".badge")).to_contain_text("1")
        playwright.expect(page.get_by_text("Webhook: 2 messages sent")).to_be_visible()
        assert GRIPPER in str(chat.bodies[1]["text"])
        assert f"<{running.address}/inbox|Open the inbox> on the lab's machine" in str(chat.bodies[1]["text"])
        [image] = cast("list[dict[str, str]]", chat.bodies[1]["attachments"])
        assert image["text"].startswith("sim-3, camera front, ")
        with urllib.request.urlopen(image["image_url"], timeout=300) as answer:
            assert answer.read() == lab.pictures["sim-3", "front"].jpeg
    page.wait_for_function("notes.length > 0")
    (note,) = page.evaluate("notes")
    assert (note["title"], note["body"]) == (f"ENPIRE: {GRIPPER}", "sim-2, sim-3")
    assert note["image"].startswith("blob:")
    page.screenshot(path=artefacts / "inbox.png", full_page=True)
    card.get_by_role("button", name="Acknowledge").click()
    expect(card).to_contain_text("acknowledged by ada at")
    expect(page.locator("nav .badge")).to_have_count(0)
    page.locator("[data-command=acknowledge]").get_by_role("button", name="Undo").click()
    expect(page.locator("nav .badge")).to_have_count(1)
    card.get_by_role("button", name="Acknowledge").click()
    expect(card).to_contain_text("acknowledged by ada at")
    card.get_by_role("button", name="Pause 2").click()
    expect(page.locator("[data-command=pause][data-state=effective]")).to_have_count(2)
    page.get_by_role("link", name="Fleet", exact=True).click()
    expect(page.locator(".attention")).to_contain_text("1 acknowledged alarm in the inbox")
    lab.alarms.clear()
    page.locator(".attention a").click()
    expect(page.get_by_text("Paused: no new orders")).to_be_visible()
    page.screenshot(path=artefacts / "inbox-answered.png", full_page=True)
    given = {(kind, target) for kind, target, _ in lab.given.values()}
    assert {("pause", "sim-2"), ("pause", "sim-3")} < given
    assert {kind for kind, _ in given} == {"pause", "acknowledge", "acknowledge undo"}
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


def _set_a_webhook(page: Page, address: str) -> None:
    """As an admin, in Settings; the page never shows the address again."""
    page.get_by_role("link", name="Settings").click()
    section = page.get_by_role("region", name="Webhook")
    section.get_by_label("Address of the chat").fill(address)
    section.get_by_role("button", name="Save").click()
    section.get_by_role("button", name="Send a test").click()
    playwright.expect(section).to_contain_text("set, 1 message sent")
    playwright.expect(section).to_contain_text("Only the lab's machine can open this address.")
    images = section.get_by_label("Send images of stations to the chat")
    playwright.expect(images).not_to_be_checked()
    playwright.expect(section).to_contain_text("Off: no image leaves the lab.")
    images.click()
    playwright.expect(section.locator("[data-images=true]")).to_be_visible()
    playwright.expect(images).to_be_checked()
    assert "hunter2" not in page.content()


def _jpeg() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (64, 40), "gray").save(data, "JPEG")
    return data.getvalue()
