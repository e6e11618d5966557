"""The tutorial of docs/robots.md: its driver file is short, and its robot passes every check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from enpire.interfaces import Rig
from robot_drivers.conformance import check, check_file, starts_of
from robot_drivers.conformance_bench import RobotUnderTest
from robot_drivers.driver_file import load_robot
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "robots.md"


@pytest.fixture
def driver(tmp_path) -> Path:
    found = re.search(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    path = tmp_path / "lid_opener.py"
    path.write_text(found[1])
    return path


def test_the_file_has_at_most_forty_lines(driver):
    assert len(driver.read_text().splitlines()) <= 40


def test_the_robot_of_the_tutorial_conforms(driver):
    def opened() -> Rig:
        robot = load_robot(driver, {"port": "/dev/null"})
        return GuardedRig(SingleLane(robot), Envelope(robot.spec))

    spec = load_robot(driver, {}).spec
    report = check(RobotUnderTest(name="the arm", open=opened, start=starts_of(spec), realtime=True))
    assert report.conforms, "\n".join(report.lines())


@pytest.mark.slow
def test_it_conforms_behind_its_guard_checked_where_its_file_lies(driver, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The machine of the tests is busy: more patience than three periods, everything else as `check_file` does it.
    settings = GuardSettings(driver=driver.name, folder=tmp_path / "guard", watchdog_s=20.0)
    report = check_file(Path(driver.name), settings=settings)
    assert report.conforms, "\n".join(report.lines())
