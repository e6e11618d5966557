"""The numbers of the SO-101: forward and inverse kinematics agree with each other and with MuJoCo."""

# MuJoCo ships no type stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mujoco
import numpy as np

from sim.so101.kinematics import JOINTS, RANGES_DEG, Tips, joints_for, tips
from sim.so101.model import draw_arm_physics
from sim.tasks.marker_rig import MARKER_M, STICK_M, scene_xml

LOW, HIGH = np.array(RANGES_DEG).T


def test_forward_kinematics_is_the_models() -> None:
    model = mujoco.MjModel.from_xml_string(scene_xml(draw_arm_physics(0)))
    data = mujoco.MjData(model)
    marker = model.geom("marker").id
    for joints in np.random.default_rng(0).uniform(LOW, HIGH, (30, 5)):
        data.qpos[:5] = np.radians(joints)
        mujoco.mj_kinematics(model, data)
        along = data.geom_xmat[marker].reshape(3, 3)[:, 2]
        ends = [data.geom_xpos[marker] + side * (STICK_M - MARKER_M) * along for side in (-1, 1)]
        found = tips(joints[None], STICK_M - MARKER_M).at_m[0]
        assert min(float(np.abs(end - found).max()) for end in ends) < 1e-4


def test_all_at_zero_the_jaws_are_where_the_public_model_has_them() -> None:
    at = tips(np.zeros((1, 5)), 0.0).at_m[0]
    np.testing.assert_allclose(at, [0.3914, 0.0, 0.2265], atol=2e-3)


def test_inverse_kinematics_finds_the_joints_of_a_tip() -> None:
    draw = np.random.default_rng(1)
    reachable = np.column_stack([
        draw.uniform(-60, 60, 200), draw.uniform(-40, 20, 200), draw.uniform(0, 60, 200), draw.uniform(-50, 20, 200),
        draw.uniform(60, 120, 200),
    ])  # fmt: skip
    wanted = tips(reachable, STICK_M)
    found = joints_for(wanted, STICK_M)
    np.testing.assert_allclose(found, reachable, atol=1e-6)
    np.testing.assert_allclose(tips(found, STICK_M).at_m, wanted.at_m, atol=1e-9)


def test_a_tip_out_of_reach_gives_joints_within_their_ranges() -> None:
    far = Tips(at_m=np.array([[2.0, 1.0, 1.0], [0.05, 0.0, -1.0]]), pitch_deg=np.zeros(2), roll_deg=np.full(2, 90.0))
    found = joints_for(far, STICK_M)
    assert np.isfinite(found).all()
    assert ((found >= LOW) & (found <= HIGH)).all()
    assert len(JOINTS) == found.shape[1]
