"""A real campaign in the browser: the command as people type it, four station processes, what they see of it."""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.queries import campaigns
from enpire.requests import operator_commands
from tests.end_to_end.conftest import NEEDED, PASSWORD
from tests.end_to_end.watch import Watch

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    *NEEDED,
    pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="mujoco is not installed"),
]  # fmt: skip
NAMES = [f"sim-{number}" for number in range(1, 5)]
PATIENCE_MS = 120_000
"""On a machine that other tests use, too; a quiet one needs a tenth of it."""
SMALL = """
name: small
task: pin_insertion
recipe: habc_plus
stations: {count: 4, lanes: 1, pace: realtime, reset: teleport, ahead: 2}
base: {recipe: clone_demonstrations, demonstrations: 400, evaluate_starts: 20}
budget: {wall_s: 900}
"""
"""Four robots at the speed of real ones, which demonstrate for longer than the test looks at them."""
LIVE = "() => [...document.querySelectorAll('.tile .picture img')].filter((one) => one.naturalWidth > 0).length === 4"


@contextmanager
def running(folder: Path, home: Path) -> Iterator[str]:
    """`enpire run` in a process of its own, ended by a person; the set-up link that it prints."""
    plan, log = folder / "small.yaml", folder / "run.txt"
    plan.write_text(SMALL)
    with log.open("wb") as out:
        command = [sys.executable, "-m", "enpire.cli", "run", str(plan), "--home", str(home)]
        campaign = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not (said := re.search(r"Page: (\S+)\n", log.read_text())) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert said is not None, log.read_text()
        yield said[1]
        operator_commands.leave(home / "inbox", "end campaign", operator="ada")
        assert campaign.wait(PATIENCE_MS / 1000) == 3, log.read_text()
    finally:
        if campaign.poll() is None:
            campaign.send_signal(signal.SIGINT)
            campaign.wait(600)
    assert log.read_text().endswith(f"Show its page again: enpire serve --home {home}\n")


@pytest.mark.slow
def test_an_operator_and_four_real_stations(tmp_path: Path, context: BrowserContext, artefacts: Path) -> None:
    watch, page, expect = Watch(), context.new_page(), playwright.expect
    expect.set_options(timeout=PATIENCE_MS)
    page.set_default_timeout(PATIENCE_MS)
    watch.follow(page)
    with running(tmp_path, tmp_path / "home") as link:
        page.goto(link)
        page.fill("[name=name]", "ada")
        page.fill("[name=password]", PASSWORD)
        page.click("text=Create the admin")
        page.click("text=Sign out")
        page.fill("[name=name]", "ada")
        page.fill("[name=password]", PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        _see_four_live_stations(page)
        page.screenshot(path=artefacts / "real-fleet.png", full_page=True)
        _stop_one_and_resume(page, artefacts)
        _scrub_a_success(page)
        page.screenshot(path=artefacts / "real-episode.png", full_page=True)
        page.click("text=Sign out")
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        assert page.evaluate("fetch('/api/v1/fleet').then((answer) => answer.status)") == 401
        page.close()
    assert [said for said in watch.complaints if "401" not in said] == []
    assert watch.hosts == {"127.0.0.1"}
    _check_the_records(tmp_path / "home")


def _see_four_live_stations(page: Page) -> None:
    expect = playwright.expect
    expect(page.locator(".tile")).to_have_count(4)
    expect(page.locator(".live")).to_have_text(re.compile(r"live \d"))
    for name in NAMES:
        expect(page.locator(f"[data-station={name}] .verdicts span").first).to_be_visible()
    if find_library("EGL") or find_library("OSMesa"):
        page.wait_for_function(LIVE)
        moving = page.locator("[data-station=sim-1] .picture img")
        expect(moving).not_to_have_attribute("src", str(moving.get_attribute("src")))
    else:
        expect(page.locator(".picture", has_text="No pictures: no GL library")).to_have_count(4)


def _stop_one_and_resume(page: Page, artefacts: Path) -> None:
    expect, tile = playwright.expect, page.locator("[data-station=sim-2]")
    page.get_by_role("button", name="Stop sim-2").click()
    expect(page.locator("[data-command=stop][data-state=effective]")).to_have_count(1)
    expect(tile.locator(".pill")).to_contain_text("Stopped")
    expect(page.locator("[data-station=sim-1] .pill")).not_to_contain_text("Stopped")
    page.screenshot(path=artefacts / "real-one-stopped.png", full_page=True)
    page.get_by_role("button", name="Resume sim-2").click()
    expect(page.locator("[data-command=resume][data-state=effective]")).to_have_count(1)
    expect(tile.locator(".pill")).not_to_contain_text("Stopped")


def _scrub_a_success(page: Page) -> None:
    expect = playwright.expect
    expect(page.locator(".verdicts span.ok").first).to_be_visible()
    page.click("nav >> text=Episodes")
    page.get_by_label("Outcome").select_option("success")
    page.locator("tr.pick a").first.click()
    expect(page.locator(".path")).to_have_count(2)
    page.get_by_label("Time in the episode").fill("10")
    expect(page.get_by_text("frame 10")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("frame 11")).to_be_visible()


def _check_the_records(home: Path) -> None:
    """Four processes joined, and the ledger has what the browser saw."""
    with campaigns.open_records(home) as records:
        told = list(records.ledger.events())
    assert {str(event.body["station"]) for event in told if event.kind == "station joined"} == set(NAMES)
    effective = [event.body for event in told if event.kind == "command effective"]
    assert [(body["verb"], body["target"], body["by"]) for body in effective] == [
        ("stop", "sim-2", "ada"), ("resume", "sim-2", "ada"), ("end campaign", "", "ada"),
    ]  # fmt: skip
