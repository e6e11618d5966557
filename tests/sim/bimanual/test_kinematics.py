"""Kinematics of the arms, against MuJoCo's own and against themselves."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from sim.bimanual.kinematics import (
    READY,
    SIDES,
    Side,
    from_angles,
    joint_speeds,
    moved,
    reach,
    rotation_between,
    solve,
)
from sim.bimanual.station_model import TOOL_M, draw_station_physics, scene_xml


@pytest.mark.parametrize("side", SIDES)
def test_a_gripper_is_where_mujoco_says(side: Side) -> None:
    model = mujoco.MjModel.from_xml_string(scene_xml("bare", draw_station_physics(1), ""))  # type: ignore[attr-defined]
    data = mujoco.MjData(model)  # type: ignore[attr-defined]
    joints = np.random.default_rng(2).uniform(-1.0, 1.0, (5, 6))
    now = reach(side, joints)
    body = model.body(f"{side}_5").id
    columns = [model.joint(f"{side}_{joint}").dofadr[0] for joint in range(6)]
    for row in range(5):
        data.qpos[[model.joint(f"{side}_{joint}").qposadr[0] for joint in range(6)]] = joints[row]
        mujoco.mj_forward(model, data)  # type: ignore[attr-defined]
        turn = data.xmat[body].reshape(3, 3)
        point = data.xpos[body] + TOOL_M * turn[:, 0]
        assert np.allclose(now.at_m[row], point, atol=1e-12)
        assert np.allclose(now.turn[row], turn, atol=1e-12)
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jac(model, data, linear, angular, point, body)  # type: ignore[attr-defined]
        assert np.allclose(now.jacobian[row], np.vstack([linear, angular])[:, columns], atol=1e-12)


@pytest.mark.parametrize("side", SIDES)
def test_solving_finds_joints_for_a_pose_that_can_be_reached(side: Side) -> None:
    ready = np.array([READY[side]])
    goal = reach(side, ready + np.random.default_rng(4).uniform(-0.15, 0.15, (1, 6)))
    found = reach(side, solve(side, goal.at_m, goal.turn, ready))
    assert np.allclose(found.at_m, goal.at_m, atol=1e-6)
    assert np.allclose(found.turn, goal.turn, atol=1e-6)


def test_a_row_is_the_same_alone_and_among_many() -> None:
    rng = np.random.default_rng(3)
    joints, twist = rng.uniform(-1.0, 1.0, (9, 6)), rng.uniform(-0.1, 0.1, (9, 6))
    many, one = reach("right", joints), reach("right", joints[4:5])
    assert np.array_equal(many.jacobian[4:5], one.jacobian)
    assert np.array_equal(joint_speeds(many.jacobian, twist)[4:5], joint_speeds(one.jacobian, twist[4:5]))


def test_the_rotation_between_two_frames_turns_one_into_the_other() -> None:
    rng = np.random.default_rng(5)
    now, vector = from_angles(rng.uniform(-1.0, 1.0, (6, 3))), rng.uniform(-1.0, 1.0, (6, 3))
    angle = np.linalg.norm(vector, axis=1)
    cross = np.zeros((6, 3, 3))
    cross[:, 0, 1], cross[:, 0, 2], cross[:, 1, 2] = -vector[:, 2], vector[:, 1], -vector[:, 0]
    cross -= np.swapaxes(cross, 1, 2)
    unit = cross / angle[:, None, None]
    sine, rest = np.sin(angle)[:, None, None], 1.0 - np.cos(angle)[:, None, None]
    goal = (np.eye(3) + sine * unit + rest * unit @ unit) @ now
    assert np.allclose(rotation_between(now, goal), vector, atol=1e-9)


def test_a_carried_point_moves_as_its_jacobian_says() -> None:
    joints = np.array([READY["left"]])
    now, step = reach("left", joints), 1e-6
    offset = np.array([[0.01, -0.03, 0.05]])
    jacobian = moved(now.jacobian, offset)[0]
    inside = np.swapaxes(now.turn, 1, 2) @ offset[:, :, None]
    for joint in range(6):
        bent = joints.copy()
        bent[0, joint] += step
        after = reach("left", bent)
        shift = after.at_m + (after.turn @ inside)[:, :, 0] - now.at_m - offset
        assert np.allclose(shift[0] / step, jacobian[:3, joint], atol=1e-5)
