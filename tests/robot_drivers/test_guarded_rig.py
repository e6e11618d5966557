"""The rig in its envelope: limits are kept, lanes out of bounds hold, a stop lasts until it is resumed."""

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


def test_a_caller_that_never_observes_leaves_no_workspace():
    rig = open_rig(None, 3, 0, {"envelope": {"workspace": {"shoulder_rad": [-0.3, 0.3]}}})
    for lane in range(3):
        rig.place(lane, start(lane))
    for _ in range(40):
        rig.act(np.array([[1.4, 0.0], [0.2, 0.0], [-1.4, 0.0]], np.float32), ALL)
    assert rig.violated.tolist() == [True, False, True]
    # The period in which the bound is passed is the last one that moves: half of the way to 1.4 from inside.
    assert np.abs(rig.observe().state[:, 0]).max() < 0.3 + 0.5 * (1.4 + 0.3)


def test_the_first_command_of_an_episode_is_limited_from_where_the_robot_is():
    rig = open_rig(None, 1, 0, {"envelope": {"step": {"shoulder_rad": 0.05}}})
    rig.place(0, Start(split="train", index=0, values=(1.4, 0.0), seed=0))
    sent = rig.act(np.zeros((1, 2), np.float32), np.ones(1, np.bool_))
    assert sent[0, 0] == pytest.approx(1.35, abs=0.02)
    assert rig.clipped.tolist() == [1]


def test_a_lane_that_rests_does_not_make_the_others_sense_anew():
    rig, twin = open_rig(None, 2, 0, {}), open_rig(None, 2, 0, {})
    alone = np.array([True, False])
    for made in (rig, twin):
        for lane in range(2):
            made.place(lane, start(lane))
        made.observe()
    rig.place(1, start(7))
    for made in (rig, twin):
        made.act(np.ones((2, 2), np.float32), alone)
    np.testing.assert_array_equal(rig.observe().state[0], twin.observe().state[0])


def test_a_stop_lasts_until_it_is_resumed(rig):
    stopper = threading.Thread(target=rig.stop)
    stopper.start()
    stopper.join(300)
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
    with pytest.raises(RobotProblem, match="must be bool"):
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
