"""No page is wider than its window, and Stop fleet is in view: on a telephone, a tablet, a laptop and a desk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from enpire.home import open_home
from tests.end_to_end.conftest import NEEDED, PATIENCE_MS, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.recorded import History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
WIDTHS = (1440, 1024, 900, 390)
WIDTH = """new Promise((told) => requestAnimationFrame(() => requestAnimationFrame(
    () => told([document.documentElement.scrollWidth, innerWidth])
)))"""
"""How wide the page is, and its window, after two frames: charts are sized within one."""
UNCUT = "[...document.querySelectorAll('.tabs a')].every((tab) => tab.getBoundingClientRect().right <= innerWidth)"


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_page_fits_into_every_window(
    server: tuple[Server, ScriptedLab],
    past: History,
    browser: Browser,
    theme: Literal["light", "dark"],
    artefacts: Path,
) -> None:
    running, lab = server
    lab.alarms["sim-3"] = "success fell by 20 points within the last 200 episodes of this station"
    episode = past.run(1, "collect", "b" * 64, 1.0, round=2)[0].order.order_id
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900}, color_scheme=theme)
    context.set_default_timeout(PATIENCE_MS)
    try:
        watch, page = Watch(), context.new_page()
        watch.follow(page)
        set_up(page, running)
        site = running.setup_link.partition("/setup")[0]
        shown = {
            "/": ".tile", "/campaigns": "tr.pick", f"/campaigns/{past.campaign_id}": "text=Training runs",
            "/episodes": "tr.pick", f"/episodes/{episode}?t=1": ".uplot", "/policies": "text=Versions",
            "/settings": "text=Audit log",
        }  # fmt: skip
        for address, last in shown.items():
            page.goto(site + address)
            page.locator(last).first.wait_for()
            _look_at_all_widths(page, artefacts / f"{theme}-{address.split('/')[1] or 'fleet'}{address.count('/')}")
        page.click("text=Sign out")
        page.get_by_role("button", name="Sign in").wait_for()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert _fits(page)
        page.screenshot(path=artefacts / f"{theme}-sign-in.png")
        assert watch.complaints == []
    finally:
        context.close()


def _fits(page: Page) -> bool:
    wide, window = page.evaluate(WIDTH)
    return wide <= window


def _look_at_all_widths(page: Page, picture: Path) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert _fits(page), f"{page.url} is wider than a window of {width} px"
        assert page.evaluate(UNCUT), f"a tab is cut off at {width} px"
        page.mouse.wheel(0, 2000)
        for name in ("Stop fleet", "Colours", "Sign out"):
            playwright.expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=f"{picture}-{width}.png", full_page=True)


def test_an_empty_laboratory_on_a_telephone(tmp_path: Path, browser: Browser, artefacts: Path) -> None:
    running = Server(open_home(tmp_path).root, ScriptedLab(campaign_id="", names=()))
    running.start()
    context = browser.new_context(viewport={"width": 390, "height": 860}, color_scheme="dark")
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        set_up(page, running, stations=0)
        playwright.expect(page.get_by_text("No station has joined yet")).to_be_visible(timeout=PATIENCE_MS)
        page.screenshot(path=artefacts / "empty-dark.png", full_page=True)
        assert _fits(page)
        page.click("nav >> text=Episodes")
        playwright.expect(page.get_by_text("No episode has ended yet")).to_be_visible()
        playwright.expect(page.get_by_text("Remove a filter")).to_have_count(0)
        page.get_by_label("Outcome").select_option("failure")
        playwright.expect(page.get_by_text("Remove a filter")).to_be_visible()
        for name in ("Campaigns", "Policies", "Settings"):
            page.click(f"nav >> text={name}")
            page.locator("h1", has_text=name).wait_for()
            assert _fits(page)
    finally:
        context.close()
        running.stop()
