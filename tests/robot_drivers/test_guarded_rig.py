"""The rig in its envelope: limits are honoured, violated lanes hold, a stop lasts until it is resumed."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from enpire.errors import EnvelopeViolation, RobotProblem, UsageError
from enpire.interfaces import Rig
from enpire.types import Start
from robot_drivers.fake_robot import FAKE_SPEC, FakeRig, open_rig
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope, Limits

ALL = np.ones(3, np.bool_)


def start(seed: int) -> Start:
    return Start(split="train", index=seed, values=(0.1, -0.1), seed=seed)


@pytest.fixture
def rig() -> GuardedRig:
    made = open_rig(None, 3, 0, {})
    for lane in range(3):
        made.place(lane, start(lane))
    return made


def test_it_is_a_rig(rig):
    assert isinstance(rig, Rig)


def test_sent_is_what_was_allowed(rig):
    rig.observe()
    sent = rig.act(np.full((3, 2), 9.0, np.float32), ALL)
    assert sent.tolist() == [[1.5, 1.5]] * 3
    assert rig.clipped.tolist() == [1, 1, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_command_moves_nothing(rig, bad):
    wish = np.ones((3, 2), np.float32)
    twin = open_rig(None, 3, 0, {})
    for lane in range(3):
        twin.place(lane, start(lane))
    wish[1, 0] = bad
    with pytest.raises(EnvelopeViolation):
        rig.act(wish, ALL)
    np.testing.assert_array_equal(rig.observe().state, twin.observe().state)


def test_a_lane_outside_holds_until_it_is_placed():
    spec_rig = FakeRig(FAKE_SPEC, 2, 0)
    rig = GuardedRig(spec_rig, Envelope(FAKE_SPEC, Limits(workspace={"shoulder_rad": (-1.0, 0.9)})))
    for lane in range(2):
        rig.place(lane, start(lane))
    both = np.ones(2, np.bool_)
    wish = np.array([[1.4, 0.0], [0.2, 0.0]], np.float32)
    for _ in range(8):
        rig.observe()
        rig.act(wish, both)
    assert rig.violated.tolist() == [True, False]
    assert "shoulder_rad is" in rig.offences[0]
    held = rig.observe().state[0, 0]
    rig.act(wish, both)
    assert rig.observe().state[0, 0] == pytest.approx(held, abs=0.03)
    rig.place(0, start(0))
    rig.observe()
    assert not rig.violated.any()
    assert rig.offences == ["", ""]


def test_a_stop_lasts_until_it_is_resumed(rig):
    stopper = threading.Thread(target=rig.stop)
    stopper.start()
    stopper.join(20)
    rig.stop()
    with pytest.raises(RobotProblem, match="resume it"):
        rig.act(np.zeros((3, 2), np.float32), ALL)
    with pytest.raises(RobotProblem, match="stopped"):
        rig.place(0, start(0))
    rig.resume()
    rig.place(0, start(0))
    rig.act(np.zeros((3, 2), np.float32), ALL)


def test_lanes_that_do_not_move_keep_their_last_command(rig):
    rig.observe()
    first = rig.act(np.full((3, 2), 0.5, np.float32), ALL)
    second = rig.act(np.full((3, 2), 0.7, np.float32), np.array([True, False, True]))
    np.testing.assert_array_equal(second[1], first[1])
    assert second[0, 0] == np.float32(0.7)


def test_moving_must_be_truth_values(rig):
    with pytest.raises(RobotProblem, match="truth values"):
        rig.act(np.zeros((3, 2), np.float32), np.ones(3))


@pytest.mark.parametrize(("lanes", "options"), [(0, {}), (1, {"speed": 3}), (1, {"envelope": 3})])
def test_wrong_options_are_refused(lanes, options):
    with pytest.raises(UsageError):
        open_rig(None, lanes, 0, options)


def test_an_observation_belongs_to_the_caller(rig):
    seen = rig.observe()
    copy = seen.state.copy()
    rig.place(1, start(9))
    rig.act(np.ones((3, 2), np.float32), ALL)
    rig.observe()
    np.testing.assert_array_equal(seen.state, copy)
