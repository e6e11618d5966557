"""A version for a task that an agent wrote and a person approved acts on recorded observations, in a sandbox too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.code_candidates.authored_tasks import AuthoredTask, approve, approved_files, find_task, withdraw
from enpire.errors import UsageError
from enpire.home import open_home
from enpire.processes.learner_process import run_job
from enpire.processes.version_check import require_acting
from enpire.processes.version_check_process import CheckRequest, check_in_process
from tests.enpire.code_candidates.authored_task import REACH, proposed, scored
from tests.enpire.processes.test_version_check import KINDS, job_in, recorded, written
from tests.fakes.smoke_policies import write_version


@pytest.fixture
def task(tmp_path: Path) -> AuthoredTask:
    """An approved task. Its home has a secret."""
    home = open_home(tmp_path / "home")
    made = proposed(home.root)
    scored(home.root, made)
    approve(find_task(home.root, made.task_id), "ada")
    return find_task(home.root, made.task_id)


def request(tmp_path: Path, task: AuthoredTask, fault: str = "") -> CheckRequest:
    return CheckRequest(
        folder=write_version(tmp_path / "v", fault), task=task.name, episodes=tuple(recorded(tmp_path / "e", 2)),
        kinds=KINDS, approved=approved_files(task.name),
    )  # fmt: skip


@pytest.mark.parametrize(("fault", "clipped"), [("", 0.0), ("far", 1.0)])
def test_the_check_knows_the_bounds_and_the_deadline_of_an_approved_task(
    tmp_path: Path, task: AuthoredTask, fault: str, clipped: float
) -> None:
    found = check_in_process(request(tmp_path, task, fault))
    assert found.why == ""
    assert (found.observations, found.deadline_s) == (8, 2 / 20.0), found.sentence
    assert (found.clipped > 0.4) == bool(clipped)


def test_the_command_checks_a_version_for_an_approved_task(tmp_path: Path, task: AuthoredTask) -> None:
    version = write_version(tmp_path / "v", "")
    words = ["policy", "check", str(version), "--task", task.name, "--allow-kind", KINDS[0], "--home"]
    ran = CliRunner().invoke(app, [*words, str(tmp_path / "home")])
    assert ran.exit_code == 0, ran.output
    assert "was loaded, but not tried: there are no recorded observations" in " ".join(ran.output.split())


def test_a_training_run_checks_its_version_for_an_approved_task(
    tmp_path: Path, task: AuthoredTask, capsys: pytest.CaptureFixture[str]
) -> None:
    job = replace(job_in(tmp_path, ""), task=task.name)
    run_job(written(job))
    assert "slowest call" in (printed := capsys.readouterr().out)
    assert " of 100 ms" in printed, "two of its periods"
    withdraw(task, "bob")
    with pytest.raises(UsageError, match="was withdrawn by bob"):
        require_acting(job)


def test_files_that_changed_after_their_approval_was_read_are_not_loaded(tmp_path: Path, task: AuthoredTask) -> None:
    asked = request(tmp_path, task)
    (task.folder / "files" / "task.py").write_text(REACH.replace("0.03", "3.0"))
    with pytest.raises(UsageError, match="changed after their approval was read"):
        check_in_process(asked)
    with pytest.raises(UsageError, match="changed since a person approved it"):
        approved_files(task.name)


def test_without_an_approval_there_is_no_check(tmp_path: Path, task: AuthoredTask) -> None:
    asked = replace(request(tmp_path, task), approved=None)
    withdraw(task, "bob")
    with pytest.raises(UsageError, match="was withdrawn by bob"):
        check_in_process(asked)
    assert approved_files("pin_insertion") is None
