"""Every page satisfies the rules of axe-core, in light and in dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from enpire.store.pictures import NAME, keep
from tests.end_to_end.axe import AXE, violations
from tests.end_to_end.conftest import NEEDED, set_up
from tests.web_ui.failing import add_failures
from tests.web_ui.recorded import History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = [
    pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: make ui"),
    *NEEDED,
]


def pages(campaign_id: str, failed: list[str]) -> tuple[tuple[str, str, str], ...]:
    """(name, path, what the page shows when it is there) of every page that is open to a signed-in user."""
    campaign = f"/campaigns/{campaign_id}"
    return (
        ("station", "/stations/sim-1", "section[aria-label='Last episodes']"),
        ("inbox", "/inbox", "[data-approval]"),
        ("start", "/start", "form"),
        ("campaigns", "/campaigns", "tr.pick"),
        ("campaign", campaign, "text=Training runs"),
        ("report", f"{campaign}/report", "article.report >> text=Checks of the records"),
        ("failures", f"{campaign}/failures?starts=train", ".map"),
        ("episodes", "/episodes", "tr.pick"),
        ("filmstrips", "/episodes?outcome=failure&round=3&starts=train&view=grid", ".episode-card"),
        ("episode", f"/episodes/{failed[0]}?t=1", ".uplot"),
        ("compare", f"/compare?a={failed[0]}&b={failed[1]}", "text=from different starts"),
        ("policies", "/policies", "text=Versions"),
        ("settings", "/settings", "text=Audit log"),
        ("no page", "/nothing", "text=There is no page"),
    )


WITHOUT_MEANING = """() => [...document.querySelectorAll(
  "th.right, .summary dt, section[aria-label=State] dt, .facts > span, .result dt",
)].filter((one) => !one.title && one.textContent.trim()).map((one) => one.textContent)"""
"""Heads of number columns and names of numbers that say nothing on hover."""

UNLISTED = """() => [...document.querySelectorAll("#content [title]")].filter((one) =>
  /\\d/.test(one.textContent) && one.title && one.title !== one.textContent && !one.dataset.term
  && !one.matches("dt, th, .mono, a, button, label, summary, :has(.mono)")
).map((one) => `${one.textContent.slice(0, 80)}: ${one.title.slice(0, 80)}`)"""
"""Numbers whose definition the keyboard does not reach: `?` does not list it, and the number never has the focus."""


def test_every_page_satisfies_axe(server: tuple[Server, ScriptedLab], past: History, context: BrowserContext) -> None:
    running, lab = server
    failed = [one for one, how in add_failures(past, 60).items() if how == "above"][-2:]
    for order_id in failed:
        folder = past.home / "episodes" / past.campaign_id / order_id
        keep(folder / NAME, [{"front": np.full((24, 32, 3), 90, np.uint8)}] * 12)
    lab.alarms |= {"sim-2": "the gripper does not close", "sim-3": "the gripper does not close"}
    lab.quarantined["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"] = "displacement: 3 successes are not believed"
    lab.campaign_id = past.campaign_id
    found: dict[str, list[str]] = {}
    page = context.new_page()

    def look(name: str) -> None:
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        in_light = violations(page)
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        if broken := in_light + [f"dark: {one}" for one in violations(page, "color-contrast")]:
            found[name] = broken
        assert page.evaluate(WITHOUT_MEANING) == [], f"{name}: add them to web_ui/ui/src/terms.ts"
        assert page.evaluate(UNLISTED) == [], f"{name}: give them a data-term (web_ui/ui/src/parts/Terms.tsx)"

    page.goto(running.setup_link)
    page.locator("[name=name]").wait_for()
    look("set up")
    set_up(page, running)
    look("fleet")
    for name, path, shows in pages(past.campaign_id, failed):
        page.goto(running.address + path)
        page.locator(shows).first.wait_for()
        look(name)
    page.goto(running.address)
    page.get_by_role("button", name="Stop fleet").click()
    look("question")
    page.keyboard.press("Escape")
    lab.names = tuple(f"robot-{number}" for number in range(30))
    page.locator(".wall [data-station=robot-29]").wait_for()
    page.keyboard.press("?")
    look("keys, over the dense wall")
    page.keyboard.press("Escape")
    look("dense wall")
    lab.frozen = lab.snapshot()
    page.get_by_text("No data from the lab").wait_for()
    look("stale")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in").wait_for()
    look("sign in")
    assert found == {}
