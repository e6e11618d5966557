"""The least height of an SO-101's tip: commands end at it, a tip that falls below it ends the rollout."""

from __future__ import annotations

import numpy as np
import pytest

from enpire.errors import UsageError
from enpire.types import Bounds, FloatArray, Start, TaskSpec
from robot_drivers.fake_robot import FakeRig
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.safety import Envelope, Limits
from sim.so101.kinematics import JOINTS, RANGES_DEG, Tips, joints_for, tips

STICK_M, LEAST_M = 0.06, 0.02
ARM = tuple(
    Bounds(name=f"{name}.pos", unit="deg", low=low, high=high)
    for name, (low, high) in zip(JOINTS, RANGES_DEG, strict=True)
)
GRIPPER = Bounds(name="gripper.pos", unit="%", low=0.0, high=100.0)
# States stand in another order than actions.
SPEC = TaskSpec(name="arm", instruction="", state=(GRIPPER, *ARM), action=(*ARM, GRIPPER), rate_hz=30.0, limit_ticks=9)
TIP: dict[str, object] = {"arm": "so101", "stick_m": STICK_M, "least_m": LEAST_M}
ENVELOPE = Envelope(SPEC, Limits.read({"tip": TIP}))


def command(height_m: float, roll_deg: float = 90.0) -> FloatArray:
    """The command (1, 6) that brings the tip of the stick to this height, 0.3 m ahead."""
    wanted = Tips(at_m=np.array([[0.3, 0.0, height_m]]), pitch_deg=np.full(1, 25.0), roll_deg=np.array([roll_deg]))
    return np.append(joints_for(wanted, STICK_M)[0], 50.0).astype(np.float32)[None]


def height_m(action: FloatArray, stick_m: float = STICK_M) -> float:
    return float(tips(action[:, :5].astype(np.float64), stick_m).at_m[0, 2])


def state(action: FloatArray) -> FloatArray:
    return np.roll(action, 1, axis=1)


def test_a_command_towards_the_table_ends_at_the_least_height() -> None:
    last = command(0.05)
    sent, clipped = ENVELOPE.apply(command(-0.02), last)
    assert clipped.tolist() == [True]
    assert LEAST_M <= height_m(sent) < LEAST_M + 0.002, "nearly all of the step that is allowed is sent"
    sent, clipped = ENVELOPE.apply(command(0.03), last)
    assert not clipped[0]
    np.testing.assert_array_equal(sent, command(0.03))


def test_a_tip_that_is_too_low_may_only_rise() -> None:
    last = command(0.005)
    sent, clipped = ENVELOPE.apply(command(0.0), last)
    assert clipped[0]
    np.testing.assert_allclose(sent, last, atol=1e-4)
    sent, clipped = ENVELOPE.apply(command(0.01), last)
    assert not clipped[0]
    assert height_m(sent) == pytest.approx(0.01, abs=1e-4)


def test_the_gripper_opens_at_the_least_height() -> None:
    last = command(LEAST_M + 1e-4)
    wanted = command(LEAST_M - 0.01)
    wanted[0, 5] = 80.0
    sent, clipped = ENVELOPE.apply(wanted, last)
    assert clipped[0]
    assert sent[0, 5] == 80.0
    assert height_m(sent) >= LEAST_M


def test_the_end_of_the_finger_counts_when_the_hand_points_down() -> None:
    down = Tips(at_m=np.array([[0.2, 0.0, 0.025]]), pitch_deg=np.full(1, 80.0), roll_deg=np.full(1, 0.0))
    joints = np.append(joints_for(down, 0.0)[0], 50.0).astype(np.float32)[None]
    empty = Envelope(SPEC, Limits.read({"tip": {"arm": "so101", "least_m": 0.03}}))
    assert height_m(joints, 0.0) == pytest.approx(0.025, abs=1e-4)
    assert empty.too_low(state(joints))[0], "the finger ends 11 mm lower"


def test_a_low_arm_may_rise_and_is_judged_from_then_on() -> None:
    spec = TaskSpec(
        name="arm", instruction="", state=(*ARM, GRIPPER), action=(*ARM, GRIPPER), rate_hz=30.0, limit_ticks=9,
        start_names=tuple(item.name for item in (*ARM, GRIPPER)),
    )  # fmt: skip
    rig = GuardedRig(FakeRig(spec, 1, 0), Envelope(spec, Limits.read({"tip": TIP})))
    one = np.ones(1, np.bool_)
    rig.place(0, Start(split="train", index=0, seed=0, values=tuple(map(float, command(0.0)[0]))))
    assert height_m(rig.observe().state) < LEAST_M - 0.01
    rig.act(command(-0.05), one)
    assert height_m(rig.observe().state) > -0.005, "it cannot be driven lower"
    for _ in range(20):
        rig.act(command(0.08), one)
    assert height_m(rig.observe().state) > 0.07
    assert not rig.violated[0]
    rig._rig.place(0, Start(split="train", index=0, seed=0, values=tuple(map(float, command(0.0)[0]))))
    rig.observe()
    assert rig.violated[0]
    assert rig.offences[0].startswith("the tip is ")


def test_each_lane_has_its_own_height() -> None:
    last = np.concatenate([command(0.05), command(0.05)])
    wanted = np.concatenate([command(0.04), command(-0.02)])
    sent, clipped = ENVELOPE.apply(wanted, last)
    assert clipped.tolist() == [False, True]
    np.testing.assert_array_equal(sent[0], wanted[0])


def test_a_measured_tip_below_the_sag_is_out_of_bounds() -> None:
    low, sagging = state(command(0.0)), state(command(LEAST_M - 0.008))
    assert ENVELOPE.too_low(np.concatenate([low, sagging])).tolist() == [True, False]
    assert not ENVELOPE.violated(low)[0], "every joint is inside its bounds"
    assert ENVELOPE.offence(low[0]) == "the tip is 0 mm over the table, allowed is at least 10 mm"
    assert ENVELOPE.offence(sagging[0]) == ""


def test_the_jaws_count_too_when_the_stick_points_up() -> None:
    raised = command(0.11, roll_deg=-90.0)
    assert height_m(raised) == pytest.approx(0.11, abs=1e-3)
    assert height_m(raised, 0.0) < LEAST_M + 0.04
    lower = command(0.05, roll_deg=-90.0)
    assert height_m(lower, 0.0) < LEAST_M - 0.005
    sent, clipped = ENVELOPE.apply(lower, raised)
    assert clipped[0]
    assert height_m(sent, 0.0) >= LEAST_M


@pytest.mark.parametrize(
    ("tip", "said"),
    [({"arm": "so101"}, "tip of the envelope must have arm and least_m"),
     (TIP | {"speed": 1}, "tip of the envelope must have arm and least_m"),
     (TIP | {"least_m": "low"}, "tip.least_m of the envelope must be metres"),
     (TIP | {"stick_m": 60}, "tip.stick_m of the envelope must be metres, at least 0 and below 1, not 60"),
     (TIP | {"sag_m": 0.02}, "tip.least_m of the envelope is 0.02 m; it must be above sag_m"),
     (TIP | {"arm": "ur5"}, "tip.arm of the envelope must be so101, not 'ur5'"), (3, "tip of the envelope must have")],
)  # fmt: skip
def test_a_limit_that_cannot_be_read_is_one_sentence(tip: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Limits.read({"tip": tip})


def test_a_task_without_the_arms_joints_is_refused() -> None:
    spec = TaskSpec(name="slider", instruction="", state=(GRIPPER,), action=(GRIPPER,), rate_hz=30.0, limit_ticks=9)
    with pytest.raises(UsageError, match=r"the tip of a so101, but slider has no action shoulder_pan\.pos in deg"):
        Envelope(spec, Limits.read({"tip": TIP}))
