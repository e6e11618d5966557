"""The ten tasks of docs/first-hour.md: each has commands, and those that need no hardware run as they stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.home import Home
from enpire.service.example import example_home
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT
from tests.docs.test_blocks import ROOT
from tests.docs.test_first_hour import DOCUMENT
from tests.enpire.datasets.foreign_dataset import FRAMES, columns, written
from tests.fakes.openpi_peer import openpi_peer
from tests.policies.test_checkpoint_import import trained

TASKS = (
    "My LeRobot policy", "My openpi server", "My SO-101", "My ROS 2 arm", "My Gymnasium environment", "My dataset",
    "My tracker", "My cluster", "My coding agent", "My lab's eight stations",
)  # fmt: skip


def commands(task: str) -> list[str]:
    """The lines of the command blocks below the heading of a task."""
    text = DOCUMENT.read_text(encoding="utf-8").split("\n## Ten tasks\n")[1]
    section = re.split(r"^### ", text, flags=re.MULTILINE)
    mine = next(one for one in section if one.startswith(f"{task}\n"))
    return [line for block in re.findall(r"```sh\n(.*?)```", mine, re.DOTALL) for line in block.splitlines()]


def typed(line: str, home: Home, words: Mapping[str, str]) -> str:
    """What a command of the document prints, with the newcomer's own words in place of the capital ones."""
    for name, own in words.items():
        line = re.sub(rf"(?<![\w/]){re.escape(name)}(?!\w)", own, line)
    program, *rest = shlex.split(line)
    assert program == "enpire"
    result = CliRunner().invoke(app, rest, env={"ENPIRE_HOME": str(home.root)})
    assert result.exit_code == 0, f"{line}: {result.output} {result.exception!r}"
    return result.stdout


def test_each_of_the_ten_tasks_has_commands() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").split("\n## Ten tasks\n")[1]
    assert tuple(re.findall(r"^### (.+)$", text, re.MULTILINE)) == TASKS
    assert all(commands(task) for task in TASKS)


def test_my_lerobot_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained(tmp_path / "outputs" / "train" / "RUN" / "checkpoints" / "last" / "pretrained_model")
    home = Home(tmp_path / "home")
    policy_id = typed(commands("My LeRobot policy")[0], home, {"TASK": "push_t"}).split()[0]
    assert (home.versions / policy_id / "model.safetensors").is_file()


def test_my_openpi_server(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with openpi_peer(lambda _: {"actions": np.zeros((4, PushT.spec.action_dim))}) as peer:
        words = {"ws://gpu.lab.example:8000": peer.address, "TASK": "push_t", "connect": "connect --deadline-s 60"}
        policy_id = typed(commands("My openpi server")[0], home, words).split()[-1]
    assert (home.versions / policy_id / "policy.json").is_file()


def test_my_gymnasium_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "car.yaml").write_text(_block("gym: MountainCarContinuous-v0"))
    (tmp_path / "pump.py").write_text(_block("class Pump:"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "passes" in typed(commands("My Gymnasium environment")[0], Home(tmp_path / "home"), {})


def test_my_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CAMPAIGN.yaml").write_text("{name: mine, task: pin_insertion, recipe: habc_warm}")
    spec, home = PinInsertion.spec, Home(tmp_path / "home")
    cells = columns(spec.state_dim, spec.action_dim) | {"next.success": [True] * sum(FRAMES)}
    written(tmp_path / "DIR", cells)
    begin, _, push = commands("My dataset")
    shown = typed(begin, home, {})
    assert "2 episodes (2 demonstrations) imported" in shown
    assert "Continue it: enpire run CAMPAIGN.yaml" in shown
    typed(push, home, {"NEW_DIR": "DIR", "hf://datasets/USER/NAME": str(tmp_path / "elsewhere")})
    assert (tmp_path / "elsewhere" / "enpire.json").is_file()


@pytest.mark.slow
def test_my_dataset_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_my_dataset(tmp_path, monkeypatch)
    assert "2 episodes are in NEW_DIR" in typed(commands("My dataset")[1], Home(tmp_path / "home"), {})
    assert (tmp_path / "NEW_DIR" / "meta" / "info.json").is_file()


def test_my_tracker_of_a_campaign_that_has_ended(tmp_path: Path) -> None:
    with example_home() as example:
        line = commands("My tracker")[0].replace("trackio", "tensorboard")
        assert "points are new in" in typed(line, example, {})  # it ends by itself


def test_my_labs_eight_stations(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    typed(commands("My lab's eight stations")[0], home, {})
    assert (home.root / "keys" / "cell-1.secret").is_file()
    assert "tcp://lab.example:7000" in (home.root / "keys" / "cell-1.yaml").read_text()


def _block(start: str) -> str:
    """The code block of docs/tasks.md that contains this text."""
    found = re.findall(r"```\w+\n(.*?)```", (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8"), re.DOTALL)
    return next(one for one in found if start in one)
