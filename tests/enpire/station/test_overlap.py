"""Inference during motion: no pause, and the right action at the right time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from enpire.policy_calls import LoadedPolicy, policy_seed
from enpire.station import overlap
from enpire.station.chunks import NOT_FINITE
from enpire.station.overlap import OverlappedChunks
from enpire.station.station_file import StationFile
from enpire.types import SOURCE_POLICY, FloatArray, IntArray, Observation

PERIOD_S = 0.05


class Clockwork:
    """Plans the tick of its observation, the next one, and so on; answers when the test allows it."""

    horizon, execute = 8, 4

    def __init__(self) -> None:
        self.may = threading.Event()
        self.may.set()
        self.calls: list[float] = []
        self.left: list[FloatArray] = []
        self.fault = ""
        self.begun: list[int] = []
        self.inside = threading.Lock()

    def begin(self, lane: int, seed: int) -> None:
        assert not self.inside.locked(), "nobody begins while it thinks"
        self.begun.append(seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        assert self.inside.acquire(blocking=False), "it is asked one thing at a time"
        try:
            return self.think(observation)
        finally:
            self.inside.release()

    def think(self, observation: Observation) -> FloatArray:
        self.calls.append(float(observation.state[0, 0]))
        assert self.may.wait(600)
        if self.fault:
            raise ValueError(self.fault)
        return observation.state[:, None, :1] + np.arange(self.horizon, dtype=np.float32)[None, :, None]


class Continuing(Clockwork):
    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        self.left.append(left)
        assert delay >= 1
        return self.act(observation, lanes)


class Stage:
    """One lane, whose state is the number of the period in which it moves."""

    def __init__(self, policy: Clockwork, period_s: float = 600.0) -> None:
        """`period_s`: by default so long that every answer comes within one period, also on a busy machine."""
        self.policy = policy
        self.chunks = OverlappedChunks(1, 1, period_s)
        self.tick = 0
        self.sent: list[float] = []
        self.held = 0
        loaded = LoadedPolicy(policy_id="p", policy=policy, source=SOURCE_POLICY)
        assert self.chunks.begin(0, loaded, 1) == ""

    def period(self) -> dict[int, str]:
        lanes = np.asarray([0])
        failed = self.chunks.decide(Observation(stamp_ns=0, state=np.full((1, 1), self.tick, np.float32)), lanes)
        if not failed and self.chunks.ready(lanes).all():
            actions, _ = self.chunks.next(lanes)
            self.sent.append(float(actions[0, 0]))
            assert self.sent[-1] == self.tick, "an action belongs to the moment that it was planned for"
            self.tick += 1
        else:
            self.held += 1
        return dict(failed)

    def settle(self) -> None:
        """Let the running inference end."""
        question = self.chunks._call  # pyright: ignore[reportPrivateUsage]
        if question is not None:
            assert question.ready.wait(600)


def test_a_robot_executes_its_old_chunk_while_the_next_is_decided() -> None:
    stage = Stage(Clockwork())
    stage.period()
    stage.settle()
    for _ in range(40):
        stage.period()
        stage.settle()
    assert stage.held == 1, "only before the first decision"
    assert len(stage.sent) == 40
    apart = np.diff(stage.policy.calls)
    assert apart.min() >= 2, "not at every tick"
    assert apart.max() <= Clockwork.execute


def test_a_late_answer_is_aligned_and_a_robot_with_nothing_left_holds() -> None:
    stage = Stage(Clockwork())
    stage.period()
    stage.settle()
    stage.policy.may.clear()
    for _ in range(12):
        stage.period()
    assert stage.tick == Clockwork.horizon, "it carried out all of its plan, then held"
    assert stage.held == 1 + 12 - Clockwork.horizon
    stage.policy.may.set()
    stage.settle()
    # The answer was planned for a moment some commands ago: these are skipped (Stage.period checks each action).
    stage.period()
    stage.settle()
    for _ in range(10):
        stage.period()
        stage.settle()
    assert stage.tick > Clockwork.horizon


def test_the_call_is_earlier_when_inference_takes_longer() -> None:
    stage = Stage(Clockwork(), PERIOD_S)
    stage.period()
    stage.settle()
    stage.period()
    stage.policy.may.clear()
    while stage.chunks._call is None:  # pyright: ignore[reportPrivateUsage]
        stage.period()
    time.sleep(2.5 * PERIOD_S)
    stage.policy.may.set()
    stage.settle()
    stage.period()
    assert stage.chunks.lead >= 3


def test_an_answer_for_an_ended_episode_is_not_used() -> None:
    stage = Stage(Clockwork())
    stage.policy.may.clear()
    stage.period()
    other = Clockwork()
    assert stage.chunks.begin(0, LoadedPolicy(policy_id="q", policy=other, source=SOURCE_POLICY), 2) == ""
    stage.tick = 100
    stage.period()
    stage.policy.may.set()
    stage.settle()
    stage.period()
    assert not stage.sent
    stage.settle()
    stage.period()
    assert stage.sent == [100.0]


def test_an_error_in_inference_ends_the_episodes_of_the_call() -> None:
    stage = Stage(Clockwork())
    stage.policy.fault = "no idea"
    assert stage.period() == {}
    stage.settle()
    assert stage.period() == {0: "policy failed: ValueError: no idea"}
    stage.policy.fault, stage.tick = "", np.nan  # pyright: ignore[reportAttributeAccessIssue]
    stage.settle()
    stage.period()
    stage.settle()
    assert stage.period() == {0: NOT_FINITE}


def test_a_policy_that_never_answers_ends_its_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "PATIENCE_S", 0.02)
    stage = Stage(Clockwork())
    stage.policy.may.clear()
    stage.period()
    time.sleep(0.03)
    assert "did not answer" in stage.period()[0]
    stage.policy.may.set()


@pytest.mark.realtime
def test_the_control_loop_never_waits_and_a_policy_has_one_call_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overlap, "PATIENCE_S", 0.3)
    stage = Stage(Clockwork())
    stuck = LoadedPolicy(policy_id="p", policy=stage.policy, source=SOURCE_POLICY)
    stage.policy.may.clear()
    stage.period()
    for number in range(2):
        began_s = time.monotonic()
        assert stage.chunks.begin(0, stuck, number) == ""
        assert time.monotonic() - began_s < 0.2
        while not (failed := stage.period()):
            time.sleep(0.01)
        assert failed == {0: "policy did not answer within 0.3 s"}
        assert time.monotonic() - began_s >= 0.3, "orders are not used up faster than that"
    assert not stage.sent
    sound = Clockwork()
    assert stage.chunks.begin(0, LoadedPolicy(policy_id="q", policy=sound, source=SOURCE_POLICY), 5) == ""
    stage.period()
    stage.settle()
    stage.period()
    assert stage.sent == [0.0], "another policy is asked meanwhile"
    stage.settle()
    stage.policy.may.set()
    assert stage.chunks.begin(0, stuck, 7) == ""
    while len(stage.sent) == 1:
        stage.period()
        stage.settle()
    assert stage.policy.begun == [policy_seed(1), policy_seed(7)]


def test_a_policy_that_continues_gets_the_rest_of_its_chunk() -> None:
    stage = Stage(Continuing())
    for _ in range(10):
        stage.period()
        stage.settle()
    first, later = stage.policy.left[0], stage.policy.left[-1]
    assert np.isnan(first).all()
    known = later[0, ~np.isnan(later[0, :, 0]), 0]
    np.testing.assert_array_equal(known, stage.policy.calls[-1] + np.arange(len(known)))
    assert len(known) >= Clockwork.horizon - Clockwork.execute


def test_a_fast_simulation_does_not_overlap() -> None:
    with pytest.raises(ValueError, match="needs pace: realtime"):
        StationFile(name="a", task="pin_insertion", home=Path(), pace="fast", inference="overlap")
