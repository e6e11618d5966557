"""The inbox lists tasks that agents wrote: an admin reads the code, approves it, and withdraws the approval."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enpire.code_candidates.authored_tasks import find_task, propose
from enpire.parts import TASKS
from enpire.requests.agent_requests import Sender
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.enpire.code_candidates.authored_task import FILES, proposed, scored
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]
HOSTILE = "<img src=x onerror=alert(1)> A point on a table."


def test_an_admin_reads_approves_and_withdraws_a_task_of_an_agent(
    server: tuple[Server, ScriptedLab], context: BrowserContext, artefacts: Path, tmp_path: Path
) -> None:
    running, _ = server
    home = tmp_path / "home"
    sender = Sender(campaign_id="C1", author="anthropic", lane="anthropic-1")
    made = propose(home, {**FILES, "README.md": "<b>bold</b> text\n"}, HOSTILE, sender)
    broken = proposed(home, {"task.py": "x = 1\n"})
    scored(home, broken, "idleness_fails_at_the_limit: 3 of 20 episodes ended as successes")
    expect, watch, page = playwright.expect, Watch(), context.new_page()
    watch.follow(page)
    set_up(page, running)
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("link", name="Inbox").click()
    badge = page.locator("nav .badge")
    card = page.locator(f"[data-task='{made.task_id}']")
    approve = card.get_by_role("button", name="Approve")
    expect(card).to_contain_text(HOSTILE)
    expect(card).to_contain_text("written by anthropic, session anthropic-1 · proposed")
    expect(card).to_contain_text("It cannot be approved. These files have no score")
    expect(approve).to_be_disabled()
    expect(badge).to_have_count(0)
    scored(home, made)
    measured = re.compile(r"58 of 58 checks pass · precision of its verifier 100\.0\s%, recall 90\.0\s%")
    expect(card).to_contain_text(measured)
    expect(approve).to_be_disabled()
    expect(badge).to_have_text("⚠ 1 need an operator")
    expect(page).to_have_title("(1) Inbox · ENPIRE")
    refused = page.locator(f"[data-task='{broken.task_id}']")
    expect(refused).to_contain_text("idleness_fails_at_the_limit: 3 of 20 episodes")
    refused.get_by_role("button", name="Show the code").click()
    expect(refused.locator("pre")).to_have_text("x = 1\n")
    expect(refused.get_by_role("button", name="Approve")).to_be_disabled()
    card.get_by_role("button", name="Show the code").click()
    expect(card.locator("pre").first).to_have_text("<b>bold</b> text\n")
    assert card.locator("pre b, img").count() == 0
    page.screenshot(path=artefacts / "inbox-tasks.png", full_page=True)
    approve.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("They run outside a sandbox")
    dialog.get_by_label("Reason").fill("It is a point.")
    dialog.get_by_role("button", name="Approve").click()
    expect(card).to_contain_text("approved by ada: It is a point.")
    expect(badge).to_have_count(0)
    task = find_task(home, made.task_id)
    expect(card).to_contain_text(f"Campaign and station files name it {task.name}.")
    assert TASKS.make(task.name).spec.name == "reach"
    assert task.approvals[-1].approval.digest == made.digest
    card.get_by_role("button", name="Withdraw").click()
    dialog.get_by_label("Reason").fill("The goal was wrong.")
    dialog.get_by_role("button", name="Withdraw").click()
    expect(card).to_contain_text("withdrawn by ada: The goal was wrong.")
    assert find_task(home, made.task_id).state == "withdrawn"
    assert not [url for url in asked if url.endswith("/tasks/authored")], "the server sends what has changed"
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}
