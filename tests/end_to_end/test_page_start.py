"""An operator starts a campaign in the browser, watches its first robot, and ends it; its process outlives no test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.home import open_home
from enpire.queries.campaigns import is_driven, open_records
from enpire.service.starting import QueueRunner
from enpire.service.watching import LiveFileReader, LiveLab
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.fakes.waiting import until
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow, *NEEDED,
    pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="mujoco is not installed"),
]  # fmt: skip
PATIENCE_MS = 180_000


def test_a_campaign_is_started_watched_and_ended_from_the_page(
    tmp_path: Path, context: BrowserContext, artefacts: Path
) -> None:
    home = open_home(tmp_path / "home")
    live, said = LiveLab(home), list[str]()
    live.update(None)
    watch, page, expect = Watch(), context.new_page(), playwright.expect
    expect.set_options(timeout=PATIENCE_MS)
    page.set_default_timeout(PATIENCE_MS)
    watch.follow(page)
    server = Server(home.root, live)
    server.start()
    try:
        with LiveFileReader(home, live), QueueRunner(home, said.append) as queue:
            set_up(page, server, stations=0)
            page.get_by_role("link", name="Start a campaign").click()
            page.get_by_label("Name").fill("night-1")
            page.get_by_label("Simulated stations").fill("1")
            page.get_by_label("Robots of each station").fill("1")
            page.get_by_label("Wall-clock").fill("30")
            page.get_by_role("button", name="Start", exact=True).click()
            expect(page.get_by_role("status")).to_contain_text("night-1 is queued. It starts in a few seconds")
            page.get_by_role("link", name="Go to the fleet").click()
            expect(page.locator("[data-station=sim-1] .verdicts span").first).to_be_visible()
            page.screenshot(path=artefacts / "started.png", full_page=True)
            page.locator(".head a").first.click()
            page.get_by_role("group", name="Commands to the campaign").get_by_role("button", name="End").click()
            page.get_by_role("button", name="End the campaign").click()
            until(lambda: not is_driven(home.root) and queue._running is None, "the campaign's process has ended")
            page.click("nav >> text=Fleet")
            expect(page.locator("section[aria-label='Latest campaign']")).to_contain_text("ada stopped the campaign")
    finally:
        server.stop()
    assert watch.complaints == []
    assert [line.partition(":")[0] for line in said] == ["Starting the campaign 'night-1' for ada"]
    with open_records(home.root) as records:
        [begun] = [entry.body for entry in records.ledger.events(kinds=("campaign started",))]
        ended = [entry.body for entry in records.ledger.events(kinds=("command effective",))]
    assert begun["name"] == "night-1"
    assert [(body["verb"], body["by"]) for body in ended] == [("end campaign", "ada")]
