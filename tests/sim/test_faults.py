"""Injected faults: every order still ends once, with the outcome that a real station would have to give it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from enpire import plugins
from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Task
from enpire.policy_calls import LoadedPolicy
from enpire.station.camera_recorder import CameraRecorder, RecordingRule
from enpire.station.robot_session import RobotSession
from enpire.station.station_file import StationFile
from enpire.store import arrays
from enpire.types import SOURCE_EXPERT, Observation, Order, TaskSpec
from enpire.wire.messages import Parcel
from robot_drivers.mujoco_robot import open_rig
from sim import cameras
from sim.array_task import ArrayRig
from sim.faults import DELAY_TICKS, KINDS, PHYSICAL, Disturbable, FaultyRig, read_faults
from sim.replay import replay
from sim.rollouts import roll_out
from sim.tasks.gpu_insertion import GpuInsertion
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT
from tests.sim.task_check.reach import Reach

PIN, GPU, REACH = PinInsertion(), GpuInsertion(), Reach()


def order(task: Task, index: int) -> Order:
    return Order(
        order_id=f"o{index}", campaign_id="c", station="s", task=task.spec.name, policy_id="scripted:expert",
        start=task.start("train", index, b""), purpose="collect", round=1,
    )  # fmt: skip


def station(task: Task, name: str, folder: Path, faults: str, lanes: int) -> RobotSession:
    file = StationFile(
        name="s", task=name, home=folder, lanes=lanes, pace="fast", reset="teleport", options={"faults": faults}, seed=5
    )
    return RobotSession(file, task, lambda line: None)


def run(task: Task, keeper: RobotSession, count: int) -> Mapping[str, Parcel]:
    """Orders on a station as `Station.serve` moves it, until each has ended, or the station asks for a person."""
    loaded = LoadedPolicy(policy_id="scripted:expert", policy=task.expert(0), source=SOURCE_EXPERT)
    clean = getattr(task, "clean_expert", None)
    if callable(clean):
        loaded = replace(loaded, policy=clean())  # pyright: ignore[reportArgumentType]
    waiting = [order(task, index) for index in range(count)]
    ended: list[Parcel] = []

    def period() -> None:
        for step in (
            keeper.lanes.sense, keeper.lanes.reset, keeper.lanes.verify, keeper.lanes.decide, keeper.lanes.act,
        ):  # fmt: skip
            step()

    deadline_s = time.monotonic() + 300
    while time.monotonic() < deadline_s:
        keeper.look()
        if keeper.ready:
            for lane in keeper.lanes.free():
                if waiting:
                    given = waiting.pop(0)
                    keeper.move(lambda lane=lane, given=given: keeper.lanes.begin(lane, given, loaded))
            keeper.move(period)
        else:
            time.sleep(0.02)
        ended += keeper.lanes.take_ended()
        if len(ended) == count or (keeper.lanes.alarm and not keeper.lanes.busy):
            break
    else:
        raise AssertionError(f"after a minute only {len(ended)} of {count} orders have ended")
    keeper.close()
    counted = Counter(parcel.episode.order.order_id for parcel in ended)
    assert set(counted.values()) <= {1}
    assert len(ended) + len(waiting) == count
    return {parcel.episode.order.order_id: parcel for parcel in ended}


def outcomes(ended: Mapping[str, Parcel]) -> Counter[str]:
    return Counter(parcel.episode.outcome for parcel in ended.values())


def test_the_option_is_read_or_refused_in_a_sentence() -> None:
    assert read_faults("jammed=0.5, lost_power=1") == {"jammed": 0.5, "lost_power": 1.0}
    assert read_faults("") == {}
    for wrong in ("jamed=0.5", "jammed", "jammed=much", "jammed=2"):
        with pytest.raises(UsageError):
            read_faults(wrong)
    with pytest.raises(UsageError, match="one lane"):
        open_rig(REACH, 2, 0, {"faults": "frozen_sensor=1"})


def test_a_fault_that_the_task_does_not_know_is_refused_when_the_station_is_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="push_t has no fault slipping_gripper; it has .*jammed, calibration_drift"):
        station(PushT(), "push_t", tmp_path, "slipping_gripper=1", 1)
    with pytest.raises(UsageError, match="reach has no fault jammed; it has dropped_command, "):
        open_rig(REACH, 1, 0, {"faults": "jammed=0"})


@pytest.mark.parametrize("name", plugins.BUILT_IN["tasks"])
def test_every_shipped_task_knows_the_faults_that_it_names(name: str) -> None:
    task = cast("type[Task]", plugins.load("tasks", name))()
    rig = task.rig(1, 3)
    assert isinstance(rig, Disturbable)
    rig.place(0, task.start("train", 0, b""))
    assert "calibration_drift" in rig.faults
    assert len(rig.faults) >= 2
    for kind in rig.faults:
        rig.disturb(0, kind, np.random.default_rng(0))
    for kind in ("earthquake", *(PHYSICAL - rig.faults)):
        with pytest.raises(UsageError, match=kind):
            rig.disturb(0, kind, np.random.default_rng(0))
    rig.close()


@pytest.mark.parametrize(
    ("task", "kind"),
    [(PushT(), "jammed"), (PushT(), "calibration_drift"), (GPU, "slipping_gripper"), (GPU, "calibration_drift")],
    ids=["sticks", "t drifts", "slips", "card drifts"],
)
def test_faults_change_what_comes_of_the_same_start(task: PushT | GpuInsertion, kind: str) -> None:
    starts = [task.start("train", index, b"") for index in range(4)]
    faulty, sound = FaultyRig(task.rig(4, 2), {kind: 1.0}, 2), task.rig(4, 2)
    tried, plain = (roll_out(task, rig, task.clean_expert(), starts) for rig in (faulty, sound))
    ends = [(one.arrays.state[-1], other.arrays.state[-1]) for one, other in zip(tried, plain, strict=True)]
    assert not any(np.array_equal(one, other) for one, other in ends)
    assert all(item.truth.success for item in plain)
    if kind == "jammed":
        assert not any(item.truth.success or item.verdict.kind == "success" for item in tried)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"slipping_gripper", "jammed", "calibration_drift"}))
def test_a_fault_that_never_strikes_changes_nothing(kind: str) -> None:
    rigs = (open_rig(REACH, 1, 4, {"faults": f"{kind}=0"}), open_rig(REACH, 1, 4, {}))
    tried = [roll_out(REACH, rig, REACH.expert(0), [REACH.start("train", 1, b"")])[0] for rig in rigs]
    assert np.array_equal(tried[0].arrays.state, tried[1].arrays.state)


@pytest.mark.parametrize("kind", ["dropped_command", "delayed_command"])
def test_what_was_sent_is_what_arrived(kind: str, tmp_path: Path) -> None:
    """A wish that was lost or late is not recorded: the recorded commands, replayed, give the recorded states."""
    ended = run(REACH, station(REACH, "tests.sim.task_check.reach:Reach", tmp_path, f"{kind}=1", 3), 9)
    assert outcomes(ended)["success"] == 9
    assert sum(parcel.episode.clipped for parcel in ended.values()) > 9
    for parcel in ended.values():
        episode = replace(parcel.episode, arrays=arrays.unpack(parcel.arrays_file))
        assert replay(REACH, 5, episode).largest_difference == 0.0


def test_a_frozen_sensor_makes_episodes_invalid(tmp_path: Path) -> None:
    ended = run(REACH, station(REACH, "tests.sim.task_check.reach:Reach", tmp_path, "frozen_sensor=1", 1), 4)
    assert outcomes(ended) == {"invalid": 4}
    assert all("frozen" in parcel.episode.cause for parcel in ended.values())


class Placed(Reach):
    """Commands are places."""

    spec = replace(  # type: ignore[misc]
        Reach.spec, action=tuple(replace(item, name=item.name[1:4], unit="m") for item in Reach.spec.action)
    )


@pytest.mark.parametrize("task", [REACH, Placed()], ids=["speeds", "places"])
def test_until_late_commands_arrive_the_robot_holds_still(task: Reach) -> None:
    rig, ticks = FaultyRig(task.rig(1, 0), {"delayed_command": 1.0}, 0), 30
    rig.place(0, task.start("train", 0, b""))
    told = [round(0.1 + 0.005 * tick, 3) for tick in range(ticks)]
    sent = [round(float(rig.act(np.full((1, 2), wish, np.float32), np.ones(1, np.bool_))[0, 0]), 3) for wish in told]
    late = next(tick for tick in range(ticks) if sent[tick] != told[tick])
    still = 0.0 if task is REACH else told[late - 1]
    assert sent == [*told[:late], *[still] * DELAY_TICKS, *told[late:-DELAY_TICKS]]


class Filmable(ArrayRig):
    """Its camera sees where the point is."""

    def observe(self) -> Observation:
        seen = super().observe()
        picture = np.full((1, 4, 4, 3), int(100 + 99 * seen.state[0, 1]), np.uint8)
        return replace(seen, images={"top": picture})


class Filmed(Reach):
    spec: TaskSpec = replace(Reach.spec, cameras=("top",))  # type: ignore[misc]

    def rig(self, lanes: int, seed: int) -> ArrayRig:
        return Filmable(self, lanes, seed)


def test_a_frozen_camera_makes_episodes_invalid(tmp_path: Path) -> None:
    ended = run(Filmed(), station(Filmed(), "tests.sim.test_faults:Filmed", tmp_path, "frozen_camera=1", 1), 3)
    assert outcomes(ended) == {"invalid": 3}
    assert all("Camera top" in parcel.episode.cause for parcel in ended.values())


@pytest.mark.skipif(bool(cameras.why_no_images()), reason="needs pictures")
def test_frozen_cameras_of_a_shipped_task_make_recorded_episodes_invalid(tmp_path: Path) -> None:
    """Its pictures are drawn when somebody looks: what the station records is what its watch over the cameras sees."""
    file = StationFile(
        name="s", task="pin_insertion", home=tmp_path, lanes=1, pace="fast", reset="teleport", seed=5,
        options={"faults": "frozen_camera=1"},
    )  # fmt: skip
    camera_recorder = CameraRecorder(RecordingRule(cameras="all"), lambda order_id: tmp_path / order_id)
    ended = run(PIN, RobotSession(file, PIN, lambda line: None, camera_recorder=camera_recorder), 2)
    camera_recorder.close()
    assert outcomes(ended) == {"invalid": 2}
    assert all("Camera side, top of pin_insertion" in parcel.episode.cause for parcel in ended.values())


@pytest.mark.skipif(bool(cameras.why_no_images()), reason="needs pictures")
def test_a_frozen_camera_shows_what_it_saw_when_it_froze() -> None:
    rig = FaultyRig(PIN.rig(1, 0), {"frozen_camera": 1.0}, 0)
    rig.place(0, PIN.start("train", 0, b""))
    first, states, live = rig.look(0)["top"], [rig.observe().state[0]], set[bytes]()
    for _ in range(PIN.spec.limit_ticks // 2):
        rig.act(np.array([[9.0, 9.0, -9.0]], np.float32), np.ones(1, np.bool_))
        states.append(rig.observe().state[0])
        live.add(rig.capture_live(0)(["top"])["top"].tobytes())
    assert rig.struck["frozen_camera"] == 1
    assert np.abs(states[-1] - states[0]).max() > 5.0
    assert rig.look(0)["top"].tobytes() in live
    assert len(live) < PIN.spec.limit_ticks // 4
    rig.place(0, PIN.start("train", 0, b""))
    assert np.array_equal(rig.look(0)["top"], first)


@pytest.mark.skipif(bool(cameras.why_no_images()), reason="needs pictures")
@pytest.mark.parametrize("task", [PIN, PushT(), GPU], ids=lambda task: task.spec.name)
def test_cameras_that_work_are_not_called_frozen(task: Task) -> None:
    """Also of a hand that hesitates, and where a wrist camera sees an arm that rests."""
    rig, expert, start = open_rig(task, 1, 0, {}), task.expert(0), task.start("train", 3, b"")
    rig.place(0, start)
    expert.begin(0, start.seed)
    chunk = expert.act(rig.observe(), np.arange(1))
    for tick in range(task.spec.limit_ticks // 2):
        if tick % expert.execute == 0:
            chunk = expert.act(rig.observe(), np.arange(1))
        rig.act(chunk[:, tick % expert.execute], np.ones(1, np.bool_))
        rig.observe()
        rig.look(0)
        assert not rig.stale


def test_lost_power_aborts_and_the_station_gets_its_robot_back(tmp_path: Path) -> None:
    ended = run(REACH, station(REACH, "tests.sim.task_check.reach:Reach", tmp_path, "lost_power=0.3", 1), 8)
    found = outcomes(ended)
    assert set(found) == {"aborted", "success"}
    causes = {parcel.episode.cause for parcel in ended.values() if parcel.episode.outcome == "aborted"}
    assert all("no power" in cause for cause in causes)
    told = [parcel.episode.outcome for parcel in sorted(ended.values(), key=lambda item: item.episode.began_s)]
    assert "success" in told[told.index("aborted") :]


def test_a_robot_without_power_answers_nothing() -> None:
    rig = FaultyRig(REACH.rig(1, 0), {"lost_power": 1.0}, 0)
    rig.place(0, REACH.start("train", 0, b""))
    hold, moving = np.zeros((1, 2), np.float32), np.ones(1, np.bool_)

    def go_on() -> None:
        for _ in range(REACH.spec.limit_ticks):
            rig.act(hold, moving)

    with pytest.raises(RobotProblem, match="no power"):
        go_on()
    with pytest.raises(RobotProblem, match="no power"):
        rig.observe()


def test_a_jammed_pin_is_a_failure_and_not_a_success() -> None:
    rig = FaultyRig(PIN.rig(6, 2), {"jammed": 1.0}, 2)
    tried = roll_out(PIN, rig, PIN.clean_expert(), [PIN.start("train", index, b"") for index in range(6)])
    assert rig.struck["jammed"] == 6
    assert all(item.verdict.kind == "failure" and not item.truth.success for item in tried)
    assert all(3.5 < item.truth.metrics["depth_mm"] < 7.0 for item in tried)
    rig.teleport = True
    free = PIN.rig(6, 2)
    tried = roll_out(PIN, free, PIN.clean_expert(), [PIN.start("train", index, b"") for index in range(6)])
    assert all(item.truth.success for item in tried)


def test_a_slipping_gripper_is_judged_as_it_is() -> None:
    rig = FaultyRig(PIN.rig(10, 2), {"slipping_gripper": 1.0}, 2)
    starts = [PIN.start("train", index, b"") for index in range(10)]
    tried = roll_out(PIN, rig, PIN.clean_expert(), starts)
    plain = roll_out(PIN, PIN.rig(10, 2), PIN.clean_expert(), starts)
    assert rig.struck["slipping_gripper"] == 10
    assert all(
        not np.array_equal(one.arrays.state[-1], other.arrays.state[-1])
        for one, other in zip(tried, plain, strict=True)
    )
    assert sum((item.verdict.kind == "success") == item.truth.success for item in tried) >= 9


def test_a_drifting_calibration_ends_in_a_call_for_a_person(tmp_path: Path) -> None:
    keeper = station(PIN, "pin_insertion", tmp_path, "calibration_drift=1", 1)
    ended = run(PIN, keeper, 30)
    found = outcomes(ended)
    assert found["success"] >= 1
    assert found["aborted"] >= 3
    assert {p.episode.cause for p in ended.values() if p.episode.outcome == "aborted"} == {"reset failed"}
    assert "reset of lane 0 failed" in keeper.lanes.alarm
