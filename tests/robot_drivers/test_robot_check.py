"""`enpire robot check` of a station's robot that only an operator resumes: it asks for the code once."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.errors import RobotProblem
from robot_drivers.conformance_bench import Operator
from robot_drivers.guard_client import GuardControl
from robot_drivers.resume_code import keep

CODE = "Ada's code"


def station(folder: Path, **options: object) -> Path:
    """A station file whose robot is the fake arm, behind a guard that latches it until an operator resumes it."""
    guard = {"driver": "tests.robot_drivers.slow_robot:open_rig", "folder": str(folder / "arm"), "watchdog_s": 20.0}
    file = folder / "left.yaml"
    content = {
        "name": "left", "home": str(folder / "home"), "task": "tests.sim.task_check.reach:Reach",
        "pace": "realtime", "reset": "robot", "driver": "robot_drivers.guard_client:open_rig",
        "options": {"guard": guard, "options": {"log": str(folder / "log"), **options}},
    }  # fmt: skip
    file.write_text(json.dumps(content))
    return file


def checked(file: Path, typed: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["robot", "check", str(file)], input=typed)
    return done.exit_code, done.output


@pytest.mark.realtime
def test_a_guarded_robot_passes_every_check(tmp_path: Path) -> None:
    keep(tmp_path / "arm", CODE)
    status, output = checked(station(tmp_path), f"{CODE}\n")
    assert status == 0, output
    assert output.count("The robot's code") == 1
    assert "ok   stop_refuses_commands" in output
    assert "ok   stop_without_observations" in output
    assert "-  stop_without_cameras" in output
    with pytest.raises(Exception, match="No guard answers"):
        GuardControl(tmp_path / "arm" / "guard.json")


class Elsewhere:
    """A rig whose stop only an operator at the robot's own computer ends."""

    stopped = True

    def resume(self) -> None:
        raise RobotProblem("Another process stopped the robot; resume it at its computer.")


def test_the_checks_wait_for_an_operator_who_resumes_a_robot_on_another_computer() -> None:
    rig, said = Elsewhere(), list[str]()
    at_the_robot = threading.Timer(0.5, lambda: setattr(rig, "stopped", False))
    at_the_robot.start()
    began_s = time.monotonic()
    Operator(lambda: pytest.fail("it needs no code"), said.append).resume(rig)  # pyright: ignore[reportArgumentType]
    assert time.monotonic() - began_s >= 0.5
    assert said == [
        "Another process stopped the robot; resume it at its computer. The checks continue when the robot is resumed at"
        " its own computer."
    ]
    at_the_robot.join()
