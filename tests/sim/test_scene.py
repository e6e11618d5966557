"""Scenes: the dense solver, exact snapshots, rows that do not feel their neighbours."""

# MuJoCo ships no type stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from enpire.errors import UsageError
from sim.scene import Scene
from sim.tasks.pin_scene import draw_station_physics, scene_xml

XML = scene_xml(draw_station_physics(0))


def pressed(scene: Scene, row: int, aside_m: float) -> None:
    """Bring a row into contact with the rim."""
    scene.qpos[row, 0] = aside_m
    scene.ctrl[row] = (0.004, 0.001, -0.01)


def test_a_scene_that_is_not_dense_is_refused() -> None:
    with pytest.raises(UsageError, match="dense"):
        Scene(XML.replace('jacobian="dense"', 'jacobian="sparse"'), 1)
    assert Scene(XML, 1).model.opt.jacobian == mujoco.mjtJacobian.mjJAC_DENSE


def test_a_scene_needs_a_row() -> None:
    with pytest.raises(UsageError, match="at least one row"):
        Scene(XML, 0)


def test_the_scene_moves_exactly_as_plain_mujoco_does() -> None:
    scene = Scene(XML, 3)
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    data.qpos[0] = 0.0012
    data.ctrl[:] = (0.004, 0.001, -0.01)
    pressed(scene, 1, 0.0012)
    scene.step(None, 200)
    for _ in range(200):
        mujoco.mj_step(model, data)
    assert np.array_equal(scene.qpos[1], data.qpos)
    assert data.ncon > 0


def test_snapshot_and_restore_continue_bit_for_bit() -> None:
    scene = Scene(XML, 2, edited=("qpos_spring",))
    scene.edit("qpos_spring")[0, 3] = 0.02
    pressed(scene, 0, 0.001)
    scene.step(None, 60)
    kept = scene.snapshot(0)
    scene.step(None, 90)
    once = scene.qpos[0].copy()
    scene.edit("qpos_spring")[0, 3] = -0.02
    scene.restore(0, kept)
    scene.restore(1, kept)
    scene.step(None, 90)
    assert np.array_equal(scene.qpos[0], once)
    assert np.array_equal(scene.qpos[1], once)


def test_rows_left_out_stand_still_and_the_others_do_not_notice() -> None:
    alone, beside = Scene(XML, 1), Scene(XML, 5)
    pressed(alone, 0, 0.0011)
    for row in range(5):
        pressed(beside, row, 0.0011 if row == 3 else 0.002 * row)
    waiting = beside.qpos[4].copy()
    for _ in range(40):
        alone.step(None, 3)
        beside.step(np.array([0, 3]), 3)
    assert np.array_equal(alone.qpos[0], beside.qpos[3])
    assert np.array_equal(beside.qpos[4], waiting)


def test_clear_brings_back_the_compiled_state() -> None:
    scene = Scene(XML, 2, edited=("body_pos",))
    fresh = scene.snapshot(1)
    scene.edit("body_pos")[1, 2, 0] = 0.001
    pressed(scene, 1, 0.001)
    scene.step(None, 20)
    scene.clear(1)
    again = scene.snapshot(1)
    assert np.array_equal(fresh.state, again.state)
    assert np.array_equal(fresh.edits["body_pos"], again.edits["body_pos"])


@pytest.mark.parametrize("solver", ["CG", "PGS"])
def test_the_dense_solver_agrees_with_independent_ones_in_contact(solver: str) -> None:
    exact = XML.replace('iterations="20" tolerance="1e-8"', 'iterations="5000" tolerance="1e-14"')
    models = [mujoco.MjModel.from_xml_string(exact.replace("Newton", name)) for name in ("Newton", solver)]
    rng, contacts = np.random.default_rng(0), 0
    for _ in range(20):
        pose = [*rng.uniform(-4e-4, 4e-4, 2), rng.uniform(-6e-3, -2e-4), *rng.uniform(-0.05, 0.05, 2)]
        speed, command = rng.normal(0.0, 0.02, 5), rng.normal(0.0, 0.01, 3)
        found = []
        for model in models:
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:], data.ctrl[:] = pose, speed, command
            mujoco.mj_forward(model, data)
            contacts += data.ncon
            found.append(data.qacc.copy())
        assert np.linalg.norm(found[0] - found[1]) < 1e-4 * np.linalg.norm(found[1])
    assert contacts > 10
