"""Push-T, the easy form: push a T block that lies within 6 cm and 0.5 rad of its goal onto it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.errors import PolicyProblem
from enpire.interfaces import Evidence
from enpire.types import FloatArray, IntArray, MaskArray, Observation, Split, Start, TaskSpec, Verdict
from sim.starts import Sampler
from sim.tasks.push_t_planner import PushPlanner, View, limit_speed, outside_mm, pushed
from sim.tasks.push_t_rig import (
    ACTION,
    ANGLE,
    BLOCK,
    NEAR_MM,
    NEAR_RAD,
    ON_BLOCK,
    PUSHER,
    PUSHER_MM,
    START_NAMES,
    STATE,
    PushTRig,
)
from sim.verifiers.camera_estimates import dead_estimate, fresh_rows
from sim.verifiers.frozen import digest_of

Rows = npt.NDArray[np.float64]

RANGES = ((-60.0, 60.0), (-60.0, 60.0), (-0.5, 0.5), (-150.0, 150.0), (-215.0, -170.0))
LEAST_ASIDE_MM = 20.0
"""Least distance of the block from its goal at a start."""

_TOUCHING_MM = 3.0
"""A pusher within this sensed distance of the T touches it; three standard deviations of the sensors."""
_LENGTH = 0.3
"""Largest difference of the length of a sensed (cosine, sine) from 1; 50 times the sensors' noise."""
_TOLERANCE = np.array([12.0, 12.0, 0.15, 12.0, 12.0])
"""Tolerance of a reset, in the units of the start values."""


def view_of(state: FloatArray) -> View:
    """The planner's view of one state row (state_dim,)."""
    row = state.astype(np.float64)
    angle = float(np.arctan2(row[ANGLE][1], row[ANGLE][0]))
    return View(block_mm=row[BLOCK], angle_rad=angle, pusher_mm=row[PUSHER])


def _angled(state: FloatArray) -> MaskArray:
    """Which states (n, state_dim) contain an angle: (n,) bool. The zeros of a dead tracker give none."""
    return np.abs(np.hypot(*state[:, ANGLE].T) - 1.0) <= _LENGTH


class PushT:
    """The task Push-T."""

    spec = TaskSpec(
        name="push_t",
        instruction="Push the T onto its outline.",
        state=STATE,
        action=ACTION,
        rate_hz=30.0,
        limit_ticks=300,
        cameras=("top", "side"),
        subtasks=("touched", "placed"),
        start_names=START_NAMES,
    )
    starts = Sampler(task=spec.name, ranges=RANGES, least_aside=LEAST_ASIDE_MM)

    def rig(self, lanes: int, seed: int) -> PushTRig:
        """A simulated rig; `seed` draws the station's friction, latency and sensor bias."""
        return PushTRig(self.spec, lanes, seed)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split; train starts ignore the secret."""
        return self.starts.start(split, index, secret)

    def reset_skill(self) -> PushReset:
        """The reset by the robot: push the T to its next start pose, then move the pusher to its own."""
        return PushReset(self.spec.period_s)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        """(achieved start values as sensed in state (state_dim,), whether each is within tolerance of the start)."""
        view = view_of(state)
        achieved = (*(float(v) for v in view.block_mm), view.angle_rad, *(float(v) for v in view.pusher_mm))
        return achieved, bool((np.abs(np.array(achieved) - np.array(start.values)) <= _TOLERANCE).all())

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """Which of the subtasks touched and placed each state (n, state_dim) shows: (n, 2) bool.

        A pusher that leaves the T before it is placed makes another attempt.
        """
        touched = outside_mm(state[:, ON_BLOCK].astype(np.float64)) <= PUSHER_MM + _TOUCHING_MM
        away, turned = np.hypot(*state[:, BLOCK].T), np.abs(np.arctan2(state[:, ANGLE][:, 1], state[:, ANGLE][:, 0]))
        return np.column_stack([touched, (away <= NEAR_MM) & (turned <= NEAR_RAD) & _angled(state)])

    def verifier(self) -> PushTVerifier:
        """A fresh verifier with the shipped thresholds."""
        return PushTVerifier()

    def expert(self, seed: int) -> PushExpert:
        """The demonstrating expert: the planner with varied speed and tremor."""
        return PushExpert(self.spec.period_s, seed, varied=True)

    def clean_expert(self) -> PushExpert:
        """The planner at full speed, without tremor."""
        return PushExpert(self.spec.period_s, 0, varied=False)


class PushTVerifier:
    """Compares the block's sensed pose over the last samples with the goal. Its digest covers the code."""

    needs_images = False
    near_mm, near_rad, samples = NEAR_MM - 0.2, NEAR_RAD - 0.002, 5
    margin_mm, margin_rad = 2.0, 0.025
    """Margin inside the tolerances from which a rollout may be finished."""

    def __init__(self) -> None:
        """Judge with the shipped thresholds."""
        self.digest = digest_of(type(self))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done: well inside the tolerances."""
        away = np.hypot(state[:, 2], state[:, 3])
        turned = np.abs(np.arctan2(state[:, 5], state[:, 4]))
        inside = (away <= self.near_mm - self.margin_mm) & (turned <= self.near_rad - self.margin_rad)
        return inside & _angled(state) & (ticks >= self.samples)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one rollout, from its last recorded states."""
        state = evidence.arrays.state
        rows = fresh_rows(state[:, BLOCK.start : ANGLE.stop])
        rows = rows[_angled(state[rows])][-self.samples :]
        if not len(rows):
            return dead_estimate("the T")
        block_mm, angle_rad = self._pose(state, rows)
        away = float(np.hypot(*block_mm))
        turned = abs(float(np.arctan2(np.sin(angle_rad), np.cos(angle_rad))))
        margin = min((self.near_mm - away) / 0.5, (self.near_rad - turned) / 0.005)
        confidence = 1.0 / (1.0 + float(np.exp(-min(abs(margin), 30.0) - 1.0)))
        return Verdict(kind="success" if margin >= 0.0 else "failure", confidence=confidence, source="verifier")

    def _pose(self, state: FloatArray, rows: npt.NDArray[np.intp]) -> tuple[Rows, float]:
        """Position (2,) in mm and angle in rad of the block at the end, from lines through the fresh `rows`.

        For a block that is hidden at the end, the pusher is a second measurement: since the block was last seen, it
        moved as the pusher pushed it.
        """
        x, y, cosine, sine = _at_the_last(rows, state[rows, BLOCK.start : ANGLE.stop].astype(np.float64))
        last = state[rows[-1]].astype(np.float64)
        view = View(block_mm=np.array([x, y]), angle_rad=float(np.arctan2(sine, cosine)), pusher_mm=last[PUSHER])
        for row in state[rows[-1] + 1 :].astype(np.float64):
            view = pushed(view, row[PUSHER])
        return view.block_mm, view.angle_rad


def _at_the_last(rows: npt.NDArray[np.intp], values: Rows) -> Rows:
    """The value (k,) at the last of `rows` of lines through `values` (n, k); of fewer than 3 the last value."""
    if len(rows) < 3:
        return values[-1]
    back = (rows - rows[-1]).astype(np.float64)
    slope = ((back - back.mean()) @ (values - values.mean(axis=0))) / ((back - back.mean()) ** 2).sum()
    return values.mean(axis=0) - back.mean() * slope


@dataclass(slots=True)
class _Episode:
    """State of one lane's episode."""

    planner: PushPlanner
    rng: np.random.Generator
    tremor_mm_s: float


class PushExpert:
    """The push planner as a policy that decides every second period."""

    horizon = 4
    execute = 2

    def __init__(self, period_s: float, seed: int, varied: bool) -> None:
        """Push cleanly, or as varied demonstrations."""
        self._period_s, self._seed, self._varied = period_s, seed, varied
        self._episodes: dict[int, _Episode] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed and tremor."""
        rng = np.random.Generator(np.random.PCG64([self._seed, seed, 9]))
        pace = float(rng.uniform(0.5, 1.0)) if self._varied else 1.0
        planner = PushPlanner(push_mm_s=70.0 * pace, walk_mm_s=230.0 * pace)
        self._episodes[lane] = _Episode(planner=planner, rng=rng, tremor_mm_s=6.0 if self._varied else 0.0)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 4, 2) float32 in mm/s, for states (len(lanes), 11).

        Raises:
            PolicyProblem: the state has another width than Push-T has.
        """
        if observation.state.shape != (len(lanes), len(STATE)):
            raise PolicyProblem(
                f"The Push-T expert needs a state of shape ({len(lanes)}, {len(STATE)}), not {observation.state.shape}."
            )
        chunk = np.empty((len(lanes), self.horizon, 2), dtype=np.float32)
        for row, lane in enumerate(lanes):
            if int(lane) not in self._episodes:
                self.begin(int(lane), 0)
            episode = self._episodes[int(lane)]
            command = episode.planner.command(view_of(observation.state[row]), self.execute * self._period_s)
            command = command + episode.tremor_mm_s * episode.rng.normal(0.0, 1.0, 2)
            chunk[row] = limit_speed(command)
        return chunk


class PushReset:
    """Push the T to its next start pose with the same planner, then move the pusher to its own start.

    A long reset continues slowly: with delayed commands, a fast pusher can push the T off the table.
    """

    _HASTE_TICKS, _SLOWLY = 300, 0.4
    """Periods at full speed, usually twice as many as it needs; factor on its speeds after that."""

    def __init__(self, period_s: float) -> None:
        """No lane is being reset."""
        self._period_s = period_s
        self._planners: dict[int, PushPlanner] = {}
        self._homes: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = {}
        self._placed: dict[int, bool] = {}
        self._ticks: dict[int, int] = {}

    def begin(self, lane: int, start: Start) -> None:
        """Set the start that one lane moves to."""
        values, self._ticks[lane] = np.array(start.values), 0
        self._planners[lane] = PushPlanner(goal_mm=values[:2], goal_rad=float(values[2]))
        self._homes[lane], self._placed[lane] = values[3:], False

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        """One period: (commands (n, 2) in mm/s, which lanes are at their start)."""
        commands = np.zeros((len(lanes), 2), dtype=np.float32)
        done = np.zeros(len(lanes), dtype=np.bool_)
        for row, lane in enumerate(int(lane) for lane in lanes):
            planner, view = self._planners[lane], view_of(state[row])
            self._ticks[lane] += 1
            if self._ticks[lane] == self._HASTE_TICKS:
                planner.push_mm_s *= self._SLOWLY
                planner.walk_mm_s *= self._SLOWLY
            cost = planner.cost(view)
            self._placed[lane] = cost < (0.45 if self._placed[lane] else 0.15)
            if not self._placed[lane]:
                commands[row] = limit_speed(planner.command(view, self._period_s))
            elif float(np.hypot(*(self._homes[lane] - view.pusher_mm))) > 6.0:
                planner.contact = -1
                commands[row] = limit_speed(planner.walk(view, self._homes[lane], self._period_s))
            else:
                done[row] = True
        return commands, done
