"""The home of two-arm tasks: both arms straight up, then to their home postures; the grippers keep what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, Start
from sim.bimanual.arm_goals import Hand, Hands
from sim.bimanual.kinematics import SIDES, Side

_NEAR_RAD, _THERE_RAD = 0.1, 0.05
"""Largest joint error of an arm that need not go up first, and of one that is home."""
_RISE_M_S, _RISEN_M = 0.1, 0.012
_PATIENCE_TICKS = 150
"""Periods after which an arm that cannot go up any further moves in joint space all the same."""
_REST_TICKS = 3


@dataclass(slots=True)
class _Way:
    """How far one lane has come."""

    risen: set[Side] = field(default_factory=set[Side])
    ticks: int = 0
    rested: int = 0


class ArmsHome:
    """Both arms go up to a clear height, and then home in joint space.

    Args:
        home: side -> joints (rad) of the home posture.
        clear_m: height of the gripper's point at which the paths home are free.
    """

    def __init__(self, home: Mapping[Side, Sequence[float]], clear_m: float) -> None:
        """No lane is on its way."""
        self._home, self._clear_m = home, clear_m
        self._ways: dict[int, _Way] = {}

    def begin(self, lane: int, start: Start) -> None:
        """Let one lane move home."""
        del start
        self._ways[lane] = _Way()

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 14) in rad/s and mm/s, which lanes (n,) rest at home)."""
        hands, done = Hands(state.astype(np.float64)), np.zeros(len(lanes), dtype=np.bool_)
        for row, lane in enumerate(int(lane) for lane in lanes):
            way = self._ways[lane]
            arms: dict[Side, Hand] = {side: hands.of(row, side) for side in SIDES}
            way.ticks += 1
            way.risen |= {side for side, hand in arms.items() if self._is_free(hand, side, way.ticks)}
            far_rad = max(self._moved(hand, side, way) for side, hand in arms.items())
            way.rested = way.rested + 1 if far_rad < _THERE_RAD else 0
            done[row] = way.rested >= _REST_TICKS
        commands = hands.commands()
        commands[done] = 0.0
        return commands, done

    def _is_free(self, hand: Hand, side: Side, ticks: int) -> bool:
        """Whether an arm may move in joint space: it is high, nearly home, or can rise no further."""
        near = float(np.abs(np.array(self._home[side]) - hand.joints).max()) < _NEAR_RAD
        return near or float(hand.at_m[2]) > self._clear_m - _RISEN_M or ticks > _PATIENCE_TICKS

    def _moved(self, hand: Hand, side: Side, way: _Way) -> float:
        """Give one arm its goal; returns the largest error of its joints in rad, infinite until both arms are free."""
        if side not in way.risen:
            hand.go(np.array([*hand.at_m[:2], self._clear_m]), hand.turn, _RISE_M_S)
            return np.inf
        return hand.go_joints(self._home[side]) if len(way.risen) == len(SIDES) else np.inf
