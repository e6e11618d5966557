"""The page in a real browser, against a real server: what an operator does in the first five minutes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.conftest import NEEDED, PASSWORD, PATIENCE_MS, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


def test_an_operators_first_minutes(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    watch, page = Watch(), context.new_page()
    watch.follow(page)
    expect = playwright.expect
    expect.set_options(timeout=PATIENCE_MS)

    page.goto(running.setup_link)
    page.fill("[name=name]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.click("text=Create the admin")
    expect(page.locator(".tile")).to_have_count(4)
    page.click("text=Sign out")
    page.fill("[name=name]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".tile")).to_have_count(4)
    expect(page.locator(".live")).to_have_text(re.compile(r"live \d"))
    page.screenshot(path=artefacts / "fleet.png", full_page=True)

    _stop_one_and_resume(page, artefacts)
    _stop_the_fleet_by_keyboard(page, artefacts)
    _stop_the_fleet_from_another_question(page)
    _scrub_an_episode(page, artefacts)
    page.click("nav >> text=Campaigns")
    page.click("tr.pick a")
    expect(page.locator(".pill", has_text="Promoted")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Hypothesis 1 .*: warmer noise finds more successes; Kept")).press(
        "Enter"
    )
    expect(page.get_by_text("the gate does not promote it")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".budget")).to_contain_text("of 2 h 00 min")
    _read_why_a_command_was_refused(page, lab)
    page.screenshot(path=artefacts / "campaign.png", full_page=True)
    _promote_with_a_reason(page, artefacts)

    page.route(
        "**/api/v1/session", lambda route: route.abort() if route.request.method == "DELETE" else route.continue_()
    )
    page.click("text=Sign out")
    expect(page.get_by_role("alert")).to_contain_text("You are still signed in. The server did not answer.")
    page.get_by_role("button", name="Dismiss").click()
    page.unroute_all()
    expect(page).to_have_title("Policies · ENPIRE")
    page.click("text=Sign out")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    expect(page).to_have_title("Sign in · ENPIRE")
    assert page.evaluate("fetch('/api/v1/fleet').then((answer) => answer.status)") == 401
    refused = [said for said in watch.complaints if "401" not in said and "ERR_FAILED" not in said]
    assert refused == []
    assert watch.hosts == {"127.0.0.1"}


def test_a_paused_campaign_and_station_are_resumed_on_the_first_page(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path
) -> None:
    running, lab = server
    expect, page = playwright.expect, context.new_page()
    set_up(page, running)
    expect(page.get_by_text("Nothing needs attention.")).to_be_visible()
    expect(page.locator(".summary")).to_contain_text("goal at least 97 %")
    lab.paused_why = "2 of 2 successes that people checked were none."
    page.get_by_role("button", name="Pause sim-1").click()
    attention = page.locator(".attention")
    expect(attention).to_contain_text(f"Paused: {lab.paused_why}")
    expect(attention).to_contain_text("Paused: no new orders")
    expect(page.locator("[data-station=sim-1] .pill")).to_contain_text("Paused")
    expect(page.locator("nav .badge")).to_contain_text("2")
    page.screenshot(path=artefacts / "paused.png", full_page=True)
    for act in ("Resume campaign", "Resume"):
        attention.get_by_role("button", name=act, exact=True).click()
    expect(page.get_by_text("Nothing needs attention.")).to_be_visible()


def test_numbers_have_units(server: tuple[Server, ScriptedLab], context: BrowserContext) -> None:
    running, lab = server
    expect, page = playwright.expect, context.new_page()
    set_up(page, running)
    expect(page.get_by_text("Decision expected after about 31 more pairs.")).to_be_visible()
    robots = page.locator(".summary > div", has_text="Robot utilisation")
    expect(robots).to_contain_text(re.compile(r"96\.2 %\s*in motion 91\.3 %, real-time factor 41\.3"))
    expect(robots).to_contain_text(re.compile(r", \d+\.\d % of rollouts used"))
    lab.more_pairs = 850
    expect(page.get_by_text("At this rate the remaining pairs do not reach the threshold.")).to_be_visible()
    page.get_by_role("button", name="Stop sim-1").click()
    effective = page.locator("[data-command=stop][data-state=effective]")
    expect(effective).to_contain_text(re.compile(r"in (\d{2,3} ms|[1-9]\d*(\.\d)? s)$"))


def _stop_one_and_resume(page: Page, artefacts: Path) -> None:
    expect, tile = playwright.expect, page.locator("[data-station=sim-2]")
    page.get_by_role("button", name="Stop sim-2").dblclick()
    expect(page.locator("[data-command=stop][data-state=effective]")).to_have_count(1)
    expect(tile.locator(".pill")).to_contain_text("Stopped")
    expect(page.locator("[data-station=sim-1] .pill")).not_to_contain_text("Stopped")
    expect(page.locator(".attention")).to_contain_text("Stopped")
    page.screenshot(path=artefacts / "one-stopped.png", full_page=True)
    page.get_by_role("button", name="Resume sim-2").click()
    expect(page.locator("[data-command=resume][data-state=effective]")).to_have_count(1)
    expect(tile.locator(".pill")).not_to_contain_text("Stopped")


def _stop_the_fleet_by_keyboard(page: Page, artefacts: Path) -> None:
    expect = playwright.expect
    page.click("nav >> text=Episodes")
    page.keyboard.press("Shift+Escape")
    expect(page.locator("dialog[open]")).to_be_visible()
    page.screenshot(path=artefacts / "stop-question.png")
    page.keyboard.press("Enter")
    page.click("nav >> text=Fleet")
    expect(page.locator(".tile .pill.bad")).to_have_count(4)
    page.locator(".attention").get_by_role("button", name="Resume 4").click()
    expect(page.locator(".tile .pill.bad")).to_have_count(0)


def _stop_the_fleet_from_another_question(page: Page) -> None:
    expect = playwright.expect
    page.click("nav >> text=Policies")
    for asked in ("Promote aaaaaaaa", "Stop fleet"):
        page.get_by_role("button", name=asked).click()
        if asked.startswith("Promote"):
            page.get_by_role("button", name="Promote", exact=True).click()
        expect(page.locator("dialog[open]")).to_be_visible()
        page.keyboard.press("Shift+Escape")
        expect(page.locator("dialog[open]")).to_contain_text("Stop all robots now?")
        page.keyboard.press("Enter")
        expect(page.locator("dialog[open]")).to_have_count(0)
        page.click("nav >> text=Fleet")
        expect(page.locator(".tile .pill.bad")).to_have_count(4)
        page.locator(".attention").get_by_role("button", name="Resume 4").click()
        expect(page.locator(".tile .pill.bad")).to_have_count(0)


def _read_why_a_command_was_refused(page: Page, lab: ScriptedLab) -> None:
    lab.refusals["rollback"] = "there is no earlier champion to roll back to"
    page.get_by_role("button", name="Roll back the champion").click()
    page.get_by_label("Reason").fill("it shakes")
    page.keyboard.press("Enter")
    refused = page.locator("[data-command=rollback][data-state=refused]")
    playwright.expect(refused).to_contain_text("refused: there is no earlier champion to roll back to")


def _promote_with_a_reason(page: Page, artefacts: Path) -> None:
    expect = playwright.expect
    page.click("nav >> text=Policies")
    expect(page.locator(".pill", has_text="Runs the champion")).to_have_count(4)
    page.get_by_role("button", name="Promote aaaaaaaa").click()
    page.get_by_role("button", name="Promote", exact=True).click()
    expect(page.locator("dialog[open]")).to_be_visible()
    page.get_by_label("Reason").fill("it is gentler")
    page.screenshot(path=artefacts / "promote-question.png")
    page.keyboard.press("Enter")
    expect(page.locator("[data-command=promote][data-state=effective]")).to_contain_text("by ada: it is gentler")
    page.screenshot(path=artefacts / "policies.png", full_page=True)


def _judge_the_episode(page: Page) -> None:
    expect = playwright.expect
    page.keyboard.press("1")
    expect(page.get_by_role("status")).to_contain_text("No decision counted it")
    page.keyboard.press("Enter")
    expect(page.locator("[data-command='judge success'][data-state=effective]")).to_have_count(1)


def _scrub_an_episode(page: Page, artefacts: Path) -> None:
    expect = playwright.expect
    page.click("nav >> text=Episodes")
    page.get_by_label("Outcome").select_option("failure")
    page.get_by_label("Purpose").select_option("collect")
    expect(page.locator("tr.pick .pill").first).to_contain_text("Failure")
    page.screenshot(path=artefacts / "episodes.png")
    page.locator("tr.pick a").first.click()
    expect(page.locator(".segments i")).to_have_count(3)
    expect(page.locator(".uplot")).to_have_count(5)
    page.get_by_label("Time in the episode").fill("40")
    expect(page.get_by_text("frame 40")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("frame 41")).to_be_visible()
    assert "t=2.05" in page.url
    page.screenshot(path=artefacts / "episode.png", full_page=True)
    page.get_by_label("Time in the episode").focus()
    _judge_the_episode(page)
    page.reload()
    expect(page.get_by_text("frame 41")).to_be_visible()
