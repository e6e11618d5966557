"""The ten tasks of docs/first-hour.md: each has commands, and those that need no hardware run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.home import Home
from enpire.service.example import example_home
from enpire.store.ledger import SqliteLedger
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT
from tests.docs.test_blocks import ROOT
from tests.docs.test_first_hour import DOCUMENT
from tests.enpire.datasets.foreign_dataset import FRAMES, columns, written
from tests.fakes.openpi_peer import openpi_peer
from tests.fakes.waiting import until
from tests.policies.test_checkpoint_import import trained
from tests.policies.tiny_act import write_act

WAIT_S = 600.0
PRINTED = "printed.txt"
"""File with what a started command prints, in its folder."""
TASKS = (
    "My LeRobot policy", "My openpi server", "My SO-101", "My ROS 2 arm", "My Gymnasium environment", "My dataset",
    "My tracker", "My cluster", "My coding agent", "My lab's eight stations",
)  # fmt: skip


HERE = {
    "enpire policy import outputs/train/RUN --task TASK", "enpire policy connect ws://gpu.lab.example:8000 --task TASK",
    "enpire policy check ID --task TASK", "enpire task check gym:car.yaml", "enpire run CAMPAIGN.yaml",
    "enpire run marker_in_cup", "enpire episodes import DIR --begin CAMPAIGN.yaml", "enpire episodes export NEW_DIR",
    "enpire episodes push NEW_DIR hf://datasets/USER/NAME", "enpire campaign follow --to trackio",
    "enpire campaign follow --to wandb", "enpire station enroll cell-1 --connect tcp://lab.example:7000",
}  # fmt: skip
"""Commands that tests of this file run."""
CLUSTER = "chaos/test_ray.py::test_the_same_campaign_runs_locally_encrypted_and_on_a_cluster_with_equal_event_kinds"
ELSEWHERE = {
    "enpire robot cameras STATION.yaml --name front=/dev/video0":
        "enpire/commands/test_robot_cameras.py::test_a_named_camera_is_written_and_nothing_else_changes",
    "enpire robot check STATION.yaml": "robot_drivers/test_robot_check.py::test_a_guarded_robot_passes_every_check",
    "enpire station STATION.yaml": CLUSTER,
    "enpire run CAMPAIGN.yaml --on ray": CLUSTER,
    "enpire mcp": "agent_loop/test_mcp.py::test_the_official_client_gets_an_answer_from_every_tool",
    "enpire agent run search --lane mine": "agent_loop/test_search.py::test_a_person_runs_one_lane_beside_the_campaign",
    "enpire station cell-1.yaml": "chaos/test_fleet_changes.py::test_an_enrolled_station_joins_a_running_campaign",
    "enpire serve --host 0.0.0.0": "web_ui/test_server.py::test_it_listens_on_loopback_only_until_an_admin_exists",
}  # fmt: skip
"""Other commands -> the test that does the same with a robot, a cluster or a network of its own."""


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


def test_every_command_of_the_ten_tasks_is_run_by_a_test() -> None:
    assert {line for task in TASKS for line in commands(task)} == HERE | set(ELSEWHERE)
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), place


def test_my_lerobot_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained(tmp_path / "outputs" / "train" / "RUN" / "checkpoints" / "last" / "pretrained_model")
    home = Home(tmp_path / "home")
    policy_id = typed(commands("My LeRobot policy")[0], home, {"TASK": "push_t"}).split()[0]
    assert (home.versions / policy_id / "model.safetensors").is_file()


@pytest.mark.slow
def test_my_lerobot_policy_can_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    last = tmp_path / "outputs" / "train" / "RUN" / "checkpoints" / "last"
    last.mkdir(parents=True)
    made = write_act(last / "pretrained_model", PushT.spec.cameras[0], (32, 32), PushT.spec.state_dim, 0.1)
    (made / "policy.json").unlink()
    home, words = Home(tmp_path / "home"), {"TASK": "push_t"}
    first, check = commands("My LeRobot policy")
    words["ID"] = typed(first, home, words).split()[0]
    assert "The version was loaded" in typed(check, home, words)


def test_my_openpi_server(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with openpi_peer(lambda _: {"actions": np.zeros((4, PushT.spec.action_dim))}) as peer:
        words = {"ws://gpu.lab.example:8000": peer.address, "TASK": "push_t", "connect": "connect --deadline-s 60"}
        first, check = commands("My openpi server")
        policy_id = typed(first, home, words).split()[-1]
        typed(check, home, words | {"ID": policy_id})
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


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_my_tracker_of_a_campaign_that_has_ended(number: int) -> None:
    line = commands("My tracker")[number]
    tracker = line.split()[-1]
    with example_home() as example:
        # In a process of its own: trackio keeps the folder with which it was imported.
        shown = ended(started(line, example, example.root), 0, example.root)
        assert "points are new in" in shown, "it ends by itself, because the campaign has ended"
        words = ["-m", "tests.enpire.sinks.readers", tracker, str(example.root / "sinks" / tracker), "enpire"]
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert {name for _, name, _ in json.loads(done.stdout)} >= {"episodes/success", "base/success_rate"}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["My SO-101", "My Gymnasium environment"])
def test_my_campaign_works_until_i_stop_it(task: str, tmp_path: Path) -> None:
    (tmp_path / "car.yaml").write_text(_block("gym: MountainCarContinuous-v0"))
    (tmp_path / "pump.py").write_text(_block("class Pump:"))
    (tmp_path / "CAMPAIGN.yaml").write_text(_block("task: gym:car.yaml"))
    (line,) = (line for line in commands(task) if line.startswith("enpire run"))
    home = Home(tmp_path / "home")
    running = started(f"{line} --headless", home, tmp_path)
    try:
        until(lambda: running.poll() is not None or succeeded(home), "an episode that succeeds")
        typed("enpire campaign stop", home, {})
        ended(running, 3, tmp_path)
    finally:
        running.kill()


def test_a_ledger_without_a_success_does_not_count_as_one(tmp_path: Path) -> None:
    with example_home() as example:
        assert succeeded(example)
    empty = Home(tmp_path / "home")
    empty.root.mkdir()
    SqliteLedger(empty.ledger).close()
    assert not succeeded(empty)


def succeeded(home: Home) -> bool:
    """Whether the running campaign has a success."""
    if not home.ledger.is_file():
        return False
    words = ["episodes", "list", "--outcome", "success", "--json", "--home", str(home.root)]
    shown = CliRunner().invoke(app, words)
    return shown.exit_code == 0 and bool(json.loads(shown.stdout))


def started(line: str, home: Home, folder: Path) -> subprocess.Popen[bytes]:
    """The command as a process of its own in a folder."""
    program, *rest = shlex.split(line)
    assert program == "enpire"
    around = os.environ | {"ENPIRE_HOME": str(home.root)}
    # A file, not a pipe: a pipe that nobody reads yet is full after 64 KiB, and the command would wait.
    with (folder / PRINTED).open("wb") as printed:
        return subprocess.Popen(
            [sys.executable, "-m", "enpire.cli", *rest], cwd=folder, env=around, stdin=subprocess.DEVNULL,
            stdout=printed, stderr=subprocess.STDOUT,
        )  # fmt: skip


def ended(running: subprocess.Popen[bytes], code: int, folder: Path) -> str:
    """What a process started in this folder printed; it must end with this code."""
    try:
        running.wait(timeout=WAIT_S)
    finally:
        running.kill()
    printed = (folder / PRINTED).read_text(encoding="utf-8")
    assert running.returncode == code, printed[-3000:]
    return printed


def test_my_labs_eight_stations(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    typed(commands("My lab's eight stations")[0], home, {})
    assert (home.root / "keys" / "cell-1.secret").is_file()
    assert "tcp://lab.example:7000" in (home.root / "keys" / "cell-1.yaml").read_text()


def _block(start: str) -> str:
    """The code block of docs/tasks.md that contains this text."""
    found = re.findall(r"```\w+\n(.*?)```", (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8"), re.DOTALL)
    return next(one for one in found if start in one)
