"""A stop is reported only when the robot has confirmed it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from enpire.errors import RobotProblem
from enpire.policy_calls import LoadedPolicy
from enpire.station.robot_session import RobotSession
from enpire.station.station import Station
from enpire.station.station_file import StationFile
from enpire.store import versions
from enpire.types import SOURCE_POLICY, Order
from enpire.wire.messages import ControlMessage, Hello, Message, Orders
from enpire.wire.zmq_link import StationLink
from robot_drivers import fake_robot, resume_code
from robot_drivers.guard_client import GuardedClient
from tests.fakes.point_task import PointPolicy, PointTask, point_order, point_station, write_policy
from tests.fakes.reach_task import MODULE as REACH
from tests.fakes.reach_task import ReachTask
from tests.robot_drivers.guarded_arm import CODE, resume


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def deaf(tmp_path: Path) -> Path:
    """While this file exists, a stop does not reach the robot."""
    return tmp_path / "deaf"


def test_a_stop_is_sent_until_it_reaches_the_robot_and_nothing_moves(tmp_path: Path, deaf: Path) -> None:
    said, clock = list[str](), Clock()
    file = point_station(tmp_path, lanes=1, options={"deaf": str(deaf)})
    keeper = RobotSession(file, PointTask(), said.append, clock)
    policy = LoadedPolicy(policy_id="a" * 64, policy=PointPolicy(), source=SOURCE_POLICY)
    keeper.lanes.begin(0, point_order("a" * 64, 1), policy)
    deaf.touch()
    keeper.stop("ann")
    for _ in range(20):
        clock.now_s += 0.3
        keeper.look()
        assert not keeper.stopped_by
        assert not keeper.ready
        assert not keeper.lanes.busy
        assert "does not reach the robot" in keeper.alarm
    [parcel] = keeper.lanes.take_ended()
    assert (parcel.episode.outcome, parcel.episode.cause) == ("aborted", "stopped by ann")
    assert len(said) < 10
    deaf.unlink()
    keeper.look()
    assert keeper.stopped_by == "ann"
    clock.now_s += 3.0
    keeper.look()
    assert not keeper.alarm
    keeper.resume()
    assert keeper.ready


def test_an_operator_may_resume_a_robot_that_a_stop_never_reached(tmp_path: Path, deaf: Path) -> None:
    clock = Clock()
    keeper = RobotSession(point_station(tmp_path, options={"deaf": str(deaf)}), PointTask(), print, clock)
    deaf.touch()
    keeper.stop("ann")
    keeper.resume()
    clock.now_s += 3.0
    keeper.look()
    assert keeper.ready
    assert not keeper.alarm


def test_a_station_reports_stopped_only_when_its_robot_is(tmp_path: Path, deaf: Path) -> None:
    station = Station(point_station(tmp_path, options={"deaf": str(deaf)}), "inproc://nobody", print)
    try:
        deaf.touch()
        station._handle(ControlMessage(control="stop", argument="ann"))
        beat = station._heartbeat(1)
        assert not beat.stopped
        assert "does not reach the robot" in beat.alarm
        assert "does not reach the robot" in station._stop_here("bob")
        deaf.unlink()
        assert not station._stop_here("bob")
        assert station._heartbeat(1).stopped
    finally:
        station.close()


def test_orders_ended_by_a_check_of_the_robot_are_in_the_next_hello(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    button, said = tmp_path / "button", list[Message]()
    file = point_station(tmp_path, lanes=1, options={"button": str(button)})
    policy_id = versions.publish(write_policy(tmp_path / "made"), file.home / "policies")
    monkeypatch.setattr(StationLink, "send", lambda link, message, lease=0: said.append(message) or True)
    station = Station(file, "inproc://nobody", print)
    try:
        station._handle(Orders(orders=(point_order(policy_id, 1),)))
        while not station._lanes.running():
            station.take_orders()
            station.ship()
        held = station._held()
        button.touch()
        station._looked_s = station._uplink._greeted_s = -1e9
        station.ship()
        assert not station._lanes.running()
        assert isinstance(said[-1], Hello)
        assert list(said[-1].running) == list(held)
    finally:
        station.close()


def test_opening_a_robot_is_retried_until_its_device_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    file = StationFile(name="s", task=f"{REACH}:ReachTask", home=tmp_path, driver="fake", reset="teleport")
    keeper = RobotSession(file, ReachTask(), print, clock)

    def unplugged(*_: object) -> None:
        raise RobotProblem("no answer")

    def missing(*_: object) -> None:
        raise OSError(19, "No such device")

    with monkeypatch.context() as gone:
        gone.setattr(fake_robot.FakeRig, "observe", unplugged)
        gone.setattr(fake_robot, "open_rig", missing)
        keeper.move(keeper.lanes.sense)
        clock.now_s += 3.0
        keeper.look()
        assert "No such device" in keeper.alarm
    clock.now_s += 3.0
    keeper.look()
    assert not keeper.alarm
    assert keeper.ready
    keeper.close()


@pytest.mark.parametrize(("pace", "longest_s"), [("fast", 3600.0), ("realtime", 900.0)])
def test_an_overdue_order_raises_an_alarm(tmp_path: Path, pace: str, longest_s: float) -> None:
    clock = Clock()
    keeper = RobotSession(point_station(tmp_path, lanes=2, pace=pace), PointTask(), print, clock)
    policy = LoadedPolicy(policy_id="a" * 64, policy=PointPolicy(), source=SOURCE_POLICY)
    order = point_order("a" * 64, 1)
    keeper.lanes.begin(0, order, policy)
    clock.now_s += longest_s - 1.0
    keeper.lanes.begin(1, point_order("a" * 64, 2), policy)
    assert not keeper.overdue()
    assert not keeper.alarm
    clock.now_s += 2.0
    assert keeper.overdue() == [order.order_id]
    assert "stop and resume the robot" in keeper.alarm
    keeper.stop("ann")
    assert not keeper.overdue()


@pytest.mark.parametrize("person", [False, True])
@pytest.mark.parametrize("noticed_by", ["the next command", "a look"])
def test_a_robot_whose_guard_is_killed_fails_and_recovers(tmp_path: Path, noticed_by: str, *, person: bool) -> None:
    resume_code.keep(tmp_path / "guard", CODE)
    task, folder = f"{REACH}:ReachTask", tmp_path / "guard"
    guard = {"driver": "fake", "task": task, "folder": str(folder), "person_to_resume": person, "watchdog_s": 60.0}
    file = StationFile(
        name="s", task=task, home=tmp_path, driver="robot_drivers.guard_client:open_rig", reset="teleport",
        options={"guard": {**guard, "pace": "fast"}},
    )  # fmt: skip
    said, clock = list[str](), Clock()
    keeper = RobotSession(file, ReachTask(), said.append, clock)
    rig = keeper._rig
    assert isinstance(rig, GuardedClient)
    if person:
        resume(rig.settings)
        keeper.look()
    policy = LoadedPolicy(policy_id="a" * 64, policy=PointPolicy(), source=SOURCE_POLICY)
    keeper.move(lambda: keeper.lanes.begin(0, point_order("a" * 64, 1), policy))
    os.kill(int(str(rig.status()["pid"])), signal.SIGKILL)
    if noticed_by == "a look":
        keeper.look()
    else:
        keeper.move(keeper.lanes.sense)
    [parcel] = keeper.lanes.take_ended()
    assert parcel.episode.outcome == "aborted"
    assert parcel.episode.cause.startswith("robot: The guard has ended")
    assert not keeper.ready
    assert keeper.alarm == said[-1]
    assert keeper.alarm.startswith("The robot failed: The guard has ended")
    clock.now_s += 3.0
    keeper.look()
    assert keeper.ready != person
    assert ("holds a stop" in keeper.alarm) == person
    keeper.close()


def test_the_next_order_begins_in_the_turn_in_which_the_last_one_ended(tmp_path: Path) -> None:
    file = point_station(tmp_path, lanes=1)
    policy_id = versions.publish(write_policy(tmp_path / "made"), file.home / "policies")
    first, second = point_order(policy_id, 1), point_order(policy_id, 2)
    station, running = Station(file, f"ipc://{tmp_path}/nobody", print), [list[Order]()]
    try:
        station._handle(Orders(orders=(first, second)))
        while second not in running[-1]:
            station.turn()
            running.append(list(station._lanes.running()))
        assert running[running.index([first]) :] == [[first]] * running.count([first]) + [[second]]
    finally:
        station.close()
