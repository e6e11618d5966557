"""Episodes as filmstrips: choose, label together, compare two on one clock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from enpire.store.pictures import NAME, keep
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.web_ui.failing import add_failures
from tests.web_ui.recorded import History
from tests.web_ui.scripted_export import packed_at_once
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui import archive
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


@pytest.fixture(autouse=True)
def an_export_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "export_in_process", packed_at_once)


def test_episodes_are_chosen_labelled_together_and_compared(
    server: tuple[Server, ScriptedLab], past: History, context: BrowserContext, artefacts: Path
) -> None:
    expect, watch = playwright.expect, Watch()
    failed = [one for one, how in add_failures(past, 60).items() if how == "above"]
    for order_id, shade in zip(failed[-2:], (60, 200), strict=True):
        folder = past.home / "episodes" / past.campaign_id / order_id
        keep(folder / NAME, [{"front": np.full((24, 32, 3), shade, np.uint8)}] * 12)
    page = context.new_page()
    watch.follow(page)
    set_up(page, server[0])
    site = page.url.rstrip("/")
    page.goto(f"{site}/episodes?outcome=failure&round=3&starts=train")
    expect(page.locator("tr.pick").first).to_be_visible()
    page.get_by_role("button", name="Filmstrips").click()
    expect(page.locator(".episode-card .strip-image img")).to_have_count(2)
    strip = page.locator(".episode-card .strip-image img").first
    wide = strip.evaluate("(one) => one.naturalWidth / one.naturalHeight")
    assert wide == pytest.approx(4 * 32 / 24, rel=0.05)
    for order_id in failed[-2:]:
        page.get_by_label(f"Choose {order_id[-10:]}").check()
    chosen = page.get_by_role("region", name="Chosen episodes")
    expect(chosen).to_contain_text("2 chosen")
    page.screenshot(path=artefacts / "filmstrips.png", full_page=True)
    compare = chosen.get_by_role("link", name="Compare the two").get_attribute("href")
    chosen.get_by_text("Label 2 success").click()
    expect(chosen.get_by_role("status")).to_contain_text("The verdict of the verifier differs in 2 of 2.")
    chosen.get_by_role("button", name="Label 2 success", exact=True).click()
    expect(chosen).to_have_count(0)
    expect(page.locator(".episode-card").first).to_be_visible()
    page.goto(f"{site}{compare}")
    expect(page.get_by_text("from different starts")).to_be_visible()
    page.get_by_label("Time in both episodes").fill("0.3")
    for name in ("A", "B"):
        side = page.get_by_role("group", name=f"Episode {name}")
        expect(side.locator("figcaption")).to_contain_text("frame 6")
        expect(side.locator("tbody tr")).to_have_count(3)
    page.screenshot(path=artefacts / "compare.png", full_page=True)
    page.get_by_label("Play both").click()
    expect(page.get_by_text(re.compile(r"0\.55 of 0\.55 s"))).to_be_visible()
    labelled = sorted(target for verb, target, _ in server[1].given.values() if verb == "judge success")
    assert labelled == sorted(failed[-2:])
    assert watch.complaints == []
    page.goto(f"{site}/episodes?purpose=collect")
    page.get_by_label("Interventions").select_option("with")
    page.get_by_label("p_v at the start").select_option("middle")
    expect(page.locator("section[aria-busy=false] tr.pick td:nth-child(6)").first).to_have_text("2")
    page.screenshot(path=artefacts / "episodes-filtered.png")
    page.get_by_label("p_v at the start").select_option("low")
    expect(page.get_by_text("No episode matches the filters")).to_be_visible()
    page.get_by_label("p_v at the start").select_option("")
    page.locator("tr.pick", has=page.locator(".pill", has_text="Success")).first.get_by_role("checkbox").check()
    page.get_by_label("Format of the export").select_option("mcap")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    assert saved.value.suggested_filename == "episodes-mcap.zip"
    page.goto(f"{site}/episodes?purpose=gate&round=1")
    page.locator("tr.pick a").first.click()
    page.get_by_role("region", name="From the same start").get_by_text("Compare").first.click()
    expect(page.get_by_text("from the same start (holdout")).to_be_visible()
