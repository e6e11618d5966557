"""GPU insertion: an arm holds a card over a long thin slot, shifted and tilted, and must press it in with little force.

The camera's estimate of the card is finer than the clearance, so failures come from the policy.
"""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, MaskArray, Split, Start, TaskSpec
from sim.bimanual.arms_home import ArmsHome
from sim.bimanual.demonstrator import CLEAN
from sim.bimanual.kinematics import PARKED, READY
from sim.bimanual.rig import ACTION
from sim.starts import Sampler
from sim.tasks.gpu_expert import VARIED, GpuExpert
from sim.tasks.gpu_reset import GpuReset
from sim.tasks.gpu_rig import ANGLES, CARD, START_NAMES, STATE, GpuRig
from sim.tasks.gpu_verifier import GpuVerifier

RANGES = ((-10.0, 10.0), (-8.0, 8.0), (8.0, 18.0), (-0.06, 0.06), (-0.06, 0.06), (-0.12, 0.12))
"""Ranges of the start values: lower edge of the card aside of and over the rim (mm); roll, pitch, yaw (rad)."""
LEAST_ASIDE_MM = 1.5

_ALIGNED = np.array([1.0, 0.8, 3.0, 0.06, 0.04, 0.02])
_ENTERED_MM, _HOME_MM = 1.0, 7.3
"""Subtasks: largest distance of the card from the slot's rim, in the units of the start values, and depths (mm)."""
_CLEAR_M = 0.17
"""Height of the gripper's point from which a card in it is clear of the slot."""
_TOLERANCE = np.array([1.3, 1.3, 1.3, 0.03, 0.03, 0.025])
"""Tolerance of a reset, in the units of the start values."""


class GpuInsertion:
    """The task GPU insertion."""

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
        """The reset by the robot: unplug the card, grasp it again with the help of the other arm, hover."""
        return GpuReset()

    def home_skill(self) -> ArmsHome:
        """Lift the card out of the slot, hold it high over it; the left arm parks."""
        return ArmsHome({"left": PARKED["left"], "right": READY["right"]}, _CLEAR_M)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed in state (state_dim,), whether each is within tolerance of the start)."""
        achieved = state[CARD.start : ANGLES.stop].astype(np.float64)
        near = bool((np.abs(achieved - np.array(start.values)) <= _TOLERANCE).all())
        return tuple(float(v) for v in achieved), near

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of the subtasks aligned, entered and home each state (n, state_dim) shows: (n, 3) bool."""
        card = state[:, CARD.start : ANGLES.stop]
        aligned = (np.abs(card) <= _ALIGNED).all(axis=1)
        entered = (card[:, 2] <= -_ENTERED_MM) & (np.abs(card[:, 1]) <= _ALIGNED[1])
        return np.column_stack([aligned, entered, entered & (card[:, 2] <= -_HOME_MM)])

    def verifier(self) -> GpuVerifier:
        """A fresh verifier with the shipped thresholds."""
        return GpuVerifier()

    def expert(self, seed: int) -> GpuExpert:
        """The demonstrating expert: varied speed, aim and pauses."""
        return GpuExpert(seed, VARIED)

    def clean_expert(self) -> GpuExpert:
        """The clean expert: fast, accurate, without pauses."""
        return GpuExpert(0, CLEAN)
