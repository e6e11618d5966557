"""A search by touch with a belief: where may the hole be, given what the pin has felt so far?

A belief over a grid of hole positions starts from the known error of the estimate. Two things change it. Where the pin
was pressed down and did not drop, the hole is less probable. And a pin that rests on one side of the hole's rim leans:
the lean that the lateral force does not explain tells on which side the hole is. The pin moves to the most probable
place nearby, lightly pressed, until it drops in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, IntArray, Observation
from sim.tasks.pin_rig import FORCE, SPEED_MM_S, TILT, TIP
from sim.tasks.pin_states import pin_columns

_INSIDE_MM = -0.35
"""A tip that is seen deeper than this has found the hole: four standard deviations below the rim."""
_ESTIMATE_MM = 0.92
"""Standard deviation, per axis, of the hole's estimated position, with the bias of the station's cameras."""
_CELL_MM, _REACH_MM = 0.25, 3.25
"""Side of a cell, and half the width of the grid."""
_FREE_N, _PRESSED_N = 0.15, 0.3
"""Upward force below which the pin hangs free, and from which it presses on the board."""
_LEAN_MRAD_N = 16.65
"""Lean of the grasped pin for each newton of lateral force on its tip."""
_EDGE_MM, _HALF_MM, _ARM_MM = 1.6, 2.0, 1.23
"""Distance of the pin's contact edges from its axis, half the hole's width, and the effective lever of an edge: the
lean for each newton that presses on one edge is this over the grasp's stiffness."""
_STIFFNESS_N_MM_MRAD = 1.3
_SMOOTHING = 0.2
"""Share of the newest value in the sensor's force; the lean is smoothed alike, so that both are of the same time."""
_REST_MRAD = 4.7
"""Standard deviation of one reading of the lean at rest; the mean of all readings before contact is used."""
_WINDOW_MM, _SOFT_MM = 0.3, 0.1
"""Half the width of the places from which the pin drops in, and how gradually that ends."""
_TURN, _STAY = 0.3, 1.0
"""Costs in log belief: of a target behind the pin, and of a new target while the old one is not reached."""
_REACHED_MM, _STALLED_MM, _STALLED_PERIODS, _RELIEF = 0.2, 0.15, 3, 0.4
"""Distance at which a target is reached; a pin that moves less than the second for so many periods sticks, and is
pressed with this share until it moves."""
_APPROACH_PER_S = 10.0

_CELLS = np.arange(-_REACH_MM, _REACH_MM + 1e-6, _CELL_MM, dtype=np.float32)
_GRID = np.stack(np.meshgrid(_CELLS, _CELLS), axis=-1).reshape(-1, 2)
"""(cells, 2) in mm: hole positions relative to the estimate."""
_PRIOR = -(_GRID**2).sum(axis=1) / np.float32(2 * _ESTIMATE_MM**2)

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchProgram:
    """The parameters of the search; a parameter search may tune them."""

    press_mm_s: float = 8.0
    """Commanded speed downwards on the board; the servo turns it into a force."""
    speed_mm_s: float = 6.0
    """Speed along the board."""
    friction_mm_s_n: float = 7.0
    """Additional commanded speed for every newton that presses: what friction takes from the servo."""
    descent_mm_s: float = 14.0
    """Speed downwards inside the hole."""
    yield_mm_s_n: float = 2.0
    """Lateral speed for every newton of the hole's wall."""
    lean_sd_mrad: float = 5.5
    """Standard deviation of a reading of the lean; a larger one trusts it less."""
    miss_per_period: float = 0.8
    """Decrease of the log belief in a place for every period in which the pin is pressed there and does not drop."""
    travel_mm: float = 0.5
    """Distance that a place may be farther away for one more unit of log belief."""


class _Memory:
    """What the search remembers of all lanes. The belief's arrays are (lanes, cells) or (lanes, cells, 2) float32."""

    def __init__(self, lanes: int) -> None:
        """Nothing is felt yet."""
        cells = len(_GRID)
        self.missed = np.zeros((lanes, cells), np.float32)
        self.expected = np.zeros((lanes, cells, 2), np.float32)
        """Lean that each cell predicts, in mrad along x and y, smoothed."""
        self.fit = np.zeros((lanes, cells), np.float32)
        self.sum = np.zeros((lanes, cells, 2), np.float32)
        """Sums over the readings: of the squared difference between reading and prediction, less what is the same for
        all cells, and of the difference."""
        self.readings, self.at_rest = (np.zeros(lanes, np.float32) for _ in range(2))
        """Readings of the lean in contact, and before it."""
        self.rest, self.lean, self.heading = (np.zeros((lanes, 2), np.float32) for _ in range(3))
        """Sum of the readings before contact and the smoothed lean in contact, in mrad; direction of motion."""
        self.place, self.trail = (np.full((lanes, 2), np.nan, np.float32) for _ in range(2))
        """Running means of the sensed tip, short and long, in mm."""
        self.searching = np.zeros(lanes, np.bool_)
        self.target = np.full(lanes, -1, np.intp)
        """Cell to which the pin moves; -1 for none."""
        self.still = np.zeros(lanes, np.intp)
        """Periods for which the pressed pin has not moved."""

    def forget(self, lane: int) -> None:
        """Forget one lane."""
        for name, fresh in vars(_Memory(1)).items():
            vars(self)[name][lane] = fresh[0]

    def grown(self, lanes: int) -> _Memory:
        """The same with room for so many lanes."""
        made = _Memory(lanes)
        for name, array in vars(self).items():
            vars(made)[name][: len(array)] = array
        return made

    def miss(self, rows: Rows, away: FloatArray, weight: FloatArray) -> None:
        """The pin was `away` (n, cells, 2) mm from each cell, pressed, and did not drop."""
        outside = np.abs(away).max(axis=2)
        inside = np.clip((_WINDOW_MM + _SOFT_MM - outside) / (2 * _SOFT_MM), 0.0, 1.0)
        self.missed[rows] += weight[:, None] * inside

    def read(self, rows: Rows, away: FloatArray, press_n: FloatArray, lean: FloatArray) -> None:
        """Compare a smoothed reading of the lean (n, 2) in mrad with what each cell predicts for this press (n,)."""
        predicted = _lever(away) * (press_n * _ARM_MM / _STIFFNESS_N_MM_MRAD)[:, None, None]
        expected = self.expected[rows]
        expected += _SMOOTHING * (predicted - expected)
        self.expected[rows] = expected
        self.fit[rows] += (expected * (expected - 2 * lean[:, None, :])).sum(axis=2)
        self.sum[rows] += lean[:, None, :] - expected
        self.readings[rows] += 1

    def log_belief(self, rows: Rows, lean_sd_mrad: float) -> FloatArray:
        """(n, cells): log belief, up to a constant.

        The error of the lean at rest is the same for all readings of an episode, normal, and integrated out.
        """
        variance = lean_sd_mrad**2
        count = self.readings[rows] + variance * np.maximum(self.at_rest[rows], 1.0) / _REST_MRAD**2
        misfit = self.fit[rows] - (self.sum[rows] ** 2).sum(axis=2) / count[:, None]
        return (_PRIOR - self.missed[rows] - misfit / (2 * variance)).astype(np.float32)


def _lever(away: FloatArray) -> FloatArray:
    """(n, cells, 2) in [-1, 1]: where the rim carries a pin that is `away` (n, cells, 2) mm from a hole.

    The pin has four edges; one over the hole carries nothing. The mean place of the others is off the axis.
    """
    beside = np.abs(away) < _HALF_MM  # (n, cells, 2)
    plus = ~((np.abs(away + _EDGE_MM) < _HALF_MM) & beside[..., ::-1])
    minus = ~((np.abs(away - _EDGE_MM) < _HALF_MM) & beside[..., ::-1])
    carrying = np.maximum((plus.astype(np.float32) + minus).sum(axis=2, keepdims=True), 1.0)
    return (plus.astype(np.float32) - minus) / carrying


class TouchSearch:
    """The program as a policy. It decides anew in every period."""

    horizon = 8
    execute = 1

    def __init__(self, program: TouchProgram) -> None:
        """Run a program."""
        self._program, self._memory = program, _Memory(1)

    def begin(self, lane: int, seed: int) -> None:
        """Forget what this lane has felt. The program draws nothing from the seed."""
        self._reserve(lane + 1)
        self._memory.forget(lane)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 8, 3) float32 in mm/s, for states (len(lanes), 12 or 13).

        Raises:
            PolicyProblem: the state has another width than the pin tasks have.
        """
        state = pin_columns(observation.state, len(lanes), "The search by touch")
        rows = np.asarray(lanes, np.intp)
        self._reserve(int(rows.max(initial=0)) + 1)
        command = self._approach(state)
        inside = state[:, TIP][:, 2] < _INSIDE_MM
        search = self._memory.searching[rows] & ~inside
        self._wait_at_rest(rows[~search & ~inside], state[~search & ~inside])
        if search.any():
            command[search] = self._search(rows[search], state[search])
        command[inside] = self._sink(state[inside])
        chunk = np.repeat(command[:, None, :], self.horizon, axis=1)
        return np.clip(chunk, -SPEED_MM_S, SPEED_MM_S).astype(np.float32)

    def _sink(self, state: FloatArray) -> FloatArray:
        force, program = state[:, FORCE], self._program
        down = np.full(len(state), -program.descent_mm_s)
        return np.column_stack([program.yield_mm_s_n * force[:, :2], down]).astype(np.float32)

    def _approach(self, state: FloatArray) -> FloatArray:
        """Move above the estimated hole and down to it."""
        tip = state[:, TIP]
        aside = np.hypot(tip[:, 0], tip[:, 1])
        rate = np.minimum(_APPROACH_PER_S, 18.0 / np.maximum(aside, 1e-9))
        down = np.clip(8.0 * (0.3 - tip[:, 2]), -SPEED_MM_S, 6.0)
        return np.column_stack([-rate[:, None] * tip[:, :2], down]).astype(np.float32)

    def _wait_at_rest(self, rows: Rows, state: FloatArray) -> None:
        """Read the lean of a pin that hangs free, and begin the search where the pin has arrived."""
        memory, tip = self._memory, state[:, TIP]
        free = state[:, FORCE][:, 2] < _FREE_N
        memory.rest[rows[free]] += _lean_of(state[free])
        memory.at_rest[rows[free]] += 1
        memory.searching[rows] = (np.hypot(tip[:, 0], tip[:, 1]) < 0.3) & (tip[:, 2] < 0.7)

    def _search(self, rows: Rows, state: FloatArray) -> FloatArray:
        """Commands (n, 3) towards the most probable place nearby."""
        program, memory = self._program, self._memory
        self._feel(rows, state)
        place, heading = memory.place[rows], memory.heading[rows]
        away = place[:, None, :] - _GRID
        distance = np.hypot(away[..., 0], away[..., 1])
        score = memory.log_belief(rows, program.lean_sd_mrad) - distance / program.travel_mm
        score -= _TURN * ((away * heading[:, None, :]).sum(axis=2) > 0)
        wanted = _GRID[self._choose(rows, score, distance)] - place
        gap = np.maximum(np.hypot(wanted[:, 0], wanted[:, 1]), 1e-3)
        heading = memory.heading[rows] = 0.5 * heading + 0.5 * wanted / gap[:, None]
        speed = np.minimum(program.speed_mm_s, _APPROACH_PER_S * np.maximum(gap, 0.1))
        speed += program.friction_mm_s_n * np.maximum(state[:, FORCE][:, 2], 0.0)
        speed /= np.maximum(np.hypot(heading[:, 0], heading[:, 1]), 1e-6)
        down = -program.press_mm_s * np.where(memory.still[rows] >= _STALLED_PERIODS, _RELIEF, 1.0)
        return np.column_stack([speed[:, None] * heading, down]).astype(np.float32)

    def _choose(self, rows: Rows, score: FloatArray, distance: FloatArray) -> Rows:
        """The cell to move to: the old target until it is reached or another one is clearly better."""
        best, old, each = score.argmax(axis=1), self._memory.target[rows], np.arange(len(rows))
        keeps = (old >= 0) & (distance[each, old] > _REACHED_MM) & (score[each, best] - score[each, old] < _STAY)
        self._memory.target[rows] = target = np.where(keeps, old, best)
        return target

    def _feel(self, rows: Rows, state: FloatArray) -> None:
        """Update places and beliefs by one observation."""
        memory, force = self._memory, state[:, FORCE]
        place = memory.place[rows] = _blend(memory.place[rows], state[:, TIP][:, :2], 0.5)
        trail = memory.trail[rows] = _blend(memory.trail[rows], place, 0.2)
        pressed = force[:, 2] > _PRESSED_N
        stalled = pressed & (np.hypot(*(place - trail).T) < _STALLED_MM)
        memory.still[rows] = np.where(stalled, memory.still[rows] + 1, 0)
        rows, force, away = rows[pressed], force[pressed], place[pressed][:, None, :] - _GRID
        memory.miss(rows, away, np.float32(self._program.miss_per_period) * np.minimum(force[:, 2], np.float32(1.0)))
        rest = memory.rest[rows] / np.maximum(memory.at_rest[rows], 1.0)[:, None]
        lean = memory.lean[rows] + _SMOOTHING * (_lean_of(state[pressed]) - rest - memory.lean[rows])
        memory.lean[rows] = lean
        unexplained: FloatArray = (lean - _LEAN_MRAD_N * force[:, :2]).astype(np.float32)
        memory.read(rows, away, force[:, 2], unexplained)

    def _reserve(self, lanes: int) -> None:
        if lanes > len(self._memory.still):
            self._memory = self._memory.grown(lanes)


def _lean_of(state: FloatArray) -> FloatArray:
    """(n, 2) in mrad: the lean for which a force on the tip along +x or +y is positive."""
    tilt = 1e3 * state[:, TILT]
    return np.column_stack([-tilt[:, 1], tilt[:, 0]]).astype(np.float32)


def _blend(old: FloatArray, new: FloatArray, share: float) -> FloatArray:
    """A running mean; the first value where there is none yet."""
    return np.where(np.isnan(old), new, (1 - share) * old + share * new).astype(np.float32)
