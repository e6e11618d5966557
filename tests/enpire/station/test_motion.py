"""An idle robot moves to the task's reset or home on an operator's command, over the rig and its guard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enpire.errors import EnvelopeViolation, RobotProblem
from enpire.policy_calls import LoadedPolicy
from enpire.station.motion import RobotMotion, motions_of
from enpire.station.robot_session import RobotSession
from enpire.station.station import Station
from enpire.types import SOURCE_POLICY, FloatArray, MaskArray, Motion
from enpire.wire.messages import ControlMessage
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope
from sim.tasks.pin_insertion import HOME_MM, PinInsertion
from tests.fakes.point_task import PointPolicy, PointRig, PointTask, point_order, point_station

PERIODS = 400


@pytest.fixture
def station(tmp_path: Path):
    """A station whose robots reset their scene themselves; nobody is connected."""
    made = Station(
        point_station(tmp_path, lanes=2, reset="robot", options={"reset_by_robot": True}), "inproc://nobody", print
    )
    yield made
    made.close()


def control(station: Station, kind: Motion) -> None:
    station._handle(ControlMessage(control="pause", argument="ann"))
    station._handle(ControlMessage(control=kind, argument="ann", stop_ids=("M1",)))


@pytest.mark.parametrize(("kind", "goal"), [("reset", PointTask().start("train", 0, b"").values), ("home", (2.0, 2.0))])
def test_every_idle_robot_moves_there_and_the_heartbeat_says_when(
    station: Station, kind: Motion, goal: tuple[float, ...]
) -> None:
    control(station, kind)
    beat = station._heartbeat(1)
    assert (beat.moved_by, beat.motion_id, beat.phase) == (kind, "", "reset")
    assert not station._robot.ready
    for _ in range(PERIODS):
        station.sense()
    beat = station._heartbeat(1)
    assert (beat.moved_by, beat.motion_id, beat.motion_problem, beat.phase) == ("", "M1", "", "wait-person")
    assert np.abs(np.asarray(beat.reading) - goal).max() < 0.05
    assert station._robot.ready
    state = station._lanes.sense().state
    assert np.abs(state - np.asarray(goal)).max() < 0.05


def test_a_stop_ends_the_motion_at_once(station: Station) -> None:
    control(station, "home")
    station.sense()
    station._handle(ControlMessage(control="stop", argument="bob", stop_ids=("S1",)))
    before = station._lanes.sense().state
    for _ in range(3):
        station.sense()
    beat = station._heartbeat(1)
    assert (beat.motion_id, beat.motion_problem, beat.stopped) == ("M1", "stopped by bob", True)
    assert np.abs(station._lanes.sense().state - before).max() < 0.02


def test_a_robot_that_works_on_an_order_is_not_moved(station: Station) -> None:
    policy = LoadedPolicy(policy_id="a" * 64, policy=PointPolicy(), source=SOURCE_POLICY)
    station._lanes.begin(0, point_order("a" * 64, 1), policy)
    control(station, "reset")
    assert station._heartbeat(1).motion_problem == "the robot was not idle"
    assert station._heartbeat(1).moved_by == "reset"  # of the order
    assert station._lanes.running()


def test_an_action_that_the_guard_refuses_ends_the_motion() -> None:
    class Refusing(PointRig):
        def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
            raise EnvelopeViolation("move_x is not finite")

    rig = Refusing(PointTask.spec, 1, {"reset_by_robot": True})
    motion = RobotMotion(PointTask(), rig, "home", "M1", "ann", 100)
    for _ in range(3):
        motion.period(rig.observe().state)
    assert motion.done
    assert motion.problem == "the guard refused it: move_x is not finite"


def test_a_motion_that_never_arrives_ends() -> None:
    class Stuck(PointRig):
        def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
            return action

    rig = Stuck(PointTask.spec, 1, {"reset_by_robot": True})
    motion = RobotMotion(PointTask(), rig, "reset", "M1", "ann", 5)
    for _ in range(4000):
        motion.period(rig.observe().state)
    assert (motion.done, motion.problem) == (True, "the reset took too long")


def test_a_robot_that_fails_ends_the_motion_with_the_reason(tmp_path: Path) -> None:
    breaks = tmp_path / "breaks"
    file = point_station(tmp_path, lanes=1, reset="robot", options={"reset_by_robot": True, "breaks_with": str(breaks)})
    robot = RobotSession(file, PointTask(), print)
    robot.begin_motion("home", "M1", "ann")
    robot.move(robot.motion_period)
    breaks.touch()
    robot.move(robot.motion_period)
    assert robot.ended_motion == ("M1", "robot: the point's wire is loose")
    assert "the point's wire is loose" in robot.alarm


def test_a_simulation_that_teleports_is_placed_for_a_reset_and_moves_home() -> None:
    task = PinInsertion()
    rig = GuardedRig(task.rig(2, 0), Envelope(task.spec))
    for kind in motions_of(task):
        motion = RobotMotion(task, rig, kind, "M1", "ann", 0)
        for _ in range(PERIODS):
            if not motion.done:
                motion.period(rig.observe().state)
        assert (motion.done, motion.problem) == (True, "")
    assert np.abs(rig.observe().state[:, :3] - HOME_MM).max() < 1.0


def test_a_task_without_a_home_offers_only_the_reset() -> None:
    class Homeless(PointTask):
        home_skill = None  # pyright: ignore[reportAssignmentType]

    assert motions_of(PointTask()) == ("reset", "home")
    assert motions_of(Homeless()) == ("reset",)


def test_a_robot_that_cannot_be_sensed_ends_the_motion(tmp_path: Path) -> None:
    robot = RobotSession(point_station(tmp_path, lanes=1), PointTask(), print)
    robot.begin_motion("home", "M1", "ann")

    def fail() -> None:
        raise RobotProblem("no sensor")

    robot._rig.observe = fail  # pyright: ignore[reportAttributeAccessIssue]
    robot.move(robot.motion_period)
    assert robot.ended_motion == ("M1", "robot: no sensor")
