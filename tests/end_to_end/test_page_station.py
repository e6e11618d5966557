"""The page of one station: service, motions of an idle robot, who moves it, when to intervene, touch pads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.axe import AXE, violations
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.hand_station import HandStation
from tests.web_ui.recorded import History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


def test_an_operator_marks_a_station_for_service_moves_its_robot_and_clears_it(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    watch, page, expect = Watch(), context.new_page(), playwright.expect
    watch.follow(page)
    set_up(page, running)
    page.get_by_role("link", name="sim-2").click()
    state = page.locator("section[aria-label=State]")
    expect(state.locator("[data-moved-by]")).to_have_text(f"policy version {lab.champion[:8]}")
    expect(page.get_by_role("button", name="Reset")).to_be_disabled()
    page.get_by_role("button", name="Needs service").click()
    expect(page.locator("dialog[open]")).to_contain_text("Resume does not end this")
    page.get_by_label("Reason").fill("the gripper slips")
    page.keyboard.press("Enter")
    expect(page.locator("[data-command=service][data-state=effective]")).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="the gripper slips (ada)")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    expect(state).to_contain_text("ada, because it needs service: Service done ends it")
    expect(state.locator("[data-moved-by]")).to_have_text("nothing: it waits")
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="⌂ Home").click()
    expect(page.locator("[data-command=home][data-state=effective]")).to_have_count(1)
    page.screenshot(path=artefacts / "station-in-service.png", full_page=True)
    if AXE.is_file():
        assert violations(page) == []
    page.click("nav >> text=Inbox")
    alarm = page.locator("section[aria-label=Alarms] li", has_text="Needs service: the gripper slips (ada)")
    alarm.get_by_role("button", name="Service done").click()
    expect(page.locator("[data-command='service done'][data-state=effective]")).to_have_count(1)
    expect(alarm).to_have_count(0)
    given = [(kind, target) for kind, target, _ in lab.given.values()]
    assert given == [(kind, "sim-2") for kind in ("service", "reset", "home", "service done")]
    assert watch.complaints == []


def test_a_station_whose_task_has_no_home_says_so(server: tuple[Server, ScriptedLab], context: BrowserContext) -> None:
    running, lab = server
    page = context.new_page()
    set_up(page, running)
    page.goto(f"{running.address}/stations/sim-1")
    playwright.expect(page.get_by_role("button", name="Home")).to_be_visible()
    lab.motions = ("reset",)
    playwright.expect(page.locator("[data-homeless]")).to_have_text("Home: this task declares no home position")
    playwright.expect(page.get_by_role("button", name="⌂ Home")).to_have_count(0)
    playwright.expect(page.get_by_role("button", name="Reset")).to_be_visible()


def test_a_finger_on_the_touch_pads_moves_the_robot_and_the_page_says_when_to_intervene(
    server: tuple[Server, ScriptedLab], past: History, browser: Browser, artefacts: Path
) -> None:
    running, _ = server
    expect = playwright.expect
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.set_default_timeout(60_000)
    try:
        page = context.new_page()
        set_up(page, running)
        page.locator("dt", has_text="Robot utilisation").tap()
        expect(page.locator("[data-hint]")).to_contain_text("time on orders over wall-clock time")
        page.get_by_role("button", name="Help").tap()
        expect(page.get_by_role("dialog", name="Keys")).to_contain_text("time on orders over wall-clock time")
        page.get_by_role("button", name="Close").tap()
        with HandStation(past.home) as station:
            page.goto(f"{running.address}/stations/sim-1")
            panel = page.locator("section[aria-label='Take over']")
            expect(panel.locator("[data-viability='0.21']")).to_contain_text(
                "Consider taking over: predicted success 21 %"
            )
            panel.get_by_role("button", name="Take over").click()
            expect(panel.locator("[data-hold=moving]")).to_be_visible()
            panel.get_by_label("Speed in percent").fill("100")
            pad = panel.get_by_label(re.compile("^Touch pad: vx_mm_s to the right, vy_mm_s up"))
            pad.scroll_into_view_if_needed()
            box = pad.bounding_box()
            assert box is not None
            x, y = box["x"] + box["width"], box["y"] + box["height"] / 2
            page.mouse.move(x - 2, y)
            page.mouse.down()
            station.until(lambda one: one.axes[:1] > (0.9,) and abs(one.axes[1]) < 0.1)
            page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 2)
            station.until(lambda one: abs(one.axes[0]) < 0.1 and one.axes[1] > 0.9 if one.axes else False)
            page.screenshot(path=artefacts / "touch-pads-390.png", full_page=True)
            count = len(station.inputs)
            page.mouse.up()
            station.until(lambda one: one in station.inputs[count:] and not any(one.axes))
            panel.get_by_role("button", name="Give back").click()
            station.until(lambda one: one.gives_back)
    finally:
        context.close()
