"""Zip-tie cutting: an arm takes a cutter from its holder, aligns its blades with a tie's tail and closes them.

A feeder presents the tail at another position and direction every time; the left arm watches it with its wrist camera.
"""

from __future__ import annotations

import numpy as np

from enpire.types import FloatArray, MaskArray, Split, Start, TaskSpec
from sim.bimanual.arm_goals import Hands
from sim.bimanual.arms_home import ArmsHome
from sim.bimanual.demonstrator import CLEAN
from sim.bimanual.kinematics import READY, reach
from sim.bimanual.rig import ACTION, joints_of
from sim.starts import Sampler
from sim.tasks.ziptie_expert import VARIED, ZiptieExpert, aligned, holds, read_cutter_state
from sim.tasks.ziptie_reset import ZiptieReset
from sim.tasks.ziptie_rig import CUTTER, SEAT_M, SEATED_MM, START_NAMES, STATE, TAIL, WATCHING, YAW, ZiptieRig
from sim.tasks.ziptie_scene import CUT_AT_M, MOUTH_M
from sim.tasks.ziptie_verifier import ZiptieVerifier

RANGES = ((-12.0, 12.0), (-10.0, 10.0), (-6.0, 6.0), (-0.3, 0.3), (-15.0, 15.0), (-15.0, 15.0), (40.0, 60.0))
"""Ranges of the start values: the tail's position (mm) and direction (rad), the gripper over the cutter (mm)."""

_CLEAR_M = 0.19
"""Height of the gripper's point from which a cutter in it is clear of the holder and of a tail."""
_TOLERANCE = np.array([1.5, 1.5, 1.5, 0.03, 3.5, 3.5, 3.5])
"""Tolerance of a reset, in the units of the start values."""


class ZiptieCutting:
    """The task zip-tie cutting."""

    spec = TaskSpec(
        name="ziptie_cutting",
        instruction="Take the cutter from its holder and cut off the tail of the zip tie.",
        state=STATE,
        action=ACTION,
        rate_hz=30.0,
        limit_ticks=300,
        cameras=("top", "left_wrist", "right_wrist"),
        subtasks=("grasped", "aligned", "severed"),
        start_names=START_NAMES,
    )
    starts = Sampler(task=spec.name, ranges=RANGES)

    def rig(self, lanes: int, seed: int) -> ZiptieRig:
        """A simulated rig; `seed` draws the station's grip, friction, stiffness, latency, cutter, ties and cameras."""
        return ZiptieRig(self.spec, lanes, seed)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split; train starts ignore the secret."""
        return self.starts.start(split, index, secret)

    def reset_skill(self) -> ZiptieReset:
        """The reset by the robot: put the cutter back into its holder and hover over it."""
        return ZiptieReset()

    def home_skill(self) -> ArmsHome:
        """Rise clear of holder and feeder; the right arm waits over the middle, the left arm watches the tail."""
        return ArmsHome({"left": WATCHING, "right": READY["right"]}, _CLEAR_M)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed, whether all are within tolerance and the cutter hangs in its holder)."""
        sensed = state.astype(np.float64)
        yaw = float(sensed[YAW])
        along = CUT_AT_M * np.array([np.sin(yaw), -np.cos(yaw), 0.0])
        tail = sensed[TAIL] - 1e3 * (np.array(MOUTH_M) + along)
        hand = 1e3 * (reach("right", sensed[None, joints_of("right")]).at_m[0] - SEAT_M)
        achieved = np.array([*tail, yaw, *hand])
        seated = bool((np.abs(sensed[CUTTER] - 1e3 * SEAT_M) < SEATED_MM).all())
        near = seated and bool((np.abs(achieved - np.array(start.values)) <= _TOLERANCE).all())
        return tuple(float(v) for v in achieved), near

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of the subtasks grasped, aligned and severed each state (n, state_dim) shows: (n, 3) bool."""
        sensed = state.astype(np.float64)
        hands = Hands(sensed)
        marks = np.zeros((len(sensed), 3), dtype=np.bool_)
        for row in range(len(sensed)):
            scene, hand = read_cutter_state(sensed[row]), hands.of(row, "right")
            grasped = holds(scene, hand)
            marks[row] = grasped, grasped and aligned(scene), scene.fallen
        return marks

    def verifier(self) -> ZiptieVerifier:
        """A fresh verifier with the shipped thresholds."""
        return ZiptieVerifier()

    def expert(self, seed: int) -> ZiptieExpert:
        """The demonstrating expert: varied speed, aim and pauses."""
        return ZiptieExpert(self.spec, seed, VARIED)

    def clean_expert(self) -> ZiptieExpert:
        """The clean expert: fast, accurate, without pauses."""
        return ZiptieExpert(self.spec, 0, CLEAN)
