"""The folder in which a coding CLI edits its next code candidate, and what outlives its session."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from agent_loop.agent_context import AgentContext
from agent_loop.agents.cli_folder import CliFolder
from enpire.errors import UsageError
from enpire.service.code import template


class Lab:
    """Tools that note what they were given."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def submit(self, **arguments: Any) -> object:
        self.sent.append(arguments)
        return {"experiment_id": "E1"}

    @property
    def tools(self) -> dict[str, Any]:
        return {
            "get_code": lambda **arguments: {"files": template(), "commit": ""}, "submit_code": self.submit,
            "adopt": lambda **arguments: {"commit": "c", "files": {"learner.py": "theirs"}},
            "revert_code": lambda **arguments: {"changes": {}}, "get_brief": dict,
            "take_skill": lambda **arguments: {"path": "skills/grasp.py", "text": "reach = 1\n", "commit": "c"},
        }  # fmt: skip


def folder_of(work: Path, kept: list[str]) -> CliFolder:
    """The folder of a new process of the session, with what the one before kept; `kept` takes what this one keeps."""

    def keep(line: str, anew: bool) -> bool:
        assert anew
        kept[:] = [line]
        return True

    context = AgentContext(seed=0, lane="a", work=work, spent=lambda said: None, kept=list(kept), keep=keep)
    return CliFolder.kept_by(context, work / "lab" / "code")


def test_a_cli_edits_files_and_the_lab_takes_them(tmp_path: Path) -> None:
    lab, kept = Lab(), list[str]()
    folder = folder_of(tmp_path, kept)
    folder.begin_turn()
    tools = folder.open(lab.tools)
    assert {path.name for path in folder.path.iterdir()} == set(template())
    assert tools["take_skill"](skill="abcdef") == {"path": "skills/grasp.py", "commit": "c"}
    assert (folder.path / "skills" / "grasp.py").read_text() == "reach = 1\n"
    (folder.path / "__pycache__").mkdir()
    assert tools["submit_code"](hypothesis_id="H") == {"experiment_id": "E1"}
    assert lab.sent == [{"hypothesis_id": "H", "files": {**template(), "skills/grasp.py": "reach = 1\n"}}]
    (folder.path / "skills" / "grasp.py").write_text("reach = 2\n")
    with pytest.raises(UsageError, match=r"has another skills/grasp.py; rename it"):
        tools["take_skill"](skill="abcdef")
    assert tools["adopt"](experiment_id="champion") == {"commit": "c", "files": ["learner.py"]}
    assert [path.name for path in folder.path.rglob("*")] == ["learner.py"], "they replace the files"
    assert tools["revert_code"]() == {"changes": {}}
    assert json.loads(kept[0])["files"] == {"learner.py": "theirs"}


def test_files_that_are_no_candidate_are_refused_when_they_are_submitted(tmp_path: Path) -> None:
    lab, kept = Lab(), list[str]()
    folder = folder_of(tmp_path, kept)
    tools = folder.open(lab.tools)
    tools["get_brief"]()
    (folder.path / "weights.bin").write_bytes(b"\xff\xfe")
    (folder.path / "learner.py").write_text("def improve(job): ...\n")
    with pytest.raises(UsageError, match=r"weights.bin is no text"):
        tools["submit_code"](hypothesis_id="H")
    assert json.loads(kept[0])["files"] == template(), "the last files that a candidate may have"
    (folder.path / "weights.bin").unlink()
    tools["submit_code"](hypothesis_id="H")
    assert lab.sent[0]["files"]["learner.py"] == json.loads(kept[0])["files"]["learner.py"] == "def improve(job): ...\n"


def test_what_no_system_reads_or_writes_ends_no_session(tmp_path: Path) -> None:
    lab, kept = Lab(), list[str]()
    folder = folder_of(tmp_path, kept)
    tools = folder.open(lab.tools)
    (folder.path / "skills" / "grasp.py").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"skills/grasp.py cannot be written \(Is a directory\); remove what is in"):
        tools["take_skill"](skill="abcdef")
    with contextlib.chdir(folder.path):
        for _ in range(20):  # deeper than a path may be long
            Path("x" * 250).mkdir()
            os.chdir("x" * 250)
    tools["get_brief"]()
    with pytest.raises(UsageError, match=r"cannot be listed \(File name too long\)"):
        tools["submit_code"](hypothesis_id="H")
    shutil.rmtree(folder.path / ("x" * 250))
    assert json.loads(kept[0])["files"] == template(), "the last files that a candidate may have"


def test_a_session_that_was_killed_goes_on_with_its_files_and_its_turn(tmp_path: Path) -> None:
    lab, kept = Lab(), list[str]()
    first = folder_of(tmp_path / "1", kept)
    first.begin_turn()
    tools = first.open(lab.tools)
    (first.path / "README.md").write_text("why\n")
    tools["get_brief"]()
    again = folder_of(tmp_path / "2", kept)
    again.begin_turn()
    assert again.turn == first.turn != ""
    again.open(lab.tools)
    assert (again.path / "README.md").read_text() == "why\n"
    again.end_turn()
    after = folder_of(tmp_path / "3", kept)
    after.begin_turn()
    assert after.turn != first.turn
    after.open(cast(Any, {**lab.tools, "get_code": None}))
    assert (after.path / "README.md").is_file(), "the next turn goes on with the files, too"
