"""What a camera sees: boxes and balls in the way, and the edge of the picture."""

from __future__ import annotations

import numpy as np

from sim.bimanual.visibility import behind_balls, behind_boxes, in_picture, into

EYE = np.array([[0.0, 0.0, 1.0]])
POINTS = np.array([[[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 2.0]]])


def test_a_box_hides_what_is_behind_it_and_nothing_else() -> None:
    middles, halves = np.array([[0.0, 0.0, 0.5]]), np.array([[0.1, 0.1, 0.05]])
    assert behind_boxes(EYE, POINTS, middles[None], halves[None]).tolist() == [[True, False, False]]


def test_a_box_around_the_thing_itself_does_not_hide_it() -> None:
    middles, halves = np.array([[0.0, 0.0, 0.0]]), np.array([[0.02, 0.02, 0.02]])
    assert not behind_boxes(EYE, POINTS, middles[None], halves[None]).any()


def test_a_ball_hides_what_is_behind_it() -> None:
    middles = np.array([[[0.05, 0.0, 0.5], [0.3, 0.0, 0.5]]])
    assert behind_balls(EYE, POINTS, middles, np.array([0.06, 0.01])).tolist() == [[True, False, False]]


def test_only_what_lies_before_the_camera_and_within_its_angle_is_in_the_picture() -> None:
    straight = np.eye(3)[None]
    assert in_picture(EYE, straight, POINTS, 0.4).tolist() == [[True, False, False]]
    assert in_picture(EYE, straight, POINTS, 0.6).tolist() == [[True, True, False]]


def test_a_frame_undoes_its_own_rotation() -> None:
    angle = 0.7
    turn = np.array([[[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]]])
    assert np.allclose(into(turn, (turn @ np.array([1.0, 2.0, 3.0])[:, None]).swapaxes(1, 2)), [[[1.0, 2.0, 3.0]]])
