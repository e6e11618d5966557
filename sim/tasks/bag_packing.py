"""Bag packing: one arm holds a bag open against a spring, the other puts three objects into it."""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, MaskArray, Split, Start, TaskSpec
from sim.bimanual.demonstrator import CLEAN
from sim.bimanual.rig import ACTION
from sim.starts import Sampler
from sim.tasks.bag_expert import VARIED, BagExpert
from sim.tasks.bag_flap import AJAR_RAD
from sim.tasks.bag_reset import BagHome, BagReset
from sim.tasks.bag_rig import BAG, FLAP, START_NAMES, STATE, VIEWS, BagRig, place_of, seen_of, turn_of
from sim.tasks.bag_scene import THINGS
from sim.tasks.bag_verifier import BagVerifier, Thresholds, margins_mm

RANGES = (
    (-65.0, -40.0), (285.0, 310.0), (-0.12, 0.12), (80.0, 130.0), (180.0, 215.0), (-0.4, 0.4), (90.0, 140.0),
    (275.0, 310.0), (80.0, 130.0), (365.0, 400.0), (-0.4, 0.4),
)  # fmt: skip
"""Ranges of the start values: bag x, y (mm) and yaw (rad); block, can and bar, each in a zone next to the bag."""


_TOLERANCE = np.array([8.0, 8.0, 0.1, 8.0, 8.0, 0.16, 8.0, 8.0, 8.0, 8.0, 0.16])
"""Tolerance of a reset, in the units of the start values."""


def _sensed(state: FloatArray, thing: int) -> FloatArray:
    """Estimate of an object by the camera that sees it better: x, y (mm) and, except for the can, direction (rad)."""
    view = max(VIEWS, key=lambda one: float(state[seen_of(one, thing)]))
    place = state[place_of(view, thing)][:2]
    return place if THINGS[thing].name == "can" else np.append(place, state[turn_of(thing)])


class BagPacking:
    """The task bag packing."""

    spec = TaskSpec(
        name="bag_packing",
        instruction="Hold the bag open with the left arm and put the block, the can and the bar into it.",
        state=STATE,
        action=ACTION,
        rate_hz=30.0,
        limit_ticks=1000,
        cameras=("top", "left_wrist", "right_wrist"),
        subtasks=("opened", "first_in", "second_in", "third_in"),
        start_names=START_NAMES,
    )
    starts = Sampler(task=spec.name, ranges=RANGES)

    def rig(self, lanes: int, seed: int) -> BagRig:
        """A simulated rig; `seed` draws the station's grip, friction, mass, stiffness, latency and camera errors."""
        return BagRig(self.spec, lanes, seed)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split; train starts ignore the secret."""
        return self.starts.start(split, index, secret)

    def reset_skill(self) -> BagReset:
        """The reset by the robot: take the objects out, put them at their places, put the bag back."""
        return BagReset()

    def home_skill(self) -> BagHome:
        """Let go of the flap and move both arms over their sides of the table."""
        return BagHome()

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed in state (state_dim,), whether each is within tolerance of the start)."""
        achieved = np.concatenate([state[BAG], *(_sensed(state, thing) for thing in range(3))]).astype(np.float64)
        near = bool((np.abs(achieved - np.array(start.values)) <= _TOLERANCE).all())
        return tuple(float(v) for v in achieved), near

    def verifier(self) -> BagVerifier:
        """A fresh verifier with the shipped thresholds."""
        return BagVerifier()

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which subtasks each state (n, state_dim) shows: flap open; one, two, three objects in: (n, 4) bool."""
        rows = state.astype(np.float64)
        inside = (margins_mm(rows, Thresholds()) > 0.0).all(axis=1).sum(axis=1)
        opened = rows[:, FLAP] > AJAR_RAD
        return np.stack([opened, *(inside >= count for count in (1, 2, 3))], axis=1)

    def expert(self, seed: int) -> BagExpert:
        """The demonstrating expert: varied speed, aim and pauses."""
        return BagExpert(self.spec, seed, VARIED)

    def clean_expert(self) -> BagExpert:
        """The clean expert: fast, accurate, without pauses."""
        return BagExpert(self.spec, 0, CLEAN)
