"""Approvals of tasks that agents wrote: signed, chained, and copied into the first event of a campaign."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.campaign.events import kinds_of
from enpire.campaign.session_events import CampaignStarted
from enpire.cli import app
from enpire.code_candidates.authored_tasks import approve, find_task
from enpire.code_candidates.task_approvals import approve_task
from enpire.errors import FileProblem
from enpire.home import open_home
from enpire.parts import TASKS
from enpire.steps.begin import begin_or_resume
from enpire.store.ledger import SqliteLedger
from tests.agent_loop.pretend_lab import CAMPAIGN
from tests.enpire.code_candidates.test_authored_tasks import proposed, scored


def test_approvals_are_added_and_each_is_signed_and_follows_the_one_before(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    scored(tmp_path, made)
    folder = find_task(tmp_path, made.task_id).folder
    for by in ("ada", "bob\n\x1b[2J"):
        approve(find_task(tmp_path, made.task_id), by, f"{by} read it")
    first, second = find_task(tmp_path, made.task_id).approvals
    assert (first.by, first.reason, first.digest, first.previous) == ("ada", "ada read it", made.digest, "")
    assert (second.by, len(second.previous)) == ("bob �[2J", 64)
    path = folder / "approvals.jsonl"
    one, two = path.read_bytes().splitlines(keepends=True)
    forged = one.replace(b'"ada"', b'"eve"')
    for wrong in (two, forged, one + one, one[:-9] + b"\n", two + one, one + two.replace(b"bob", b"eve")):
        path.write_bytes(wrong)
        with pytest.raises(FileProblem, match="(?i)remove the file, and approve the task again"):
            TASKS.make(f"authored:{folder}")
        with pytest.raises(FileProblem, match=r"approvals.jsonl"):
            approve_task(folder, tmp_path, first)
    path.write_bytes(one)
    assert TASKS.make(f"authored:{folder}").spec.name == "reach"
    (tmp_path / "secret").unlink()
    assert find_task(tmp_path, made.task_id).approvals == (first,), "on a computer without the secret"


def test_the_first_event_of_a_campaign_names_who_approved_its_task(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    made = proposed(home.root)
    scored(home.root, made)
    task = find_task(home.root, made.task_id)
    approve(task, "ada", "It is a point.")
    with contextlib.closing(SqliteLedger(home.ledger)) as ledger:
        begin_or_resume(ledger, replace(CAMPAIGN, task=task.name), home)
        [started] = [entry.event for entry in ledger.events(kinds=kinds_of(CampaignStarted))]
    assert isinstance(started, CampaignStarted)
    assert started.approved.startswith("written by the agent anthropic and approved by ada at 2")
    assert started.approved.endswith(f"(sha256 {made.digest[:12]}): It is a point.")
    ran = CliRunner().invoke(app, ["campaign", "show", "--home", str(home.root)])
    assert "approved by ada" in ran.output, ran.output
