"""The page when something behind it is broken: it says so, and a stop gets through."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from enpire.errors import FileProblem
from enpire.wire.live_images import Preview
from tests.end_to_end.conftest import NEEDED, PATIENCE_MS, set_up
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.archive import Archive
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Route

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


def test_a_dead_server_is_never_shown_as_live(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, _ = server
    expect, page = playwright.expect, context.new_page()
    set_up(page, running)
    running.stop()
    expect(page.locator(".live")).to_have_text(re.compile("stale"), timeout=PATIENCE_MS)
    expect(page.locator(".greyed")).to_be_visible()
    expect(page.get_by_text("No connection to the server")).to_be_visible()
    expect(page.get_by_role("button", name="Pause sim-1")).to_be_disabled()
    page.screenshot(path=artefacts / "stale.png", full_page=True)
    page.get_by_role("button", name="Stop sim-1").click()
    expect(page.get_by_role("alert")).to_contain_text("The stop of sim-1 has not arrived yet and is sent again")
    expect(page.get_by_role("button", name="Stop fleet")).to_be_enabled()


def test_a_dead_server_greys_every_live_page(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, _ = server
    expect, page = playwright.expect, context.new_page()
    set_up(page, running)
    page.click("nav >> text=Campaigns")
    page.click("tr.pick a")
    state = page.locator(".head .pill")
    expect(state).to_have_text(re.compile("Running$"))
    running.stop()
    expect(state).to_have_text(re.compile("Last known: running"))
    expect(page.locator(".greyed")).to_be_visible()
    for name in ("Pause", "Roll back the champion", "End"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()
    page.screenshot(path=artefacts / "stale-campaign.png")
    page.click("nav >> text=Episodes")
    expect(page.get_by_role("alert")).to_contain_text("The server did not answer")
    expect(page.get_by_text("No episode matches")).to_have_count(0)
    expect(page.get_by_label("Outcome")).to_be_disabled()
    page.click("nav >> text=Settings")
    expect(page.get_by_role("button", name="Create a token")).to_be_disabled()
    expect(page.get_by_role("button", name="Stop fleet")).to_be_enabled()


def test_a_hanging_laboratory_is_asked_for_nothing_but_a_stop(
    server: tuple[Server, ScriptedLab], context: BrowserContext
) -> None:
    running, lab = server
    expect, page = playwright.expect, context.new_page()
    set_up(page, running)
    lab.frozen = lab.snapshot()
    expect(page.get_by_text("No data from the lab")).to_be_visible()
    expect(
        page.get_by_role("button", name="Resume sim-1").or_(page.get_by_role("button", name="Pause sim-1"))
    ).to_be_disabled()
    page.get_by_role("button", name="Stop sim-1").click()
    page.click("nav >> text=Episodes")
    expect(page.locator("tr.pick").first).to_be_visible()
    expect(page.get_by_label("Outcome")).to_be_enabled()
    lab.frozen = None
    expect(page.get_by_text("No data from the lab")).to_have_count(0)
    assert ("stop", "sim-1") in {(verb, station) for verb, station, _ in lab.given.values()}


def test_a_stop_is_sent_again_until_it_arrives(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    expect, page = playwright.expect, context.new_page()
    set_up(page, running)
    seen: list[str | None] = []

    def hang(route: Route) -> None:
        seen.append(route.request.header_value("idempotency-key"))
        if len(seen) > 3:
            route.continue_()

    page.route("**/api/v1/commands", hang)
    stop = page.get_by_role("button", name="Stop sim-1")
    stop.dblclick()
    expect(page.get_by_role("alert")).to_contain_text("The stop of sim-1 has not arrived yet and is sent again")
    page.screenshot(path=artefacts / "stop-again.png")
    stop.click()
    expect(page.locator("[data-station=sim-1] .pill")).to_contain_text("Stopped")
    expect(stop).to_be_enabled()
    assert seen[0] == seen[1], "a double click is one command"
    assert len(set(seen)) == 2, "a later click is a command of its own"
    assert [verb for verb, _, _ in lab.given.values()][:1] == ["stop"]


def test_a_dead_camera_is_never_shown_as_live(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    expect, page = playwright.expect, context.new_page()
    lab.pictures["sim-1", "front"] = Preview(jpeg=_gray_picture())
    set_up(page, running)
    picture = page.locator("[data-station=sim-1] .picture")
    for _ in range(2):  # the same reason counts each time
        lab.pictures["sim-1", "front"] = Preview(jpeg=_gray_picture())
        expect(picture.get_by_alt_text("sim-1, camera front, now")).to_be_visible()
        lab.pictures["sim-1", "front"] = Preview(why="The cable is out.")
        expect(picture.get_by_text("The cable is out.")).to_be_visible()
        expect(picture.locator("img")).to_have_count(0)
    lab.pictures["sim-1", "front"] = Preview(jpeg=_gray_picture())
    expect(picture.get_by_text(re.compile(r"last image \d+ s ago"))).to_be_visible()
    expect(picture.get_by_alt_text(re.compile(r"sim-1, camera front, \d+ s ago"))).to_be_visible()
    page.screenshot(path=artefacts / "old-picture.png")


def _gray_picture() -> bytes:
    encoded = io.BytesIO()
    Image.new("L", (16, 10), 128).save(encoded, "jpeg")
    return encoded.getvalue()


def test_a_ledger_that_broke_is_said_above_the_last_figures(
    server: tuple[Server, ScriptedLab], context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, lab = server
    expect, page = playwright.expect, context.new_page()
    set_up(page, running)
    page.goto(f"{running.setup_link.partition('/setup')[0]}/campaigns/{lab.campaign_id}")
    expect(page.locator(".pill", has_text="Promoted")).to_be_visible()

    def broken(_: Archive) -> int:
        raise FileProblem("The ledger is damaged.")

    monkeypatch.setattr(Archive, "newest_seq", broken)
    expect(page.get_by_role("alert")).to_contain_text(
        "The ledger is damaged. The data below is from an earlier reading."
    )
    expect(page.locator(".pill", has_text="Promoted")).to_be_visible()
    monkeypatch.undo()
    expect(page.get_by_role("alert")).to_have_count(0)
