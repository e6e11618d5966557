"""`enpire task` and `enpire verifier`: answers, exit codes, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app

REACH = "tests.sim.task_check.reach:Reach"


def test_tasks_are_listed() -> None:
    done = CliRunner().invoke(app, ["task", "list"])
    assert done.exit_code == 0, done.output
    assert "pin_insertion " in done.output
    assert "push a T block" in done.output
    assert "sim.tasks" not in done.output


@pytest.mark.parametrize(("file", "text"), [("__init__.py", "raise RuntimeError('broken')"), ("parts.py", "def (")])
def test_a_broken_plug_in_leaves_the_list_whole(
    file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, about = tmp_path / f"broken_{tmp_path.name}", tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    (package / "__init__.py").touch()
    (package / "parts.py").touch()
    (package / file).write_text(text)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[enpire.tasks]\nbroken = {package.name}.parts:Task\n")
    monkeypatch.syspath_prepend(tmp_path)
    rows = {
        item["name"]: item["what"] for item in json.loads(CliRunner().invoke(app, ["task", "list", "--json"]).stdout)
    }
    assert rows["broken"] == ""
    assert rows["push_t"]


def test_a_task_is_shown_with_its_instruction_and_its_limits() -> None:
    done = CliRunner().invoke(app, ["task", "show", "push_t"])
    assert done.exit_code == 0, done.output
    assert "Push the T onto its outline." in done.output
    assert "action" in done.output
    shown = json.loads(CliRunner().invoke(app, ["task", "show", "push_t", "--json"]).stdout)
    assert shown["name"] == "push_t"


def test_a_sound_task_passes() -> None:
    done = CliRunner().invoke(app, ["task", "check", REACH])
    assert done.exit_code == 0, done.output
    assert f"{REACH} passes " in done.output
    assert "FAIL" not in done.output


def test_a_broken_task_fails_with_the_reason() -> None:
    done = CliRunner().invoke(app, ["task", "check", "tests.sim.task_check.test_suite:Lost"])
    assert done.exit_code == 1
    assert "FAIL expert_succeeds" in done.output


def test_check_results_as_json() -> None:
    done = CliRunner().invoke(app, ["task", "check", REACH, "--json"])
    [report] = json.loads(done.stdout)
    assert report["subject"] == REACH
    assert {item["result"] for item in report["results"]} == {"passed", "does not apply"}


def test_a_verifier_agrees_with_a_classifier_or_with_nobody() -> None:
    done = CliRunner().invoke(app, ["verifier", "report", REACH, "--agree"])
    assert done.exit_code == 1
    assert "add --classifier FOLDER" in done.output


def test_a_verifier_is_reported() -> None:
    done = CliRunner().invoke(app, ["verifier", "report", REACH, "--episodes", "75"])
    assert done.exit_code == 0, done.output
    assert "precision" in done.output
    assert "p95" in done.output


def test_nothing_to_fit_is_one_sentence() -> None:
    done = CliRunner().invoke(app, ["verifier", "fit", REACH])
    assert done.exit_code == 1
    assert "nothing to fit" in done.output
