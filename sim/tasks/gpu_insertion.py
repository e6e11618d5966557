"""GPU insertion: an arm holds a card over a long thin slot, shifted and tilted, and must press it home, gently.

Observable: the camera's estimate of the card is finer than the clearance, so failures come from what a policy does.
"""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, MaskArray, Split, Start, TaskSpec
from sim.bimanual.demonstrator import CLEAN
from sim.bimanual.rig import ACTION
from sim.starts import Sampler
from sim.tasks.gpu_expert import VARIED, GpuExpert
from sim.tasks.gpu_reset import GpuReset
from sim.tasks.gpu_rig import ANGLES, CARD, START_NAMES, STATE, GpuRig
from sim.tasks.gpu_verifier import GpuVerifier

RANGES = ((-10.0, 10.0), (-8.0, 8.0), (8.0, 18.0), (-0.06, 0.06), (-0.06, 0.06), (-0.12, 0.12))
"""Of the start values: lower edge of the card aside of and over the rim (mm); roll, pitch, yaw (rad)."""
LEAST_ASIDE_MM = 1.5

_ALIGNED = np.array([1.0, 0.8, 3.0, 0.06, 0.04, 0.02])
_ENTERED_MM, _HOME_MM = 1.0, 7.3
"""Subtasks: the card off the slot's rim, as the start values say it, and how deep its lower edge is."""
_TOLERANCE = np.array([1.3, 1.3, 1.3, 0.03, 0.03, 0.025])
"""How near a reset must come, in the units of the start values."""


class GpuInsertion:
    """The immutable contract of GPU insertion."""

    spec = TaskSpec(
        name="gpu_insertion",
        instruction="Insert the graphics card into its slot.",
        state=STATE,
        action=ACTION,
        rate_hz=30.0,
        limit_ticks=150,
        cameras=("top", "left_wrist", "right_wrist"),
        subtasks=("aligned", "entered", "home"),
        start_names=START_NAMES,
    )
    starts = Sampler(task=spec.name, ranges=RANGES, least_aside=LEAST_ASIDE_MM)

    def rig(self, lanes: int, seed: int) -> GpuRig:
        """A simulated rig; `seed` draws the station's grip, friction, mass, stiffness, latency and camera bias."""
        return GpuRig(self.spec, lanes, seed)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split; train starts ignore the secret."""
        return self.starts.start(split, index, secret)

    def reset_skill(self) -> GpuReset:
        """The robot's own reset: unplug the card, take a better grasp with the other arm's help, hover."""
        return GpuReset()

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed, whether every one is within tolerance of the asked one)."""
        achieved = state[CARD.start : ANGLES.stop].astype(np.float64)
        near = bool((np.abs(achieved - np.array(start.values)) <= _TOLERANCE).all())
        return tuple(float(v) for v in achieved), near

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of aligned over the slot, entered and home hold in each state (n, state_dim), by the sensed card."""
        card = state[:, CARD.start : ANGLES.stop]
        aligned = (np.abs(card) <= _ALIGNED).all(axis=1)
        entered = (card[:, 2] <= -_ENTERED_MM) & (np.abs(card[:, 1]) <= _ALIGNED[1])
        return np.column_stack([aligned, entered, entered & (card[:, 2] <= -_HOME_MM)])

    def verifier(self) -> GpuVerifier:
        """A fresh verifier with the shipped thresholds."""
        return GpuVerifier()

    def expert(self, seed: int) -> GpuExpert:
        """The demonstrating expert: varied speed, aim and hesitation."""
        return GpuExpert(seed, VARIED)

    def clean_expert(self) -> GpuExpert:
        """The expert at its best: fast, careful, no hesitation."""
        return GpuExpert(0, CLEAN)
