"""Pin insertion: a gripper holds a pin above and aside of a 4 mm hole and must seat it, with 0.3 mm of clearance.

The noise of the sensed tip (0.08 mm) is well below the clearance. Failures therefore come from the policy (slowness,
aim, an early descent) and not from hidden state.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, IntArray, MaskArray, Split, Start, TaskSpec
from sim.starts import Sampler
from sim.tasks.pin_expert import CLEAN, VARIED, PinExpert
from sim.tasks.pin_rig import ACTION, START_NAMES, STATE, TIP, PinRig, Sensing
from sim.tasks.pin_verifier import PinVerifier

RANGES = ((-8.0, 8.0), (-8.0, 8.0), (6.0, 14.0), (-0.03, 0.03), (-0.03, 0.03))
"""Ranges of the start values: tip aside (mm), tip above the rim (mm), tilt of the pin in the grasp (rad)."""
HOME_MM = (0.0, 0.0, 14.0)
"""Tip in the home position: over the hole, as high as the highest start."""
LEAST_ASIDE_MM = 1.0

_AT_RIM_MM, _INSIDE_MM, _SEATED_MM = 0.8, 0.5, 7.4
"""Subtasks: height of the tip over the rim, and depths below it."""
_TOLERANCE = np.array([0.6, 0.6, 0.6, 0.03, 0.03])
"""Tolerance of a reset, in the units of the start values; covers 4 standard deviations of the sensors."""


class PinInsertion:
    """The task pin insertion."""

    spec = TaskSpec(
        name="pin_insertion",
        instruction="Insert the pin into the hole.",
        state=STATE,
        action=ACTION,
        rate_hz=30.0,
        limit_ticks=160,
        cameras=("top", "side"),
        subtasks=("centred", "inserted", "seated"),
        start_names=START_NAMES,
    )
    sensing = Sensing()
    rim_mm = 0.5
    """Largest distance from the hole's axis in the first subtask: the clearance and the sensors' noise."""
    starts = Sampler(task=spec.name, ranges=RANGES, least_aside=LEAST_ASIDE_MM)

    def rig(self, lanes: int, seed: int) -> PinRig:
        """A simulated rig; `seed` draws the station's friction, mass, servo gain, latency and sensor bias."""
        return PinRig(self.spec, lanes, seed, self.sensing)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split; train starts ignore the secret."""
        return self.starts.start(split, index, secret)

    def reset_skill(self) -> PinReset:
        """The reset by the robot: retract, carry, hover."""
        return PinReset()

    def home_skill(self) -> PinHome:
        """Retract, and rest high over the hole."""
        return PinHome()

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed in state (state_dim,), whether each is within tolerance of the start)."""
        achieved = state[:5].astype(np.float64)
        near = bool((np.abs(achieved - np.array(start.values)) <= _TOLERANCE).all())
        return tuple(float(v) for v in achieved), near

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of the subtasks at the rim, inserted and seated each state (n, state_dim) shows: (n, 3) bool."""
        aside, height = np.hypot(*state[:, TIP][:, :2].T), state[:, TIP][:, 2]
        at_rim = (aside <= self.rim_mm) & (height <= _AT_RIM_MM)
        return np.column_stack([at_rim, height <= -_INSIDE_MM, height <= -_SEATED_MM])

    def verifier(self) -> PinVerifier:
        """A fresh verifier with the shipped thresholds."""
        return PinVerifier()

    def expert(self, seed: int) -> PinExpert:
        """The demonstrating expert: varied speed, aim and pauses."""
        return PinExpert(seed, VARIED, self.spec.period_s)

    def clean_expert(self) -> PinExpert:
        """The clean expert: fast, accurate, without pauses."""
        return PinExpert(0, CLEAN, self.spec.period_s)


class PinReset:
    """Retract upwards out of the hole, carry the pin above its start, come down to it, and rest there."""

    _GAIN_PER_S, _CLEAR_MM, _REST_TICKS = 6.0, 3.5, 3

    def __init__(self) -> None:
        """No lane is being reset."""
        self._goal: dict[int, npt.NDArray[np.float64]] = {}
        self._rested: dict[int, int] = {}

    def begin(self, lane: int, start: Start) -> None:
        """Set the start that one lane moves to."""
        self._goal[lane] = np.array(start.values[:3])
        self._rested[lane] = 0

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 3) in mm/s, which lanes have rested at their start for three periods)."""
        goal = np.array([self._goal[int(lane)] for lane in lanes]).reshape(-1, 3)
        error = goal - state[:, TIP].astype(np.float64)
        aside = np.hypot(error[:, 0], error[:, 1])
        velocity = self._GAIN_PER_S * error
        lifting = (state[:, 2] < self._CLEAR_MM - 1.0) & (aside > 0.5)
        carrying = (state[:, 2] < self._CLEAR_MM) & (aside > 0.5) & ~lifting
        velocity[lifting, :2] = 0.0
        velocity[lifting, 2] = 18.0
        velocity[carrying, 2] = np.maximum(velocity[carrying, 2], 0.0)
        near = np.abs(error).max(axis=1) < 0.4
        done = np.zeros(len(lanes), dtype=np.bool_)
        for row, lane in enumerate(lanes):
            rested = self._rested[int(lane)] + 1 if near[row] else 0
            self._rested[int(lane)] = rested
            done[row] = rested >= self._REST_TICKS
        velocity[done] = 0.0
        return np.clip(velocity, -18.0, 18.0).astype(np.float32), done


class PinHome(PinReset):
    """Retract upwards out of the hole, and rest high over it."""

    def begin(self, lane: int, start: Start) -> None:
        """Let one lane move home."""
        self._goal[lane] = np.array(HOME_MM)
        self._rested[lane] = 0
