"""A station stays stopped by the newest stop: through a kill, a damaged file and an older resume."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.errors import StorageFull
from enpire.station.robot_session import RobotSession
from enpire.station.stop_control import StopControl
from enpire.station.stop_latch import StopLatch
from enpire.store import durable
from tests.enpire.steps import stop_machine
from tests.fakes.point_task import PointTask, point_station

Start = Callable[[], tuple[StopControl, RobotSession]]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def start(tmp_path: Path, said: list[str]) -> Start:
    """Start the process of the station, again and again."""

    def started() -> tuple[StopControl, RobotSession]:
        file = replace(point_station(tmp_path), driver=f"{stop_machine.HERE}:open_rig")
        robot = RobotSession(file, PointTask(), said.append)
        return StopControl(robot, StopLatch(file.home / "stopped.json", said.append), said.append), robot

    return started


def ids(station: StopControl) -> list[str]:
    return [stop.stop_id for stop in station.stops]


def test_a_resume_ends_only_the_stops_that_it_names(start: Start, said: list[str]) -> None:
    station, robot = start()
    station.stop("ann", "S2")
    for named in ((), ("S1",), ("S1", "S3")):
        station.resume(named)
        assert (robot.stopped_by, ids(station)) == ("ann", ["S2"])
    assert said[-1] == "not resumed: the stop by ann is newer than the resume; the operator must resume again"
    station.resume(("S1", "S2"))
    assert (robot.stopped_by, ids(station), robot.ready) == ("", [], True)


def test_a_late_message_about_an_operators_stop_does_not_replace_a_stop_at_the_station(start: Start) -> None:
    station, robot = start()
    station.stop_here("a node")
    [newer] = ids(station)
    station.stop("ann", "S1")  # it was on its way when the node asked
    station.resume(("S1",))
    assert (bool(robot.stopped_by), ids(station)) == (True, [newer])
    assert ids(start()[0]) == [newer]
    station.resume((newer,))
    assert robot.ready


def test_each_request_at_the_station_is_a_new_stop(start: Start) -> None:
    station, robot = start()
    station.stop_here("a node")
    [first] = ids(station)
    station.stop_here("a node")
    station.resume((first,))
    assert robot.stopped_by == "a node"
    station.resume(ids(station))
    assert robot.ready


def test_a_resume_on_its_way_does_not_end_the_stop_of_the_robots_button(start: Start) -> None:
    station, robot = start()
    station.paused = True
    robot._rig.stopped = True  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    station.resume(())
    assert robot.stopped_by == "the robot"
    assert station.paused
    assert station.own_stop_id == station.own_stop_id != ""
    station.resume((station.own_stop_id,))
    assert robot.ready
    assert not station.own_stop_id


def test_a_station_that_was_killed_is_stopped_by_the_same_stop(start: Start) -> None:
    station, robot = start()
    station.stop("ann", "S2")
    for _ in range(2):
        station, robot = start()
        assert (robot.stopped_by, ids(station), robot.ready) == ("ann", ["S2"], False)
    station.resume(("S2",))
    station, robot = start()
    assert (robot.stopped_by, ids(station), robot.ready) == ("", [], True)


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b'{"some": 1}', b"\xff", b"[" * 99_999,
    b'{"ordered": {"stop_id": 3, "by": "ann"}}', b'{"here": {"stop_id": "../x", "by": "ann"}}',
])  # fmt: skip
def test_a_damaged_file_is_a_stop(start: Start, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "stopped.json").write_bytes(content)
    station, robot = start()
    assert robot.stopped_by == "an earlier process of this station"
    station.resume(ids(station))
    assert robot.ready
    assert start()[1].ready


def test_a_stop_holds_although_the_disk_refuses_it(
    start: Start, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    station, robot = start()

    def full(path: Path, data: bytes) -> None:
        raise StorageFull(f"The disk is full: {path}.")

    monkeypatch.setattr(durable, "write", full)
    station.stop("ann", "S2")
    assert robot.stopped_by == "ann"
    assert "would not survive a restart" in said[-1]
    station.resume(("S1",))
    assert not robot.ready


def test_an_orchestrator_of_an_earlier_version_resumes_as_before(start: Start) -> None:
    station, robot = start()
    station.stop("ann", "S2")
    station.resume(None)
    assert robot.ready
