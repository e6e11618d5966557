"""The list of episodes and the viewer: late answers, keys, addresses that somebody typed, pictures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.conftest import NEEDED, set_up
from tests.web_ui.recorded import SECOND, History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Route

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
PRESS = """(held) => {
    const press = new KeyboardEvent("keydown", {key: "ArrowRight", [held]: true, bubbles: true, cancelable: true});
    document.body.dispatchEvent(press);
    return press.defaultPrevented;
}"""
"""Press an arrow, with a key held; whether the page took it from the browser."""


@pytest.fixture
def page(server: tuple[Server, ScriptedLab], context: BrowserContext) -> Page:
    """The list of episodes, as an admin."""
    opened = context.new_page()
    set_up(opened, server[0])
    opened.click("nav >> text=Episodes")
    opened.locator("tr.pick").nth(30).wait_for()
    return opened


def site_of(page: Page) -> str:
    return page.url.partition("/episodes")[0]


def test_a_late_answer_never_overwrites_a_newer_filter(page: Page) -> None:
    expect = playwright.expect
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route) if "outcome=success" in route.request.url else route.continue_()

    page.route("**/api/v1/episodes?*", hold)
    page.get_by_label("Outcome").select_option("success")
    page.get_by_label("Outcome").select_option("failure")
    expect(page.locator("tr.pick .pill").first).to_contain_text("Failure")
    assert late
    with page.expect_response("**/api/v1/episodes?*outcome=success*"):
        late[0].continue_()
    page.get_by_label("Round").fill("2")
    with page.expect_response("**/api/v1/episodes?*round=2*"):
        page.get_by_label("Round").press("Enter")  # a later answer has come: the late one was taken or dropped
    expect(page.locator("section[aria-busy=false]")).to_be_visible()
    expect(page.locator("tr.pick td:nth-child(6)").first).to_have_text("2")
    assert set(page.locator("tr.pick .pill").all_inner_texts()) == {"✕\nFailure"}


def test_the_marked_row_stays_in_view(page: Page) -> None:
    for _ in range(30):
        page.keyboard.press("j")
    marked = page.locator("tr.pick.on")
    assert marked.evaluate("(row) => row.rowIndex") == 30
    playwright.expect(marked).to_be_in_viewport(ratio=1)
    for _ in range(29):
        page.keyboard.press("k")
    assert marked.bounding_box()["y"] >= page.locator(".bar").bounding_box()["height"]  # type: ignore[index]


def test_keys_of_the_browser_stay_with_the_browser(page: Page) -> None:
    page.get_by_label("Purpose").select_option("collect")
    page.locator("tr.pick a").first.click()
    page.locator(".transport").wait_for()
    taken = {key: page.evaluate(PRESS, key) for key in ("", "altKey", "ctrlKey", "metaKey")}
    assert taken == {"": True, "altKey": False, "ctrlKey": False, "metaKey": False}
    playwright.expect(page.get_by_text("frame 1")).to_be_visible()
    page.go_back()
    playwright.expect(page.get_by_label("Purpose")).to_have_value("collect")


def test_a_moment_that_is_none_is_the_beginning(page: Page) -> None:
    page.get_by_label("Purpose").select_option("collect")
    site, address = site_of(page), page.locator("tr.pick a").first.get_attribute("href") or ""
    for typed in ("abc", "NaN", "-1", "1e999"):
        page.goto(f"{site}{address}&t={typed}")
        playwright.expect(page.locator(".transport")).to_contain_text(re.compile(r"0\.00 of \d\.\d\d s · frame 0"))


def test_ended_episodes_are_shown_first_and_open_ones_when_asked(page: Page, past: History) -> None:
    expect = playwright.expect
    order = past.issue(3, "gate", SECOND, gate_id="G", round=3)[-1]
    page.reload()
    expect(page.locator("tr.pick").first).to_be_visible()
    expect(page.get_by_label("Outcome")).to_have_value("")
    expect(page.locator("tr.pick .pill", has_text="Open")).to_have_count(0)
    expect(page.locator("tr.pick td:nth-child(3)").first).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    page.get_by_label("Outcome").select_option("any")
    expect(page.locator("tr.pick .pill", has_text="Open")).to_have_count(3)
    page.get_by_label("Outcome").select_option("open")
    page.locator("tr.pick a", has_text=order.order_id[-10:]).click()
    expect(page.get_by_text("This episode has not ended yet")).to_be_visible()
    expect(page.get_by_text("Nothing was recorded")).to_have_count(0)
    past.end([order], 1.0)
    expect(page.get_by_text("This episode has not ended yet")).to_have_count(0)


def test_a_round_that_is_none_is_said_in_a_sentence(page: Page) -> None:
    expect = playwright.expect
    page.goto(f"{site_of(page)}/episodes?round=abc")
    expect(page.get_by_role("alert")).to_have_text("“abc” is not a round. Rounds are whole numbers from 0.")
    expect(page.get_by_text("No episode matches")).to_have_count(0)
    page.get_by_label("Round").fill("2")
    page.wait_for_timeout(1200)  # the fleet's news draw the filters again, and leave alone what is being typed
    page.get_by_label("Round").press("Enter")
    expect(page.locator("tr.pick").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
