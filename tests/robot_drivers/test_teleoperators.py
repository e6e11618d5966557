"""An operator takes over a robot with a LeRobot teleoperator or the keyboard, and gives it back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import FileProblem, RobotProblem, UsageError
from enpire.policy_calls import LoadedPolicy
from enpire.station.command_blending import PERIODS
from enpire.station.lanes import Lanes
from enpire.station.robot_session import RobotSession
from enpire.station.station_file import StationFile
from enpire.store import arrays
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY, FloatArray, IntArray, Observation, Order
from robot_drivers.teleoperators import KeyboardDevice, Teleoperation, open_keyboard, open_lerobot
from sim.tasks.pin_insertion import PinInsertion

pytest.importorskip("lerobot")

from lerobot.teleoperators.utils import TeleopEvents

from tests.robot_drivers.fakeleader import FakeLeader

PIN = PinInsertion()
VELOCITY = slice(5, 8)


OPTIONS = {
    "teleoperator": {"type": "fake_leader", "id": "a"},
    "actions": {"vx_mm_s": "stick_x", "vy_mm_s": "stick_y"},
    "scale": {"vx_mm_s": 20.0, "vy_mm_s": 20.0},
    "rests_s": 0.2,
}
LANE = np.zeros(1, np.int64)
SEEN = Observation(stamp_ns=0, state=np.zeros((1, PIN.spec.state_dim), np.float32))


class Still:
    """A policy whose actions are zero."""

    horizon = execute = 1

    def begin(self, lane: int, seed: int) -> None:
        """It has no memory."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return np.zeros((len(lanes), 1, 3), np.float32)


def order_of(number: int, *, supervised: bool = True) -> Order:
    return Order(
        order_id=f"o{number}", campaign_id="c", station="cell", task="pin_insertion", policy_id="p",
        start=PIN.start("train", number, b""), purpose="collect", round=1, supervised=supervised,
    )  # fmt: skip


@pytest.fixture
def station(tmp_path: Path) -> Iterator[RobotSession]:
    file = StationFile(
        name="cell", task="pin_insertion", home=tmp_path, operator="lerobot", operator_options=OPTIONS, pace="fast",
        reset="teleport",
    )  # fmt: skip
    keeper = RobotSession(file, PIN, lambda line: None)
    yield keeper
    keeper.close()
    assert not FakeLeader.made[-1].connected


def periods(lanes: Lanes, count: int) -> None:
    for _ in range(count):
        for step in (lanes.sense, lanes.reset, lanes.verify, lanes.decide, lanes.act):
            step()


def test_a_person_takes_over_and_gives_back_and_every_frame_says_who_held_the_robot(station: RobotSession) -> None:
    leader, lanes = FakeLeader.made[-1], station.lanes
    lanes.begin(0, order_of(1), LoadedPolicy(policy_id="p", policy=Still(), source=SOURCE_POLICY))
    periods(lanes, 5)
    now_s = 100.0
    station.lanes._operator._clock = lambda: now_s  # type: ignore[union-attr]
    for _ in range(8):
        leader.axes["stick_x"] = 1.0 - leader.axes["stick_x"]
        periods(lanes, 1)
    leader.axes["stick_x"] = 0.5
    periods(lanes, 2)
    now_s += 1.0
    periods(lanes, 12)
    lanes.abort("the test is over")
    [parcel] = lanes.take_ended()
    recorded = arrays.unpack(parcel.arrays_file)
    source = recorded.source.tolist()
    first, count = source.index(SOURCE_HUMAN), source.count(SOURCE_HUMAN)
    assert source == [SOURCE_POLICY] * first + [SOURCE_HUMAN] * count + [SOURCE_POLICY] * (len(source) - first - count)
    assert count == 10
    action = recorded.action[:, 0]
    assert action[:first].tolist() == [0.0] * first
    assert 0.0 < action[first] <= 20.0 / PERIODS + 1e-4, "the first command of the person's is a share of it"
    back = first + count
    assert action[back - 1] == 10.0
    assert action[back] == pytest.approx(10.0 * (1 - 1 / PERIODS)), "nor does the policy begin at once"
    assert action[back + PERIODS - 1 :].tolist() == [0.0] * (len(source) - back - PERIODS + 1)


def test_a_leader_that_was_put_down_elsewhere_between_two_episodes_holds_nothing(station: RobotSession) -> None:
    leader, lanes = FakeLeader.made[-1], station.lanes
    for number, place in enumerate((0.0, 9.0)):
        leader.axes["stick_x"] = place
        lanes.begin(0, order_of(number), LoadedPolicy(policy_id="p", policy=Still(), source=SOURCE_POLICY))
        periods(lanes, 5)
        lanes.abort("the test is over")
        [parcel] = lanes.take_ended()
        recorded = arrays.unpack(parcel.arrays_file)
        assert set(recorded.source.tolist()) == {SOURCE_POLICY}
        assert not recorded.action.any()


def test_a_device_that_was_lost_is_opened_anew(station: RobotSession, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, policy = FakeLeader.made[-1], LoadedPolicy(policy_id="p", policy=Still(), source=SOURCE_POLICY)
    station.move(lambda: station.lanes.begin(0, order_of(3), policy))
    station.move(lambda: periods(station.lanes, 3))
    lost.broken = True
    station.move(lambda: periods(station.lanes, 1))
    [parcel] = station.lanes.take_ended()
    assert parcel.episode.outcome == "aborted"
    assert "the cable is out" in parcel.episode.cause
    assert not station.ready
    monkeypatch.setattr(station, "_clock", lambda: 1e12)
    station.look()
    assert station.ready
    assert FakeLeader.made[-1] is not lost
    assert not lost.connected
    station.move(lambda: station.lanes.begin(0, order_of(4), policy))
    station.move(lambda: periods(station.lanes, 3))
    assert station.ready


def test_nobody_takes_over_what_is_not_supervised(station: RobotSession) -> None:
    leader, lanes = FakeLeader.made[-1], station.lanes
    lanes.begin(0, order_of(2, supervised=False), LoadedPolicy(policy_id="p", policy=Still(), source=SOURCE_POLICY))
    for _ in range(6):
        leader.axes["stick_x"] = 1.0 - leader.axes["stick_x"]
        periods(lanes, 1)
    lanes.abort("the test is over")
    [parcel] = lanes.take_ended()
    assert set(arrays.unpack(parcel.arrays_file).source.tolist()) == {SOURCE_POLICY}


def test_a_device_that_is_lost_or_talks_nonsense_is_a_fault_of_the_robot_in_a_sentence() -> None:
    person = open_lerobot(PIN, PIN.rig(1, 0), 0, OPTIONS)
    leader = FakeLeader.made[-1]
    leader.axes["stick_y"] = float("nan")
    with pytest.raises(RobotProblem, match="finite numbers"):
        person.watch(SEEN, LANE, LANE)
    leader.broken = True
    with pytest.raises(RobotProblem, match="could not be read: the cable is out"):
        person.watch(SEEN, LANE, LANE)


def test_a_device_that_says_itself_when_it_intervenes_is_believed() -> None:
    person = open_lerobot(PIN, PIN.rig(1, 0), 0, {**OPTIONS, "rests_s": 0.0001})
    leader = FakeLeader.made[-1]
    events = {TeleopEvents.IS_INTERVENTION: True}
    leader.get_teleop_events = lambda: events  # type: ignore[attr-defined]
    leader.axes["stick_x"] = 9.0
    person.begin(0, order_of(1), LoadedPolicy(policy_id="p", policy=Still(), source=SOURCE_POLICY))
    person._clock = lambda: 1.0
    assert person.watch(SEEN, LANE, LANE).tolist() == [True]
    assert person.act(SEEN, LANE).tolist() == [[20.0, 0.0, 0.0]], "within the task's bounds"
    events[TeleopEvents.IS_INTERVENTION] = False
    person._clock = lambda: 2.0
    leader.axes["stick_x"] = -9.0
    assert person.watch(SEEN, LANE, LANE).tolist() == [False]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"actions": {}}, "has no action vx_mm_s, vy_mm_s; it has stick_x"),
        ({"scale": {"vq": 2.0}}, "no action vq"),
        ({"teleoperator": {"type": "no such arm"}}, "LeRobot cannot make a teleoperator"),
        ({"teleoperator": {"type": "fake_leader", "calibrated": False}}, "lerobot-calibrate"),
        ({"rest": 1.0}, "unknown key 'rest'"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises((UsageError, RobotProblem, FileProblem), match=sentence):
        open_lerobot(PIN, PIN.rig(1, 0), 0, OPTIONS | changes)


def test_a_person_holds_one_robot_alone() -> None:
    with pytest.raises(UsageError, match="lanes: 1"):
        open_lerobot(PIN, PIN.rig(2, 0), 0, OPTIONS)


def test_keys_of_the_terminal_move_speeds_and_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, terminal = os.openpty()
    keys = {"w": {"vy_mm_s": 8.0}, "d": {"vx_mm_s": 30.0}, "j": {"tip": 2.0}}
    action = (*PIN.spec.action, replace(PIN.spec.action[0], name="tip", unit="mm", low=-50.0, high=50.0))
    spec = replace(PIN.spec, action=action, state=(replace(PIN.spec.state[0], name="tip"), *PIN.spec.state[1:]))
    hand = KeyboardDevice(spec, keys, terminal)
    person = Teleoperation(hand, 0.6)
    clock = [10.0]
    monkeypatch.setattr("robot_drivers.teleoperators.time.monotonic", lambda: clock[0])
    person._clock = lambda: clock[0]
    person.begin(0, order_of(1), LoadedPolicy(policy_id="p", policy=Still(), source=SOURCE_POLICY))
    state = SEEN.state.copy()
    state[0, 0] = 7.0
    seen = replace(SEEN, state=state)
    assert not person.watch(seen, LANE, LANE).any()
    os.write(ours, b"wwdjx")
    person.begin(0, order_of(1), LoadedPolicy(policy_id="p", policy=Still(), source=SOURCE_POLICY))
    os.write(ours, b"w")  # while the robot resets
    assert not person.watch(seen, LANE, LANE).any(), "what was typed before the rollout is no wish of this one"
    os.write(ours, b"wwdjx")
    assert person.watch(seen, LANE, LANE).all()
    assert person.act(seen, LANE).tolist() == [[20.0, 8.0, 0.0, 9.0]]
    clock[0] += 0.3
    assert person.watch(seen, LANE, LANE).all()
    assert person.act(seen, LANE).tolist() == [[0.0, 0.0, 0.0, 9.0]], "no key, no speed; a position stays"
    clock[0] += 0.5
    assert not person.watch(seen, LANE, LANE).any()
    hand.close()
    os.close(ours)
    os.close(terminal)


def test_a_station_without_a_terminal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with pytest.raises(UsageError, match="start the station in a terminal"):
            open_keyboard(PIN, PIN.rig(1, 0), 0, {"keys": {"w": {"vy_mm_s": 8.0}}})
        with pytest.raises(UsageError, match="not one key"):
            open_keyboard(PIN, PIN.rig(1, 0), 0, {"keys": {"up": {"vy_mm_s": 8.0}}})
        with pytest.raises(UsageError, match="moves vq"):
            open_keyboard(PIN, PIN.rig(1, 0), 0, {"keys": {"w": {"vq": 8.0}}})
