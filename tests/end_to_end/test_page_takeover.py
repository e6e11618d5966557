"""An operator takes a robot over in the browser, moves it with the keys, and gives it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.hand_station import HandStation
from tests.web_ui.recorded import History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


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
        expect(page.locator("section[aria-label=State]")).to_contain_text("no operator; orders arrive")
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
        station.until(lambda one: one.gives_back)
    assert watch.complaints == []
