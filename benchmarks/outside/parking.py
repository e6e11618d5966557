"""Demonstrations of highway-env's parking lot: a driver that tries a few ways in a model of the car and takes the best.

The cross-entropy method over pedal and wheel, anew at each decision from the plan before. With few tries its ways are
often long, and some end at a wall or too late.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, IntArray, Observation

Array = npt.NDArray[np.float64]

PIECES, PERIODS = 6, 4
"""A plan: so many pairs of pedal and wheel, each held for so many periods of 0.2 s."""
TRIES, BEST, TURNS = 12, 3, 1
"""Plans that are tried, those that the next plans are drawn around, and how often."""
SPREAD = (0.7, 0.6)
"""Deviation of the first plans from the plan before: pedal, wheel."""
STEP_S, STEPS = 1.0 / 15.0, 3
"""The environment's own integration step, and steps in a period."""
PEDAL, WHEEL, LENGTH = 5.0, np.pi / 4, 5.0
"""Largest acceleration in m/s², largest angle of the wheels in rad, length of the car in m."""
WALLS = np.array([31.0, 17.0])
"""Where a wall is near: distance from the middle of the lot in m."""
WEIGHTS = np.array([0.01, 0.003, 0.02, 0.02])
"""The environment's weights of errors in x and y (1/m), and in cosine and sine of the heading; 0.0144 is a success."""
POSITION, VELOCITY = 100.0, 5.0
"""Metres and m/s in one unit of the observation."""


@dataclass(slots=True)
class Plan:
    """A driver's memory of one rollout."""

    draws: np.random.Generator
    controls: Array
    """Pedal and wheel (PIECES, 2), in [-1, 1]."""


class Driver:
    """Parks in about half of the episodes."""

    horizon = execute = 2

    def __init__(self, seed: int) -> None:
        """`seed` decides the tries."""
        self._seed = seed
        self._plans: dict[int, Plan] = {}

    def begin(self, lane: int, seed: int) -> None:
        """A new rollout."""
        self._plans[lane] = Plan(draws=np.random.default_rng([self._seed, seed]), controls=np.zeros((PIECES, 2)))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Pedal and wheel (n, 2, 2), in [-1, 1]."""
        commands = [
            self._command(self._plans[int(lane)], row[:12])
            for lane, row in zip(lanes, observation.state.astype(np.float64), strict=True)
        ]
        return np.repeat(np.array(commands, np.float32)[:, None], self.horizon, axis=1)

    def _command(self, plan: Plan, row: Array) -> Array:
        """The first pair of the best plan (2,), for one row of the state: car (6,), goal (6,)."""
        middle = plan.controls + (np.roll(plan.controls, -1, axis=0) - plan.controls) * (self.execute / PERIODS)
        spread = np.broadcast_to(SPREAD, (PIECES, 2))
        for _ in range(TURNS):
            tried = np.clip(middle + spread * plan.draws.standard_normal((TRIES, PIECES, 2)), -1.0, 1.0)
            tried[0] = middle
            order = np.argsort(costs(row, tried))[:BEST]
            middle, spread = tried[order].mean(axis=0), tried[order].std(axis=0) + 0.05
            plan.controls = tried[order[0]]
        return plan.controls[0]


def costs(row: Array, plans: Array) -> Array:
    """Cost (n,) of plans (n, PIECES, 2): least distance from the goal on the way, time until then, walls."""
    place = np.tile(POSITION * row[:2], (len(plans), 1))
    heading = np.full(len(plans), np.arctan2(row[5], row[4]))
    speed = np.full(len(plans), VELOCITY * (row[2] * row[4] + row[3] * row[5]))
    goal = np.array([POSITION * row[6], POSITION * row[7], row[10], row[11]])
    least, walls = np.full(len(plans), np.inf), np.zeros(len(plans))
    for period in range(PIECES * PERIODS):
        pedal, wheel = plans[:, period // PERIODS].T
        slip = np.arctan(0.5 * np.tan(WHEEL * wheel))
        for _ in range(STEPS):
            place = place + (STEP_S * speed)[:, None] * np.stack((np.cos(heading + slip), np.sin(heading + slip)), 1)
            heading = heading + STEP_S * speed * np.sin(slip) / (LENGTH / 2)
            speed = speed + STEP_S * PEDAL * pedal
        pose = np.column_stack((place, np.cos(heading), np.sin(heading)))
        away = np.abs(pose - goal) @ WEIGHTS
        least = np.minimum(least, np.sqrt(away) + 0.002 * period)
        walls += np.maximum(np.abs(place) - WALLS, 0.0).sum(axis=1)
    return least + 0.1 * walls
