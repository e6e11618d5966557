"""The wrapper of gym-pusht, and the planner's paths. Its package is not among ENPIRE's extras: a table replaces it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from benchmarks.outside.pusht import FINE, GOAL, MIDDLE, InBlockFrame, error, pixels, stretched
from benchmarks.outside.pusht_paths import PUSHER, STARTS, Paths, Vector, outside, rotation


class Table(gymnasium.Env[Any, Any]):
    """A table on which the pusher jumps to its target and the block stays."""

    observation_space = gymnasium.spaces.Box(0.0, 512.0, (5,))
    action_space = gymnasium.spaces.Box(0.0, 512.0, (2,))

    def __init__(self, pusher: Vector, pose: Vector) -> None:
        """Pusher (2,) and block (3,), where they begin."""
        self._state = np.array([*pusher, *pose])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Begin again."""
        super().reset(seed=seed, options=options)
        return self._state, {}

    def step(self, action: Any) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Jump to a target (2,)."""
        self._state = np.array([*action, *self._state[2:]])
        return self._state, 0.0, False, False, {}


@pytest.mark.parametrize("away", [(0.0, 0.0), (0.3, -0.4), (60.0, 80.0)])
def test_a_command_is_a_length_on_a_logarithmic_scale(away: tuple[float, float]) -> None:
    """`pixels` undoes `stretched`; small commands keep their proportion, and large ones their direction."""
    command = stretched(np.array(away), FINE)
    assert pixels(command) == pytest.approx(away, abs=1e-9)
    assert np.hypot(*command) == pytest.approx(np.log1p(np.hypot(*away) / FINE))


def test_commands_are_taken_in_the_frame_of_the_block() -> None:
    """A block that is turned by a right angle: its x is the table's y."""
    world = InBlockFrame(Table(np.array([300.0, 100.0]), np.array([300.0, 200.0, np.pi / 2])))
    before, _ = world.reset()
    after, *_ = world.step(stretched(np.array([30.0, 0.0]), FINE))
    assert before[2:4] == pytest.approx((-100.0, 0.0), abs=1e-9)
    assert after[2:4] == pytest.approx((-70.0, 0.0), abs=1e-9)
    assert world.unwrapped.reset()[0][:2] == pytest.approx((300.0, 130.0))


def test_the_errors_are_those_of_the_goal() -> None:
    """At the goal they are 0; a turn about the T's middle moves the angle alone, and a shift the middle alone."""
    pusher = np.array([60.0, 60.0])

    def seen(x: float, y: float, angle: float) -> Vector:
        return InBlockFrame(Table(pusher, np.array([x, y, angle]))).reset()[0]

    assert seen(*GOAL)[8:11] == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    middle = np.array(GOAL[:2]) + rotation(GOAL[2]) @ MIDDLE
    turned = GOAL[2] + 0.3
    x, y = middle - rotation(turned) @ MIDDLE
    assert seen(x, y, turned)[8:10] == pytest.approx((0.0, 0.0), abs=1e-9)
    assert seen(x, y, turned)[10] < 0.0
    assert error(x, y, turned) == pytest.approx(2 * 45.0 * np.sin(0.15))
    shifted = np.array(GOAL[:2]) + rotation(GOAL[2]) @ (3.0, 0.0)
    assert seen(float(shifted[0]), float(shifted[1]), GOAL[2])[8:11] == pytest.approx(
        (-np.log1p(3.0 / FINE), 0.0, 0.0), abs=1e-9
    )


def test_the_pusher_goes_around_the_block() -> None:
    """From the place of any push to that of any other, in steps of half the distance to the target, without contact."""
    paths, random = Paths(), np.random.default_rng(0)
    for _ in range(60):
        pose = np.array([*random.uniform(200.0, 300.0, 2), random.uniform(-3.0, 3.0)])
        here, goal = pose[:2] + STARTS[random.integers(0, len(STARTS), 2)] @ rotation(pose[2]).T
        for _ in range(80):
            if np.hypot(*(goal - here)) < 1.0:
                break
            here = here + 0.5 * (paths.target(pose, here, goal) - here)
            assert outside(((here - pose[:2]) @ rotation(pose[2]))[None])[0] > PUSHER
        assert np.hypot(*(goal - here)) < 1.0


def test_a_path_past_the_block_is_longer_than_the_straight_line() -> None:
    """The path to a push from the far side leads around the T; one from this side is straight."""
    paths, pose = Paths(), np.array([256.0, 256.0, 0.0])
    pusher = np.array([256.0, 200.0])
    lengths, straight = paths.lengths(pose, pusher), np.hypot(*(pose[:2] + STARTS - pusher).T)
    above, below = STARTS[:, 1] < -PUSHER, STARTS[:, 1] > 120.0
    assert above.any()
    assert lengths[above] == pytest.approx(straight[above])
    assert below.any()
    assert (lengths[below] > straight[below] + 20.0).all()
