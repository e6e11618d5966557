"""The robot's own reset of GPU insertion: unplug the card, hand it over for a better grasp when it sits askew, hover.

The right arm holds the card by its upper edge, the left one takes it by its end while the right one grasps anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray, Start
from sim.bimanual.kinematics import PARKED, READY, Reach, Rows, Side, from_angles, rotation_between, turning
from sim.bimanual.rig import ACTION, GRIP_MM_S, JOINT_RAD_S, commands_of, joints_of, opening_of
from sim.bimanual.servo import reach_of, speeds_for, towards
from sim.tasks.gpu_expert import card_twist, carry
from sim.tasks.gpu_rig import ANGLES, CARD, GRIP_TURN
from sim.tasks.gpu_scene import BODY_HALF_M, GRASP_M, SLOT_M

_OFFER = np.array([[0.0, 0.0, 60.0, 0.0, 0.0, 0.0]])
"""Where the card is handed over, as a card pose (mm, rad)."""
_TAKEN_M = np.array([-0.042, 0.0, 0.033])
"""Where the left gripper takes the card, in the card's frame."""
_WAITING = (1.313, -1.11, 2.256, 1.335, -1.466, -0.412)
"""Joints (rad) of the left arm as it waits for the card, the gripper pointing along it."""
_RAISED = (-1.0, -1.5, 1.9, 1.335, -1.466, -0.412)
"""Where the left arm turns its wrist on the way there, clear of the table."""
_BACK_M = 0.07
"""How far the left gripper stands back before and after."""
_ASIDE = turning(2, np.array([0.0]))[0]
"""The left tool's axes at the hand-over: pointing along the card, fingers on both faces."""
_HELD_N, _OPEN_MM, _REST_TICKS, _SQUEEZE_TICKS = 10.0, 36.0, 3, 12
_PATIENCE_TICKS = 210
"""Periods after which a phase that usually takes half as long is given up."""
_ASKEW_M, _ASKEW_RAD = 0.005, 0.03
_STEEP_RAD, _LYING_RAD = 0.2, 1.2
_LOST_M, _SLIPPED_M = 0.03, 0.075
"""How far the card may be from the gripper that holds it: with pads apart, and with pads that pinch something."""
_NEAR = np.array([0.6, 0.6, 0.6, 0.014, 0.014, 0.014])


@dataclass(slots=True)
class _Work:
    """How far one lane's reset is."""

    goal: Rows
    phase: str = "ready"
    ticks: int = 0
    """Periods in this phase."""
    rested: int = 0
    raised: bool = False
    unwound: bool = False
    """Whether the arms have begun again from good postures."""
    command: FloatArray = field(default_factory=lambda: np.zeros(len(ACTION), dtype=np.float32))


class GpuReset:
    """A chain of phases, each with its own end; a lane's phases depend on that lane alone."""

    def __init__(self) -> None:
        """No lane is being reset."""
        self._work: dict[int, _Work] = {}
        self._phases: dict[str, Callable[[_Work, Rows], str]] = {
            "ready": _ready, "lift": _lift, "reach": _reach, "offer": _offer, "approach": _approach, "take": _take,
            "let_go": _let_go, "regrasp": _regrasp, "close": _close, "release": _release, "withdraw": _withdraw,
            "hover": _hover, "done": _hover, "unwind": _unwind, "beyond": _beyond,
        }  # fmt: skip

    def begin(self, lane: int, start: Start) -> None:
        """Aim one lane at a start state."""
        self._work[lane] = _Work(goal=np.array(start.values)[None])

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 14), which lanes have rested at their start for three periods, or are given up)."""
        commands = np.zeros((len(lanes), len(ACTION)), dtype=np.float32)
        done = np.zeros(len(lanes), dtype=np.bool_)
        for row, lane in enumerate(int(lane) for lane in lanes):
            work = self._work[lane]
            work.command[:] = 0.0
            after = self._phases[work.phase](work, state[row : row + 1].astype(np.float64))
            work.ticks = work.ticks + 1 if after == work.phase else 0
            work.phase = after
            done[row] = after in ("done", "beyond")
            if not done[row]:
                commands[row] = work.command
        return commands, done


def _arm(work: _Work, side: Side, speeds: Rows) -> None:
    work.command[commands_of(side)] = np.clip(speeds, -JOINT_RAD_S, JOINT_RAD_S)[0]


def _grip(work: _Work, side: Side, direction: float) -> None:
    work.command[commands_of(side).stop] = direction * GRIP_MM_S


def _to_joints(work: _Work, side: Side, state: Rows, joints: tuple[float, ...]) -> float:
    """Move an arm in joint space; the largest error (rad)."""
    error = np.array(joints) - state[:, joints_of(side)]
    _arm(work, side, 4.0 * error)
    return float(np.abs(error).max())


def _to_pose(work: _Work, side: Side, now: Reach, at_m: Rows, turn: Rows) -> bool:
    """Move a gripper towards a pose; whether it is there."""
    _arm(work, side, speeds_for(now, towards(now, at_m, turn, 0.15)))
    off_m = float(np.abs(at_m - now.at_m).max())
    return off_m < 1.2e-3 and float(np.abs(rotation_between(now.turn, turn)).max()) < 0.015


def _card(state: Rows) -> tuple[Rows, Rows]:
    """The card's place (1, 3) in m and its axes (1, 3, 3), in the world."""
    return np.array(SLOT_M) + 1e-3 * state[:, CARD], from_angles(state[:, ANGLES])


def _on_card(state: Rows, place_m: Rows, frame: Rows) -> tuple[Rows, Rows]:
    """A pose that is given in the frame of the card, in the world."""
    at, turn = _card(state)
    return at + (turn @ place_m[:, None])[:, :, 0], turn @ frame


def _right(state: Rows) -> Reach:
    return reach_of("right", state.astype(np.float32))


def _lost(state: Rows) -> bool:
    """Whether the card is not in the right gripper."""
    wanted, _ = _on_card(state, np.array([0.0, 0.0, GRASP_M]), GRIP_TURN)
    away_m = float(np.sqrt(((_right(state).at_m - wanted) ** 2).sum()))
    return away_m > (_SLIPPED_M if _pinched(state, "right") else _LOST_M)


def _pinched(state: Rows, side: Side) -> bool:
    """Whether the pads of a gripper press on something as thick as the card."""
    opening_mm, pads_n = state[0, opening_of(side) : opening_of(side) + 2]
    return abs(float(opening_mm) - 2e3 * BODY_HALF_M[1]) < 3.0 and float(pads_n) < -_HELD_N


def _squeezed(work: _Work, state: Rows, side: Side) -> bool:
    """Close a gripper; whether it has pinched the card for long enough to hold it firmly."""
    _grip(work, side, -1.0)
    work.rested = work.rested + 1 if work.ticks and _pinched(state, side) else 0
    return work.rested >= _SQUEEZE_TICKS


def _askew(state: Rows) -> bool:
    """Whether the right gripper holds the card far off its middle, or at an angle."""
    wanted, frame = _on_card(state, np.array([0.0, 0.0, GRASP_M]), GRIP_TURN)
    now = _right(state)
    off_m = float(np.abs(now.at_m - wanted).max())
    return off_m > _ASKEW_M or float(np.abs(rotation_between(now.turn, frame)).max()) > _ASKEW_RAD


def _ready(work: _Work, state: Rows) -> str:
    """An arm that stands oddly first goes over the table's middle, in joint space."""
    if _lost(state):
        return "reach"
    off = np.abs(np.array(READY["right"]) - state[:, joints_of("right")])
    if work.ticks == 0 and float(off.max()) < 0.5:
        return "lift"
    _grip(work, "right", -0.5)
    return "lift" if _to_joints(work, "right", state, READY["right"]) < 0.08 else "ready"


def _lift(work: _Work, state: Rows) -> str:
    """Straight up, upright once the card is clear of the slot; a card that is stuck is tried from another posture."""
    height = float(state[0, CARD.start + 2])
    goal = state[:, CARD.start : ANGLES.stop].copy()
    goal[:, 2] = 30.0
    if height > 3.0:
        goal[:, 3:] = 0.0
    _arm(work, "right", carry(state, card_twist(state, goal, 5.0, 0.08)))
    _grip(work, "right", -0.2)
    work.rested, work.raised = 0, False
    # The left arm parks meanwhile: from there its way to the hand-over is clear.
    if _to_joints(work, "left", state, PARKED["left"]) > 0.2 or height < 22.0:
        return "lift" if work.ticks < _PATIENCE_TICKS else "unwind"
    odd = np.abs(np.array(READY["right"]) - state[:, joints_of("right")]).max() > 0.35
    if odd and not work.unwound:
        return "unwind"
    return "offer" if _askew(state) else "withdraw"


def _reach(work: _Work, state: Rows) -> str:
    """A card that was lost: open over it, then grasp it where it stands.

    One that lies on its face is beyond the grippers, which take it by its thickness alone: the reset gives up at once,
    so that its check fails and a person is called soon.
    """
    if np.abs(state[0, ANGLES][:2]).max() > _LYING_RAD and work.ticks > _REST_TICKS:
        return "beyond"
    _grip(work, "right", 1.0)
    at, turn = _on_card(state, np.array([0.0, 0.0, GRASP_M + 0.05]), GRIP_TURN)
    there = _to_pose(work, "right", _right(state), at, turn)
    return "regrasp" if there and float(state[0, opening_of("right")]) > _OPEN_MM else "reach"


def _beyond(work: _Work, state: Rows) -> str:
    del work, state  # Nothing more is tried.
    return "beyond"


def _offer(work: _Work, state: Rows) -> str:
    """The card goes to the hand-over, the left gripper to its side."""
    goal = _OFFER.copy()
    # A card that hangs at a steep angle is offered at that angle: the right wrist could not make up for it.
    swing_rad = _swing_rad(state)
    goal[0, 4] = -swing_rad if abs(swing_rad) > _STEEP_RAD else 0.0
    _arm(work, "right", carry(state, card_twist(state, goal, 5.0, 0.1)))
    _grip(work, "left", 1.0)
    still = (np.abs(state[0, CARD.start : ANGLES.stop] - goal[0]) < 4 * _NEAR).all()
    # First in joint space, and then only to a card at rest: going there straight, the forearm may wind up to its limit.
    if not work.raised:
        work.raised = _to_joints(work, "left", state, _RAISED) < 0.3
    elif not work.rested:
        work.rested = int(_to_joints(work, "left", state, _WAITING) < 0.05 and still)
    elif still:
        at, turn = _on_card(state, _TAKEN_M - (_BACK_M, 0.0, 0.0), _ASIDE)
        there = _to_pose(work, "left", reach_of("left", state.astype(np.float32)), at, turn)
        work.rested = work.rested + 1 if there else 1
    if work.rested > _REST_TICKS:
        return "approach"
    return "offer" if work.ticks < 2 * _PATIENCE_TICKS else "unwind"


def _swing_rad(state: Rows) -> float:
    """By how much the right tool is pitched against the card that it holds."""
    _, turn = _card(state)
    held = np.swapaxes(turn, 1, 2) @ _right(state).turn @ GRIP_TURN.T
    return float(np.arctan2(held[0, 0, 2], held[0, 2, 2]))


def _approach(work: _Work, state: Rows) -> str:
    at, turn = _on_card(state, _TAKEN_M, _ASIDE)
    return "take" if _to_pose(work, "left", reach_of("left", state.astype(np.float32)), at, turn) else "approach"


def _take(work: _Work, state: Rows) -> str:
    return "let_go" if _squeezed(work, state, "left") else "take"


def _let_go(work: _Work, state: Rows) -> str:
    _grip(work, "right", 1.0)
    return "regrasp" if float(state[0, opening_of("right")]) > 28.0 else "let_go"


def _regrasp(work: _Work, state: Rows) -> str:
    at, turn = _on_card(state, np.array([0.0, 0.0, GRASP_M]), GRIP_TURN)
    return "close" if _to_pose(work, "right", _right(state), at, turn) else "regrasp"


def _close(work: _Work, state: Rows) -> str:
    return "release" if _squeezed(work, state, "right") else "close"


def _release(work: _Work, state: Rows) -> str:
    _grip(work, "left", 1.0)
    return "withdraw" if float(state[0, opening_of("left")]) > _OPEN_MM else "release"


def _withdraw(work: _Work, state: Rows) -> str:
    """The left gripper goes back along the card, if it is near; the card goes up out of the slot, if it is in."""
    now = reach_of("left", state.astype(np.float32))
    parked = np.abs(np.array(PARKED["left"]) - state[0, joints_of("left")]).max() < 0.5
    if not parked and float(now.at_m[0, 0]) > SLOT_M[0] + _TAKEN_M[0] - _BACK_M + 0.005:
        back = np.concatenate([np.array([[-0.12, 0.0, 0.0]]), np.zeros((1, 3))], axis=1)
        _arm(work, "left", speeds_for(now, back))
        return "withdraw"
    return "lift" if float(state[0, CARD.start + 2]) < 5.0 else "hover"


def _hover(work: _Work, state: Rows) -> str:
    """The card goes to its start and rests there; the left arm parks meanwhile."""
    _arm(work, "right", carry(state, card_twist(state, work.goal, 5.0, 0.08)))
    away = _to_joints(work, "left", state, PARKED["left"])
    near = (np.abs(state[0, CARD.start : ANGLES.stop] - work.goal[0]) < _NEAR).all()
    work.rested = work.rested + 1 if near and away < 0.1 else 0
    if work.rested >= _REST_TICKS:
        return "done"
    return "hover" if work.ticks < _PATIENCE_TICKS else "unwind"


def _unwind(work: _Work, state: Rows) -> str:
    """Arms that came to a joint's limit begin again from good postures."""
    away = max(_to_joints(work, "right", state, READY["right"]), _to_joints(work, "left", state, PARKED["left"]))
    work.rested, work.unwound = 0, True
    return "lift" if away < 0.1 or work.ticks > _PATIENCE_TICKS else "unwind"
