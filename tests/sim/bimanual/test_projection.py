"""Where places of the world appear in the pictures: against MuJoCo's own cameras."""

from __future__ import annotations

import numpy as np

from sim.bimanual.kinematics import READY, Rows
from sim.bimanual.projection import cut_out, share_at, top_pixels, wrist_pixels
from sim.bimanual.station_model import TOP_FOVY_DEG, WRIST_FOVY_DEG, draw_station_physics, scene_xml
from sim.scene import Scene

POINTS = np.array([[0.02, 0.3, 0.05], [-0.1, 0.35, 0.1], [0.05, 0.25, 0.0]])


def by_mujoco(scene: Scene, camera: str, fovy_deg: float) -> Rows:
    """Pixels of the points by the pose that MuJoCo computes for a camera."""
    _, data = scene.materialise(0)
    eye, frame = data.camera(camera).xpos, data.camera(camera).xmat.reshape(3, 3)
    seen = (POINTS - eye) @ frame
    scale = 112.0 / np.tan(np.deg2rad(fovy_deg) / 2)
    return 112.0 + scale * np.stack([seen[:, 0], -seen[:, 1]], axis=1) / -seen[:, 2:]


def test_pixels_are_where_the_cameras_of_mujoco_see_the_points() -> None:
    scene = Scene(scene_xml("empty", draw_station_physics(0), ""), 1)
    scene.qpos[0, :6] = READY["left"]
    np.testing.assert_allclose(top_pixels(POINTS, 224), by_mujoco(scene, "top", TOP_FOVY_DEG), atol=0.1)
    wrist = wrist_pixels("left", np.array(READY["left"]), POINTS, 224)
    np.testing.assert_allclose(wrist, by_mujoco(scene, "left_wrist", WRIST_FOVY_DEG), atol=0.1)


def test_what_is_behind_a_camera_is_nowhere() -> None:
    assert np.isnan(top_pixels(np.array([[0.0, 0.12, 0.9]]), 224)).all()


def test_a_share_is_the_best_over_the_shifts_that_are_allowed() -> None:
    mask = np.zeros((10, 12), np.bool_)
    mask[4, 3:7] = True
    pixels = np.array([[5.5, 4.2], [6.5, 4.2], [7.5, 4.2], [8.5, 4.2]])
    assert share_at(mask, pixels) == 0.5
    assert share_at(mask, pixels, (1, 0)) == 0.75
    assert share_at(mask, pixels, (2, 1)) == 1.0
    assert share_at(mask, np.array([[np.nan, np.nan], [3.0, 4.0]])) == 0.5
    assert share_at(mask, np.array([[-3.0, 4.0], [40.0, 4.0]])) == 0.0


def test_a_part_is_cut_out_with_its_margin() -> None:
    picture = np.arange(10 * 12 * 3, dtype=np.uint8).reshape(10, 12, 3)
    part, places = cut_out(picture, np.array([[4.2, 5.0], [6.8, 1.0]]), 2)
    assert np.array_equal(part, picture[0:8, 2:9])
    np.testing.assert_allclose(places, [[2.2, 5.0], [4.8, 1.0]])
    nowhere, _ = cut_out(picture, np.array([[np.nan, np.nan]]), 2)
    assert nowhere.shape == (1, 1, 3)
