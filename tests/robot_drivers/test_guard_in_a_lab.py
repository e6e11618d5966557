"""The guard's process resolves names relative to the folder in which the laboratory starts the station."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from enpire.interfaces import Task
from enpire.plugins import make
from enpire.station.robot_session import open_robot
from enpire.station.station_file import read_station
from enpire.verifiers import VerifierSettings, with_verifiers
from robot_drivers.guard_client import GuardControl, open_guarded, open_rig
from robot_drivers.guard_settings import GuardSettings
from tests.fakes.reach_task import ReachTask

TASK = """
from dataclasses import replace
from sim.tasks.pin_insertion import PinInsertion


def made():
    task = PinInsertion()
    task.spec = replace(task.spec, name="pin_of_the_lab")
    return task
"""
STATION = """
name: lab
home: station
task: "lab_pin:made"
driver: robot_drivers.guard_client:open_rig
options: {guard: {driver: fake, folder: robot, person_to_resume: false}}
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "arm.py").write_text("from robot_drivers.fake_robot import robot\n")
    (tmp_path / "lab_pin.py").write_text(TASK)
    (tmp_path / "lab.yaml").write_text(STATION)
    (tmp_path / "json.py").write_text("raise RuntimeError('a module of the laboratory')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_a_driver_file_and_a_folder_are_found(lab: Path) -> None:
    settings = GuardSettings(driver="arm.py", folder=Path("robot"), person_to_resume=False)
    rig = open_guarded(settings)
    with GuardControl(lab / "robot" / "guard.json") as control:
        assert Path(control.address).is_absolute()
    rig.close()


def test_what_a_driver_starts_does_not_inherit_the_guards_modules(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(lab / "own"))
    (lab / "arm.py").write_text(
        "import os\nfrom robot_drivers.fake_robot import robot\n"
        f"assert os.environ['PYTHONPATH'] == {str(lab / 'own')!r}, os.environ['PYTHONPATH']\n"
    )
    open_guarded(GuardSettings(driver="arm.py", folder=Path("robot"), person_to_resume=False)).close()


@pytest.mark.parametrize("verifiers", [(), (VerifierSettings(name="task"),)])
def test_a_guard_makes_the_task_under_the_name_that_the_station_file_gives_it(
    lab: Path, verifiers: tuple[VerifierSettings, ...]
) -> None:
    file = read_station(lab / "lab.yaml")
    task = make("tasks", file.task)
    assert isinstance(task, Task)
    rig = open_robot(file, with_verifiers(task, verifiers, lab / "account"))
    assert rig.spec == task.spec
    assert rig.spec.name == "pin_of_the_lab"
    rig.close()


def test_a_task_that_no_station_file_names_is_found_by_its_class(tmp_path: Path) -> None:
    guard = {"driver": "fake", "folder": str(tmp_path), "person_to_resume": False}
    rig = open_rig(ReachTask(), 1, 0, {"guard": guard})
    assert rig.spec == ReachTask.spec
    rig.close()


def test_a_station_file_in_it_is_served(lab: Path) -> None:
    enpire = Path(sys.executable).with_name("enpire")
    process = subprocess.Popen(
        [enpire, "robot", "serve", "lab.yaml", "--bind", "tcp://127.0.0.1:*", "--home", "home"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "A station moves this robot" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=600)
    assert process.returncode == 0
