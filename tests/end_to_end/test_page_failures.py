"""The page that shows where a policy fails: from a hint over the map and a cluster to its episodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.failing import add_failures
from tests.web_ui.recorded import History
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


def test_an_operator_finds_where_and_how_the_policy_fails(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    expect, watch = playwright.expect, Watch()
    how = add_failures(past)
    page = context.new_page()
    watch.follow(page)
    set_up(page, server[0])
    page.goto(f"{page.url.rstrip('/')}/campaigns/{past.campaign_id}")
    page.click("text=where it fails")
    page.get_by_label("Version").select_option("a" * 64)
    expect(page.locator("main .head")).to_contain_text(re.compile(r"of 3\d\d"))
    hints = page.get_by_role("region", name="What to look at next")
    expect(hints.locator("li").first).to_contain_text("start value 1 from")
    chosen = page.locator(".map .cell[aria-pressed=true]")
    expect(chosen).to_have_attribute("title", re.compile(r"\[.* %, .* %\], \d+ of \d+"))
    other = page.locator(".map button.cell").first
    other.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="start value 1")).to_contain_text(
        re.compile(r"start value 1 0\S* to ")
    )
    page.screenshot(path=artefacts / "failures.png", full_page=True)
    second = page.locator(".cluster").nth(1)
    expect(second).to_contain_text("x 0.07")
    second.get_by_text("all").click()
    expect(page.locator("tr.pick").first).to_be_visible()
    listed = page.locator("tr.pick a").evaluate_all("(links) => links.map((one) => one.pathname.split('/')[2])")
    assert {how[one] for one in listed} == {"aside"}
    assert watch.complaints == []
