"""Approvals of tasks that agents wrote: signed, chained, and copied into the first event of a campaign."""

from __future__ import annotations

import contextlib
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.campaign.campaign import Campaign
from enpire.campaign.events import kinds_of
from enpire.campaign.session_events import CampaignStarted
from enpire.cli import app
from enpire.code_candidates import authored_tasks
from enpire.code_candidates.authored_tasks import AuthoredTask, TaskProposal, approve, find_task, withdraw
from enpire.code_candidates.surface import read_folder
from enpire.code_candidates.task_approvals import Approval, ApprovalLine, add_approval
from enpire.errors import FileProblem, UsageError
from enpire.files import canonical, parse, plain
from enpire.home import open_home
from enpire.parts import TASKS
from enpire.session import require_parts
from enpire.steps import begin
from enpire.steps.begin import begin_or_resume
from enpire.store.ledger import SqliteLedger
from tests.agent_loop.pretend_lab import CAMPAIGN
from tests.enpire.code_candidates.authored_task import REACH, proposed, scored


def test_approvals_are_added_and_each_is_signed_and_follows_the_one_before(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    scored(tmp_path, made)
    folder = find_task(tmp_path, made.task_id).folder
    for by in ("ada", "bob\n\x1b[2J"):
        approve(find_task(tmp_path, made.task_id), by, f"{by} read it")
    first, second = find_task(tmp_path, made.task_id).approvals
    assert first.approval == Approval(digest=made.digest, by="ada", reason="ada read it")
    assert (first.number, first.previous, second.number, len(second.previous)) == (1, "", 2, 64)
    assert second.approval.by == "bob �[2J"
    path = folder / "approvals.jsonl"
    one, two = path.read_bytes().splitlines(keepends=True)
    forged = one.replace(b'"ada"', b'"eve"')
    deep = one + b"[" * 100_000 + b"\n"
    cut_off = (one, one.removesuffix(b"\n"))
    for wrong in (
        two,
        forged,
        one + one,
        one[:-9] + b"\n",
        two + one,
        one + two.replace(b"bob", b"eve"),
        deep,
        *cut_off,
    ):
        path.write_bytes(wrong)
        with pytest.raises(FileProblem, match="(?i)remove the file, and approve the task again"):
            TASKS.make(f"authored:{folder}")
        with pytest.raises(FileProblem, match=r"approvals.jsonl"):
            add_approval(folder, tmp_path, first.approval)
    path.write_bytes((one + two).removesuffix(b"\n"))
    assert TASKS.make(f"authored:{folder}").spec.name == "reach"
    third = approve(find_task(tmp_path, made.task_id), "x" * 1000)
    assert (len(third.approval.by), third.number) == (200, 3)
    assert find_task(tmp_path, made.task_id).approvals == (first, second, third)
    path.unlink()
    fourth = approve(find_task(tmp_path, made.task_id), "ada")
    assert (fourth.number, fourth.previous) == (4, ""), "the numbers go on where the file was begun anew"
    assert TASKS.make(f"authored:{folder}").spec.name == "reach"


def test_a_withdrawn_approval_opens_nothing_and_cannot_be_cut_off(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    scored(tmp_path, made)
    SqliteLedger(tmp_path / "ledger.db").close()
    task, path = find_task(tmp_path, made.task_id), find_task(tmp_path, made.task_id).folder / "approvals.jsonl"

    def said(verb: str, *more: str) -> str:
        return CliRunner().invoke(app, ["task", verb, made.task_id, "--home", str(tmp_path), *more]).output

    with pytest.raises(UsageError, match="has no approval that could be withdrawn: it is scored"):
        withdraw(task, "bob")
    approve(task, "ada")
    whole = path.read_bytes()
    assert f"Withdrawn: {made.task_id}" in said("withdraw", "--by", "bob", "--reason", "Its reset cheats.")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"was withdrawn by bob: Its reset cheats\.; enpire task approve"):
            TASKS.make(task.name)
    assert "withdrawn" in CliRunner().invoke(app, ["task", "authored", "--home", str(tmp_path)]).output
    with pytest.raises(UsageError, match="it is withdrawn"):
        withdraw(find_task(tmp_path, made.task_id), "bob")
    withdrawn = path.read_bytes()
    path.write_bytes(whole)
    with pytest.raises(FileProblem, match=r"ends with line 1, and .* \(that is line 2\): lines were cut off"):
        TASKS.make(task.name)
    path.write_bytes(withdrawn)
    said("approve", "--by", "ada")
    assert TASKS.make(task.name).spec.name == "reach"
    assert [line.approval.kind for line in find_task(tmp_path, made.task_id).approvals] == [
        "approved", "withdrawn", "approved",
    ]  # fmt: skip


def test_a_record_without_its_newest_line_kept_apart_opens_nothing(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    scored(tmp_path, made)
    task = find_task(tmp_path, made.task_id)
    approve(task, "ada")
    [copy] = (tmp_path / "tasks" / ".approvals").iterdir()
    content = copy.read_bytes()
    for wrong in (b"{", content.replace(b'"ada"', b'"eve"')):
        copy.write_bytes(wrong)
        with pytest.raises(FileProblem, match="does not know it as the newest: lines were cut off"):
            TASKS.make(task.name)
    approve(find_task_after(copy, content, task), "bob")
    copy.write_bytes(content)  # as if the power failed before the copy was written
    assert TASKS.make(task.name).spec.name == "reach"
    assert approve(find_task(tmp_path, made.task_id), "cleo").number == 3


def find_task_after(copy: Path, content: bytes, task: AuthoredTask) -> AuthoredTask:
    """The task after its copy was restored."""
    copy.write_bytes(content)
    return find_task(authored_tasks.home_of(task.folder), task.proposal.task_id)


def test_a_campaign_begins_with_no_older_approval_than_an_earlier_one(tmp_path: Path) -> None:
    """An older copy of both files, which fit together."""
    home = open_home(tmp_path)
    made = proposed(home.root)
    scored(home.root, made)
    task = find_task(home.root, made.task_id)
    approve(task, "ada")
    files = (task.folder / "approvals.jsonl", home.root / "tasks" / ".approvals" / f"{made.task_id}.json")
    before = [path.read_bytes() for path in files]
    withdraw(find_task(home.root, made.task_id), "bob")
    approve(find_task(home.root, made.task_id), "bob")
    campaign = parse(Campaign, plain(replace(CAMPAIGN, task=task.name)), "the campaign")
    with contextlib.closing(SqliteLedger(home.ledger)) as ledger:
        begun = begin_or_resume(ledger, campaign, home)
        for path, content in zip(files, before, strict=True):
            path.write_bytes(content)
        for one in (campaign, replace(campaign, name="another")):
            with pytest.raises(
                UsageError, match="is line 1 of its record, and the campaign .* began with line 3: newer"
            ):
                begin_or_resume(ledger, one, home)
        assert len(list(ledger.events(kinds=kinds_of(CampaignStarted)))) == 1
    assert begun.campaign_id


def test_approvals_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    scored(tmp_path, made)
    task, together = find_task(tmp_path, made.task_id), threading.Barrier(8)

    def approve_at_once(number: int) -> None:
        together.wait()
        approve(task, f"person {number}")

    people = [threading.Thread(target=approve_at_once, args=(number,)) for number in range(8)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    kept = find_task(tmp_path, made.task_id)
    assert sorted(one.approval.by for one in kept.approvals) == [f"person {number}" for number in range(8)], (
        kept.problem
    )


def test_an_approval_without_the_secret_of_its_home_opens_nothing(tmp_path: Path) -> None:
    """Written without the secret, it held as long as none could be read: any folder could look approved."""
    home = open_home(tmp_path / "home")
    made = proposed(home.root)
    scored(home.root, made)
    SqliteLedger(home.ledger).close()
    task = find_task(home.root, made.task_id)
    (task.folder / "approvals.jsonl").write_text(canonical(forged(made)) + "\n")
    for path, why in (
        (tmp_path / "elsewhere" / "tasks" / made.task_id, "The secret of the home .* cannot be read here"),
        (
            home.root / "agents" / "C1" / "one" / "work" / "tasks" / made.task_id,
            "lies in the home of a lab, but is none",
        ),
    ):
        shutil.copytree(task.folder, path)
        with pytest.raises(UsageError, match=why):
            TASKS.make(f"authored:{path}")
        (path.parent.parent / "secret").write_text("ab" * 32)
        (path.parent.parent / "ledger.db").touch()
        with pytest.raises(UsageError, match="no `enpire task approve` of this home wrote|lies in the home of a lab"):
            TASKS.make(f"authored:{path}")
    with pytest.raises(FileProblem, match="no `enpire task approve` of this home wrote"):
        approve(find_task(home.root, made.task_id), "ada")
    assert find_task(home.root, made.task_id).state == "damaged"


def forged(made: TaskProposal) -> ApprovalLine:
    """As an agent could write it."""
    return ApprovalLine(
        task_id=made.task_id, number=1, approval=Approval(digest=made.digest, by="ada"), at="2026", previous=""
    )


def test_a_campaign_takes_no_task_of_another_home(tmp_path: Path) -> None:
    other, home = open_home(tmp_path / "other"), open_home(tmp_path / "home")
    made = proposed(other.root)
    scored(other.root, made)
    task = find_task(other.root, made.task_id)
    approve(task, "eve")
    campaign = replace(CAMPAIGN, task=task.name)
    with contextlib.closing(SqliteLedger(home.ledger)) as ledger:
        with pytest.raises(UsageError, match="lies outside .*home/tasks, so no approval of this home covers it"):
            begin_or_resume(ledger, campaign, home)
        assert list(ledger.events()) == []
    with pytest.raises(UsageError, match="no approval of this home covers it"):
        require_parts(campaign, home, "local")


def test_only_the_newest_approval_counts(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    scored(tmp_path, made)
    task = find_task(tmp_path, made.task_id)
    approve(task, "ada")
    change(task, "0.03", "0.04", "bob")
    assert TASKS.make(task.name).spec.name == "reach"
    (task.folder / "files" / "task.py").write_text(REACH)
    with pytest.raises(UsageError, match="changed since a person approved it"):
        TASKS.make(task.name)


def change(task: AuthoredTask, old: str, new: str, by: str) -> None:
    """Other files of a task, measured and approved."""
    (task.folder / "files" / "task.py").write_text(REACH.replace(old, new))
    digest = authored_tasks.digest_of(read_folder(task.folder / "files"))
    scored(authored_tasks.home_of(task.folder), replace(task.proposal, digest=digest))
    approve(find_task(authored_tasks.home_of(task.folder), task.proposal.task_id), by)


def test_an_approval_of_an_earlier_version_is_named_and_does_not_count(tmp_path: Path) -> None:
    made = proposed(tmp_path)
    task = find_task(tmp_path, made.task_id)
    (task.folder / "approval.json").write_text(f'{{"digest": "{made.digest}", "by": "ada"}}')
    with pytest.raises(UsageError, match=r"approval\.json is of an earlier version of ENPIRE, unsigned"):
        TASKS.make(task.name)


def test_a_campaign_resumes_only_with_the_files_with_which_it_began(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    made = proposed(home.root, {"task.py": REACH})
    scored(home.root, made)
    task = find_task(home.root, made.task_id)
    approve(task, "ada")
    campaign = parse(Campaign, plain(replace(CAMPAIGN, task=task.name)), "the campaign")
    with contextlib.closing(SqliteLedger(home.ledger)) as ledger:
        begun = begin_or_resume(ledger, campaign, home)
        change(task, "0.8)", "0.7)", "bob")
        with pytest.raises(
            UsageError, match=f"began with the files {made.digest[:12]} of its task; the approved files"
        ):
            begin_or_resume(ledger, campaign, home)
        (task.folder / "files" / "task.py").write_text(REACH)
        scored(home.root, made)
        approve(find_task(home.root, made.task_id), "ada")
        assert begin_or_resume(ledger, campaign, home).campaign_id == begun.campaign_id


def test_a_campaign_of_an_earlier_version_resumes_after_a_new_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first event names no approval."""
    home = open_home(tmp_path)
    made = proposed(home.root)
    scored(home.root, made)
    task = find_task(home.root, made.task_id)
    approve(task, "ada")
    campaign = parse(Campaign, plain(replace(CAMPAIGN, task=task.name)), "the campaign")
    with contextlib.closing(SqliteLedger(home.ledger)) as ledger:
        with monkeypatch.context() as earlier:
            earlier.setattr(begin, "approval_of", lambda task, home: dict[str, str]())
            begun = begin_or_resume(ledger, campaign, home)
        assert begin_or_resume(ledger, campaign, home).campaign_id == begun.campaign_id


@pytest.mark.parametrize("name", ["approvals.jsonl", "score.json", "proposal.json"])
@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"by": 3}'])
def test_a_damaged_task_is_listed_and_blocks_no_other(tmp_path: Path, name: str, content: str) -> None:
    made = proposed(tmp_path)
    damaged = find_task(tmp_path, proposed(tmp_path, {"task.py": "x = 1\n"}, lane="two").task_id)
    for one in (made, damaged.proposal):
        scored(tmp_path, one)
    SqliteLedger(tmp_path / "ledger.db").close()
    approve(find_task(tmp_path, made.task_id), "ada")
    (damaged.folder / name).write_text(content)
    assert proposed(tmp_path) == made
    assert TASKS.make(find_task(tmp_path, made.task_id).name).spec.name == "reach"
    listed = CliRunner().invoke(app, ["task", "authored", "--home", str(tmp_path)])
    assert listed.exit_code == 0, listed.output
    assert "damaged" in listed.output
    assert "approved" in listed.output
    found = find_task(tmp_path, damaged.proposal.task_id)
    assert damaged.proposal.task_id in found.problem
    with pytest.raises(FileProblem):
        approve(found, "ada")
    with pytest.raises(FileProblem):
        TASKS.make(found.name)


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ({}, ""),
        ({"by": "x"}, "written by the agent unknown and approved by x at an unknown time (sha256 unknown)"),
        ({"author": "a\x1b[2J"}, "written by the agent a�[2J"),
        (
            {"author": "a", "by": "b\x1b[1A", "at": "2026", "digest": "d\x9b", "reason": "r\u202e"},
            "written by the agent a and approved by b�[1A at 2026 (sha256 d�): r�",
        ),
    ],
)
def test_what_a_first_event_tells_of_its_approval_is_printable(recorded: dict[str, str], told: str) -> None:
    started = CampaignStarted(
        name="n", task="t", campaign={}, goal={}, seed=1, home="/h", code="1", verifier="", task_approval=recorded
    )
    assert started.approved == told


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
