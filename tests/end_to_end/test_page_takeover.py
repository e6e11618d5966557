"""An operator takes a robot over in the browser, moves it with the keys, and gives it back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from robot_drivers.browser_operator import SILENT_PERIODS
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.hand_station import HandStation, RealOperator
from tests.web_ui.recorded import History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
GAME_PAD = 'navigator.getGamepads = () => [null, {connected: true, mapping: "standard", axes: [0.1, -0.75, 0, 0]}]'
"""A game pad whose left stick is pushed up, and hardly to the right."""


def test_keys_move_the_robot_until_it_is_given_back(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    running, _ = server
    watch, page, expect = Watch(), context.new_page(), playwright.expect
    watch.follow(page)
    set_up(page, running)
    with HandStation(past.home) as station:
        page.get_by_role("link", name="sim-1").click()
        expect(page.locator("section[aria-label=Phases]")).to_be_visible()
        expect(page.locator("section[aria-label='Last episodes'] tbody tr")).to_have_count(10)
        expect(page.locator("section[aria-label=Sensors]")).to_contain_text("tip_x_mm−1.524 mm")
        expect(page.locator("section[aria-label=State]")).to_contain_text("29.9 Hz, jitter 0.8 ms (p95)")
        expect(page.locator("section[aria-label=State]")).to_contain_text("not held: it takes orders")
        panel = page.locator("section[aria-label='Take over']")
        panel.get_by_role("button", name="Take over").click()
        expect(panel.locator("[data-hold=moving]")).to_be_visible()
        expect(panel.locator("dl")).to_contain_text("vx_mm_s")
        panel.get_by_label("Speed in percent").fill("100")
        page.locator("h1").click()
        page.keyboard.down("d")
        station.until(lambda one: one.axes[:2] == (1.0, 0.0))
        page.keyboard.down("s")
        station.until(lambda one: one.axes[:2] == (1.0, -1.0))
        page.screenshot(path=artefacts / "take-over.png", full_page=True)
        page.keyboard.up("d")
        page.keyboard.up("s")
        count = len(station.inputs)
        station.until(lambda one: one in station.inputs[count:] and not any(one.axes))
        page.evaluate(GAME_PAD)
        station.until(lambda one: one.axes[:2] == (0.0, 0.75))
        page.evaluate("delete navigator.getGamepads")
        panel.get_by_role("button", name="Give back").click()
        station.until(lambda one: one.gives_back)
        expect(panel.locator("[data-hold=none]")).to_be_visible()
        station.inputs.clear()
        panel.get_by_role("button", name="Take over").click()
        expect(panel.locator("[data-hold=moving]")).to_be_visible()
        page.evaluate("dispatchEvent(new Event('blur'))")
        station.until(lambda one: one.gives_back)
        expect(panel.get_by_role("alert")).to_contain_text("lost the focus")
        station.inputs.clear()
        panel.get_by_role("button", name="Take over").click()
        expect(panel.locator("[data-hold=moving]")).to_be_visible()
        page.close()
        station.until_alone()
    assert watch.complaints == []


def test_a_tab_that_is_killed_leaves_the_robot_holding_within_three_periods(
    server: tuple[Server, ScriptedLab], past: History, browser: Browser, context: BrowserContext
) -> None:
    running, _ = server
    page = context.new_page()
    set_up(page, running)
    with RealOperator(past.home) as robot:
        page.goto(f"{running.address}/stations/sim-1")
        panel = page.locator("section[aria-label='Take over']")
        panel.get_by_role("button", name="Take over").click()
        robot.until(lambda: robot.held)
        page.locator("h1").click()
        page.keyboard.down("d")
        robot.until(lambda: robot.moves)
        _kill_tabs(browser)
        robot.until(lambda: robot.silent_periods > SILENT_PERIODS)
        assert robot.held, "the operator's take-over lasts for a second"
        assert not robot.moves, "and meanwhile the robot holds"
        robot.until(lambda: not robot.held)


def _kill_tabs(browser: Browser) -> None:
    """End every tab of a browser as a crash does: no code of the page runs any more."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    tabs = [one["id"] for one in found if one["type"] == "renderer"]
    assert tabs
    for pid in tabs:
        os.kill(pid, signal.SIGKILL)
