"""Against a real lab: promote and roll back, label, quarantine and approve, end the campaign, read its report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.home import Home, open_home
from enpire.queries.campaigns import open_records
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.running_lab import RunningLab
from tests.end_to_end.watch import Watch
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
PATIENCE_MS = 120_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def lab(home: Home) -> Iterator[RunningLab]:
    with RunningLab(home) as running:
        yield running


def test_an_operator_decides_in_a_running_campaign_and_reads_its_report(
    home: Home, lab: RunningLab, context: BrowserContext, artefacts: Path
) -> None:
    expect, watch, page = playwright.expect, Watch(), context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    watch.follow(page)
    server = Server(home.root, lab.live)
    server.start()
    try:
        set_up(page, server)
        lab.until(lambda: bool(lab.champion), "the base policy is deployed")
        base = lab.champion
        lab.until(lambda: lab.champion != base, "a candidate is promoted")
        page.goto(f"{server.address}/campaigns/C1")
        page.get_by_role("group", name="Commands to the campaign").get_by_role("button", name="Pause").click()
        expect(page.locator("[data-command='pause campaign'][data-state=effective]")).to_have_count(1)
        promoted = lab.champion
        _roll_back_and_promote_again(page, lab, promoted)
        page.screenshot(path=artefacts / "real-policies.png", full_page=True)
        _quarantine_and_approve(page, promoted)
        labelled = _label_an_episode(page)
        _end_and_read_the_report(page, lab, artefacts)
    finally:
        server.stop()
    assert watch.complaints == []
    with open_records(home.root) as records:
        told = [(entry.kind, entry.body) for entry in records.ledger.events()]
    effective = [(body["verb"], body["target"], body["by"]) for kind, body in told if kind == "command effective"]
    assert effective == [
        ("pause campaign", "", "ada"), ("rollback", "", "ada"), ("promote", promoted, "ada"),
        ("experiment quarantine", promoted, "ada"), ("experiment clear", promoted, "ada"),
        ("judge failure", labelled, "ada"), ("end campaign", "", "ada"),
    ]  # fmt: skip
    deployed = [(body["policy_id"], body["reason"]) for kind, body in told if kind == "deployed"]
    assert deployed[-1] == (promoted, "promoted by ada: a second look")
    [back] = [body for kind, body in told if kind == "rolled back"]
    assert "rolled back by ada: it grips too hard" in str(back)
    [label] = [body for kind, body in told if kind == "person judged"]
    assert (label["order_id"], label["by"]) == (labelled, "ada")


def _roll_back_and_promote_again(page: Page, lab: RunningLab, promoted: str) -> None:
    expect = playwright.expect
    page.click("nav >> text=Policies")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_label("Reason").fill("it grips too hard")
    page.keyboard.press("Enter")
    expect(page.locator("[data-command=rollback][data-state=effective]")).to_contain_text("by ada: it grips too hard")
    lab.until(lambda: lab.champion not in ("", promoted), "the earlier champion is back")
    again = page.get_by_role("button", name=f"Promote {promoted[:8]}")
    expect(page.locator("tr", has=again)).to_contain_text("Rolled back")
    again.click()
    page.get_by_label("Reason").fill("a second look")
    page.keyboard.press("Enter")
    expect(page.locator("[data-command=promote][data-state=effective]")).to_have_count(1)
    lab.until(lambda: lab.champion == promoted, "the version is the champion again")


def _quarantine_and_approve(page: Page, subject: str) -> None:
    """A script puts a version into quarantine over the API, as a terminal would; the inbox asks for the approval."""
    expect = playwright.expect
    body = {"verb": "experiment quarantine", "target": subject, "reason": "it moves nothing"}
    sent = "([body]) => fetch('/api/v1/commands', {method: 'POST', body: JSON.stringify(body), headers: HEADERS})"
    headers = "{'Content-Type': 'application/json', 'Idempotency-Key': 'quarantine-1'}"
    status = page.evaluate(f"{sent.replace('HEADERS', headers)}.then((answer) => answer.status)", [body])
    assert status == 202
    page.click("nav >> text=Inbox")
    waiting = page.locator("section[aria-label=Approvals] li")
    expect(waiting).to_contain_text("it moves nothing")
    expect(waiting).to_contain_text("it gets no robot time and is not promoted; other work continues.")
    waiting.get_by_role("button", name="Clear").click()
    page.get_by_label("Reason").fill("seen on video")
    page.keyboard.press("Enter")
    expect(page.locator("[data-command='experiment clear'][data-state=effective]")).to_have_count(1)
    expect(waiting).to_have_count(0)


def _label_an_episode(page: Page) -> str:
    """Label a success as a failure; returns the episode."""
    expect = playwright.expect
    page.click("nav >> text=Episodes")
    page.get_by_label("Outcome").select_option("success")
    page.locator("tr.pick a").first.click()
    expect(page.get_by_role("region", name="Your label")).to_be_visible()
    page.keyboard.press("2")
    expect(page.get_by_role("button", name="Label failure")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-command='judge failure'][data-state=effective]")).to_have_count(1)
    return page.url.rsplit("/", 1)[1].partition("?")[0]


def _end_and_read_the_report(page: Page, lab: RunningLab, artefacts: Path) -> None:
    expect = playwright.expect
    page.goto(page.url.partition("/episodes")[0] + "/campaigns/C1")
    page.get_by_role("group", name="Commands to the campaign").get_by_role("button", name="End").click()
    page.get_by_role("button", name="End the campaign").click()
    lab.until(lambda: lab.live.snapshot() is None, "the campaign has ended")
    page.click("nav >> text=Fleet")
    card = page.locator("section[aria-label='Latest campaign']")
    expect(card).to_contain_text("ada stopped the campaign")
    card.get_by_role("link", name="Read the report").click()
    report = page.locator("article.report")
    expect(report.get_by_role("heading", name="coin")).to_be_visible()
    expect(report).to_contain_text("it grips too hard")
    page.screenshot(path=artefacts / "real-report.png", full_page=True)
