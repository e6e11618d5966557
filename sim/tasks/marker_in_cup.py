"""Marker in cup: an SO-101 arm carries a marker to a cup and lowers it there, in simulation or on a real arm.

State and actions have the names and units of LeRobot's driver: joint angles in degrees, the gripper in %. No sensor
sees the cup: it stands fixed at `marker_rig.CUP_M`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, IntArray, MaskArray, Split, Start, TaskSpec
from sim.so101.kinematics import Tips, joints_for, tips
from sim.starts import Sampler
from sim.tasks.marker_expert import CLEAN, UPRIGHT_DEG, VARIED, MarkerExpert
from sim.tasks.marker_rig import (
    ACTION,
    ARM,
    CUP_M,
    GRIPPER,
    RIM_M,
    SQUEEZE_PERCENT,
    START_NAMES,
    STATE,
    STICK_M,
    MarkerRig,
)
from sim.tasks.marker_verifier import MarkerVerifier, tip_in_cup

Rows = npt.NDArray[np.float64]

_ASIDE_DEG = (28.0, 5.0, 5.0, 8.0, 20.0)
"""How far each joint is from the home position at a start, at most: the tip is then still over the cup's rim."""
_TOLERANCE_DEG = 3.5
"""Tolerance of a reset, for each joint: the arm sags by up to a degree."""
_OVER_M, _AT_RIM_MM, _INSIDE_MM = 0.09, 25.0, 10.0


def _over_cup() -> Rows:
    """The joints (5,) in degrees with the upright marker over the cup."""
    at_m = np.array([[*CUP_M, RIM_M + _OVER_M]])
    return joints_for(Tips(at_m=at_m, pitch_deg=np.zeros(1), roll_deg=np.array([UPRIGHT_DEG])), STICK_M)[0]


HOME_DEG = tuple(round(float(angle), 1) for angle in _over_cup())
"""Joints in the home position: the marker upright over the cup, 9 cm over its rim."""


class MarkerInCup:
    """The task marker in cup."""

    spec = TaskSpec(
        name="marker_in_cup",
        instruction="Put the tip of the marker into the cup.",
        state=STATE,
        action=ACTION,
        rate_hz=30.0,
        limit_ticks=80,
        cameras=("front",),
        subtasks=("over", "inside"),
        start_names=START_NAMES,
    )
    starts = Sampler(
        task=spec.name,
        ranges=tuple((home - aside, home + aside) for home, aside in zip(HOME_DEG, _ASIDE_DEG, strict=True)),
    )

    def rig(self, lanes: int, seed: int) -> MarkerRig:
        """A simulated rig; `seed` draws the stiffness, friction, latency and calibration of the station's arm."""
        return MarkerRig(self.spec, lanes, seed)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split; train starts ignore the secret."""
        return self.starts.start(split, index, secret)

    def reset_skill(self) -> MarkerReset:
        """The reset by the robot: lift the marker out of the cup, then turn all joints to the start."""
        return MarkerReset(self.spec.period_s)

    def home_skill(self) -> MarkerHome:
        """Lift the marker out of the cup, and rest over it."""
        return MarkerHome(self.spec.period_s)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(sensed joints in degrees of state (state_dim,), whether each is within tolerance of the start)."""
        near = np.abs(state[ARM] - np.array(start.values)) <= _TOLERANCE_DEG
        return tuple(float(angle) for angle in state[ARM]), bool(near.all())

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of the subtasks over and inside each state (n, state_dim) shows: (n, 2) bool."""
        deep_mm, aside_mm = tip_in_cup(state)
        over = aside_mm <= _AT_RIM_MM
        return np.column_stack([over, over & (deep_mm >= _INSIDE_MM)])

    def verifier(self) -> MarkerVerifier:
        """A fresh verifier with the shipped thresholds."""
        return MarkerVerifier()

    def expert(self, seed: int) -> MarkerExpert:
        """The demonstrating expert: varied speed, aim and pauses."""
        return MarkerExpert(seed, VARIED, self.spec.period_s)

    def clean_expert(self) -> MarkerExpert:
        """The clean expert: fast, accurate, without pauses."""
        return MarkerExpert(0, CLEAN, self.spec.period_s)


class MarkerReset:
    """Lift the marker straight out of the cup, then turn all joints to the start together, and rest there."""

    _LIFT_M_S, _TURN_DEG_S, _REST_TICKS = 0.08, 50.0, 4
    _CLEAR_M, _NEAR_M, _NEAR_DEG = 0.02, 0.05, 2.2

    def __init__(self, period_s: float) -> None:
        """No lane is being reset."""
        self._period_s = period_s
        self._goal: dict[int, Rows] = {}
        self._command: dict[int, Rows] = {}
        self._rested: dict[int, int] = {}

    def begin(self, lane: int, start: Start) -> None:
        """Set the start that one lane moves to."""
        self._goal[lane] = np.array(start.values)
        self._command.pop(lane, None)
        self._rested[lane] = 0

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 6) in degrees and %, which lanes have rested at their start)."""
        commands = np.full((len(lanes), len(STATE)), 0.5 * SQUEEZE_PERCENT, np.float32)
        done = np.zeros(len(lanes), np.bool_)
        for row, lane in enumerate(int(lane) for lane in lanes):
            sensed = state[row, ARM].astype(np.float64)
            command = self._next(self._command.get(lane, sensed), self._goal[lane])
            self._command[lane] = command
            commands[row, :GRIPPER] = command
            near = bool((np.abs(sensed - self._goal[lane]) <= self._NEAR_DEG).all())
            self._rested[lane] = self._rested[lane] + 1 if near else 0
            done[row] = self._rested[lane] >= self._REST_TICKS
        return commands, done

    def _next(self, command_deg: Rows, goal_deg: Rows) -> Rows:
        """The command (5,) one period later."""
        here = tips(command_deg[None], STICK_M)
        x, y, z = here.at_m[0]
        if np.hypot(x - CUP_M[0], y - CUP_M[1]) <= self._NEAR_M and z < RIM_M + self._CLEAR_M:
            up_m = np.array([[x, y, z + self._LIFT_M_S * self._period_s]])
            lifted = Tips(at_m=up_m, pitch_deg=here.pitch_deg, roll_deg=here.roll_deg)
            return joints_for(lifted, STICK_M)[0]
        away = goal_deg - command_deg
        most_deg = self._TURN_DEG_S * self._period_s
        return command_deg + away * min(1.0, most_deg / max(float(np.abs(away).max()), 1e-9))


class MarkerHome(MarkerReset):
    """Lift the marker out of the cup, and rest over it."""

    def begin(self, lane: int, start: Start) -> None:
        """Let one lane move home."""
        super().begin(lane, start)
        self._goal[lane] = np.array(HOME_DEG)
