"""The records of a campaign with branches in the browser: search beside gate, and what each branch used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.home import Home, open_home
from enpire.monitor.live_lab import LiveLab
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.fakes.sample_branches import record_branches
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Server]:
    home: Home = open_home(tmp_path / "home")
    record_branches(home.root)
    live = LiveLab(home)
    live.update(None)
    server = Server(home.root, live)
    server.start()
    yield server
    server.stop()


def test_the_campaign_page_shows_each_branch(site: Server, context: BrowserContext, artefacts: Path) -> None:
    watch, page = Watch(), context.new_page()
    watch.follow(page)
    expect = playwright.expect
    set_up(page, site, stations=0)
    expect(page.get_by_text("no campaign runs in this home")).to_be_visible()
    page.click("nav >> text=Campaigns")
    page.click("tr.pick a")
    card = page.locator("section[aria-label=Branches]")
    expect(card).to_contain_text("robots act for 1")
    expect(card).to_contain_text("branches 3 min 10 s")
    rows = card.locator("tbody tr")
    expect(rows).to_have_count(3)
    learned = ("16 episodes", "4 demonstrations", "12 of its own")
    for text in ("hil_serl", "Kept", "better", *learned, "100.0 %", "median 40 commands", "24 starts", "gates "):
        expect(rows.nth(0)).to_contain_text(text)
    for text in ("Reverted", "no gain"):
        expect(rows.nth(1)).to_contain_text(text)
    for text in ("Searching", "share 100 %", "continues branch 1"):
        expect(rows.nth(2)).to_contain_text(text)
    expect(page.locator("section", has=page.locator("h2", has_text="Gates")).last).to_contain_text("branch 1")
    card.screenshot(path=artefacts / "branches.png")
    assert watch.complaints == []
