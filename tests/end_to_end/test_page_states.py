"""Every state at three widths, dark and light: no page is wider than its window.

The screenshots are kept in test-artefacts/page, to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.conftest import NEEDED, PATIENCE_MS, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
WIDTHS = (390, 1280, 1920)
SETTLED = """new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
    () => done([document.documentElement.scrollWidth, innerWidth])
)))"""


@dataclass(frozen=True)
class State:
    """One state of the lab, and what shows that the page is in it."""

    name: str
    begin: Callable[[ScriptedLab], None]
    shows: str


def _empty(lab: ScriptedLab) -> None:
    lab.names = ()


def _busy(lab: ScriptedLab) -> None:
    lab.names = tuple(f"sim-{number}" for number in range(1, 5))


def _alarm(lab: ScriptedLab) -> None:
    lab.alarms |= {"sim-2": "the gripper does not close", "sim-3": "the gripper does not close"}
    lab.paused_why = "3 of 20 successes that people checked were none."
    lab.quarantined["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"] = "displacement: 3 successes are not believed"


def _many(lab: ScriptedLab) -> None:
    lab.names = tuple(f"robot-{number:03}" for number in range(1, 101))
    lab.alarms = {"robot-077": "camera front has sent no image for 14 s", "robot-012": "the gripper does not close"}


def _stale(lab: ScriptedLab) -> None:
    _busy(lab)
    lab.frozen = lab.snapshot()


STATES = (
    State("empty", _empty, "text=No station has joined yet"),
    State("busy", _busy, "[data-station=sim-4]"),
    State("alarm", _alarm, ".attention >> text=the gripper does not close"),
    State("hundred", _many, ".wall [data-station=robot-100]"),
    State("stale", _stale, "text=No data from the lab"),
)


def test_every_state_at_every_width_dark_and_light(
    server: tuple[Server, ScriptedLab], browser: Browser, artefacts: Path
) -> None:
    running, lab = server
    context = browser.new_context(viewport={"width": WIDTHS[-1], "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    try:
        watch, page = Watch(), context.new_page()
        watch.follow(page)
        set_up(page, running)
        for state in STATES:
            lab.alarms.clear()
            lab.paused_why = ""
            lab.quarantined.clear()
            state.begin(lab)
            page.locator(state.shows).first.wait_for()
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                for width in WIDTHS:
                    page.set_viewport_size({"width": width, "height": 1000})
                    wide, window = page.evaluate(SETTLED)
                    assert wide <= window, f"{state.name} is wider than {width} px"
                    page.screenshot(path=artefacts / f"state-{state.name}-{theme}-{width}.png", full_page=width < 1000)
            if state.name == "hundred":
                _use_the_wall(page)
        assert watch.complaints == []
    finally:
        context.close()


def _use_the_wall(page: Page) -> None:
    """What needs an operator is first; groups and tiles are one press away."""
    expect = playwright.expect
    lines = page.locator(".wall [data-station]")
    expect(lines).to_have_count(100)
    assert [lines.nth(at).get_attribute("data-station") for at in range(3)] == ["robot-012", "robot-077", "robot-001"]
    expect(page.locator(".wall .group").first).to_contain_text("Alarms 2")
    page.get_by_label("Group by").select_option("version")
    expect(page.locator(".wall .group")).to_have_count(1)
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Show tiles").click()
    expect(page.locator(".tile")).to_have_count(100)
    page.get_by_role("button", name="Show the dense wall").click()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("stop all robots")
    expect(dialog).to_contain_text("Episodes per minute, mean of this session")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Stop fleet").focus()
    expect(page.locator("[data-hint]")).to_have_text("Stop all robots (Shift+Esc)")
    page.evaluate("dispatchEvent(new Event('scroll'))")
    expect(page.locator("[data-hint]")).to_have_text("Stop all robots (Shift+Esc)")
    page.get_by_role("button", name="Stop fleet").evaluate("one => { one.title = 'Changed' }")
    expect(page.locator("[data-hint]")).to_have_text("Changed")
    page.keyboard.press("Escape")
    expect(page.locator("[data-hint]")).to_have_count(0)


def test_a_thousand_stations_stay_usable(server: tuple[Server, ScriptedLab], browser: Browser) -> None:
    running, lab = server
    lab.names = tuple(f"robot-{number:04}" for number in range(1, 1001))
    lab.alarms["robot-0999"] = "the gripper does not close"
    lab.frozen = replace(lab.snapshot() or pytest.fail("no lab"))
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        set_up(page, running, stations=0)
        lines = page.locator(".wall [data-station]")
        playwright.expect(lines).to_have_count(200)
        playwright.expect(lines.first).to_contain_text("robot-0999")
        page.get_by_role("button", name="Show 200 more").click()
        playwright.expect(lines).to_have_count(400)
        lab.frozen = None
        page.get_by_role("button", name="Stop fleet").click()
        page.get_by_role("dialog").get_by_role("button", name="■ Stop fleet").click()
        playwright.expect(page.locator("[data-command=stop][data-state=effective]")).to_have_count(1)
    finally:
        context.close()


def test_an_operator_approves_what_was_shown_and_rejects(
    server: tuple[Server, ScriptedLab], browser: Browser, artefacts: Path
) -> None:
    running, lab = server
    waiting, other = "01JD3Y6Z8Q4M0C5T9V2K7B1XNA", "01JD3Y6Z8Q4M0C5T9V2K7B1XNB"
    lab.quarantined |= dict.fromkeys((waiting, other), "approval: an experiment of an agent starts after an approval")
    lab.newest_event = 40
    expect, context = playwright.expect, browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        set_up(page, running)
        page.goto(f"{running.address}/inbox")
        row, dialog = page.locator(f"[data-approval='{waiting}']"), page.get_by_role("dialog")
        row.get_by_role("button", name="Approve").click()
        expect(dialog).to_contain_text("starts after an approval. An approved experiment trains")
        expect(dialog).to_contain_text("A tripwire that trips after this moment still holds it.")
        lab.quarantined[waiting] = f"canary: a text repeats the word; {lab.quarantined[waiting]}"
        lab.newest_event = 41
        expect(row).to_contain_text("In quarantine (canary: a text repeats the word")
        page.screenshot(path=artefacts / "approve.png")
        page.get_by_label("Reason").fill("the change is small")
        dialog.get_by_role("button", name="Approve").click()
        expect(page.locator("[data-command='experiment clear'][data-state=effective]")).to_have_count(1)
        expect(row.get_by_role("button", name="Clear")).to_be_visible()
        assert lab.seen[-1] == 40, "the approval names what the dialog showed, not what came while it was open"
        reject = page.locator(f"[data-approval='{other}']").get_by_role("button", name="Reject")
        reject.click()
        page.get_by_label("Reason").fill("not before Friday")
        dialog.get_by_role("button", name="Reject").click()
        expect(page.locator("[data-command='experiment quarantine'][data-state=effective]")).to_have_count(1)
        sent = {(kind, target) for kind, target, _ in lab.given.values()}
        assert sent >= {("experiment clear", waiting), ("experiment quarantine", other)}
    finally:
        context.close()


def test_an_operator_clears_a_quarantine_with_a_reason(server: tuple[Server, ScriptedLab], browser: Browser) -> None:
    running, lab = server
    experiment = "01JD3Y6Z8Q4M0C5T9V2K7B1XNA"
    lab.quarantined[experiment] = "displacement: 3 successes are not believed"
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        set_up(page, running)
        page.goto(f"{running.address}/inbox")
        page.get_by_role("button", name="Clear").click()
        page.get_by_label("Reason").fill("the camera had slipped")
        page.get_by_role("dialog").get_by_role("button", name="Clear").click()
        playwright.expect(page.locator("[data-approval]")).to_have_count(0)
        assert ("experiment clear", experiment) in {(kind, target) for kind, target, _ in lab.given.values()}
    finally:
        context.close()
