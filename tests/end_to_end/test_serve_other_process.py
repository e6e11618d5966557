"""`enpire serve` beside `enpire run`, two processes over one home, in the browser."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.home import open_home
from enpire.queries import campaigns
from tests.agent_loop.simulated_campaign import running
from tests.end_to_end.conftest import NEEDED, PASSWORD
from tests.end_to_end.watch import Watch

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow, *NEEDED,
    pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="mujoco is not installed"),
]  # fmt: skip


@contextmanager
def serving(folder: Path, home: Path) -> Iterator[str]:
    """The pages in a process of their own; the set-up link that it prints."""
    log = folder / "serve.txt"
    command = [sys.executable, "-m", "enpire.cli", "serve", "--home", str(home), "--port", "0"]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 300
        while not (said := re.search(r"Page: (\S+)\n", log.read_text())) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert said is not None, log.read_text()
        yield said[1]
    finally:
        server.terminate()
        server.wait(600)


def test_a_campaign_of_another_process_is_seen_and_commanded(
    tmp_path: Path, context: BrowserContext, artefacts: Path
) -> None:
    home = open_home(tmp_path / "home")
    watch, page, expect = Watch(), context.new_page(), playwright.expect
    expect.set_options(timeout=60_000)
    watch.follow(page)
    with serving(tmp_path, home.root) as link:
        page.goto(link)
        page.fill("[name=name]", "ada")
        page.fill("[name=password]", PASSWORD)
        page.click("text=Create the admin")
        expect(page.get_by_text("no campaign runs in this home")).to_be_visible()
        with running(tmp_path, home.root) as campaign_id:
            expect(page.locator(".tile")).to_have_count(2)
            expect(page.locator(".live")).to_have_text(re.compile(r"live \d"))
            expect(page.locator("[data-station=sim-1] .verdicts span").first).to_be_visible()
            _command(page)
            page.screenshot(path=artefacts / "beside.png", full_page=True)
        expect(page.get_by_text("no campaign runs in this home")).to_be_visible()
        expect(page.locator(".tile")).to_have_count(0)
        page.screenshot(path=artefacts / "beside-nothing.png", full_page=True)
    with campaigns.open_records(home.root) as records:
        kinds = ("command effective", "campaign paused", "campaign continued")
        told = [event for event in records.ledger.events(kinds=kinds) if event.body["campaign_id"] == campaign_id]
    verbs = [event.body["verb"] for event in told if event.kind == "command effective"]
    assert verbs == ["stop", "resume", "pause campaign", "continue campaign"]
    assert {str(event.body["by"]) for event in told} == {"ada"}
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


def _command(page: Page) -> None:
    """Stop one station, resume it, pause the campaign and let it go on, each until it is effective."""
    expect, tile = playwright.expect, page.locator("[data-station=sim-1]")
    page.get_by_role("button", name="Stop sim-1").click()
    expect(page.locator("[data-command=stop][data-state=effective]")).to_have_count(1)
    expect(tile.locator(".pill")).to_contain_text("Stopped")
    page.get_by_role("button", name="Resume sim-1").click()
    expect(page.locator("[data-command=resume][data-state=effective]")).to_have_count(1)
    expect(tile.locator(".pill")).not_to_contain_text("Stopped")
    page.locator(".head a").first.click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.click("nav >> text=Fleet")
    expect(page.locator("[data-command='continue campaign'][data-state=effective]")).to_have_count(1)
