"""Episodes cut into windows: who held the robot, what may be labelled, what may be imitated.

A window begins at a decision and holds one action chunk. Which window gets which label follows the partition of
HABC (arXiv 2606.17043): only what the policy did by itself up to the end of the episode is labelled with its outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from enpire.errors import LearningProblem
from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY, EpisodeArrays, FloatArray, IntArray, MaskArray
from policies.training_data import RecordedEpisode

HUMAN_SHARE = 0.2
"""A window with at least this share of human frames is an intervention window (10 of 50 in the paper)."""


class Part(IntEnum):
    """What a window is part of."""

    DEMONSTRATION = 0
    AUTONOMOUS = 1
    """Policy, in an episode that nobody touched."""
    BEFORE_INTERVENTION = 2
    """Policy, before or between interventions: somebody changed what came after, so it has no outcome of its own."""
    INTERVENTION = 3
    AFTER_INTERVENTION = 4
    """Policy, after the last intervention, to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """How windows are cut."""

    horizon: int = 8
    execute: int = 4
    stride: int = 4
    """Frames between the beginnings of two windows."""
    multi_step: int = 1
    """Decisions that a temporal difference spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """N windows, row by row."""

    state: FloatArray
    """(N, state_dim), at the decision."""
    next_state: FloatArray
    """(N, state_dim), `multi_step` decisions later, or at the end of the episode if that comes first."""
    cost: FloatArray
    """(N,), decisions that the temporal difference counts: multi_step, or what was left before the last decision."""
    ends: MaskArray
    """(N,), True where the episode ends within the `multi_step` decisions."""
    chunk: FloatArray
    """(N, horizon, action_dim), commands sent from here on; 0 where the mask is 0."""
    mask: FloatArray
    """(N, horizon), 1 where the command may be imitated."""
    part: IntArray
    """(N,), a `Part`."""
    success: MaskArray
    """(N,), the episode's verdict."""
    episode: IntArray
    """(N,), index of the episode in the list that was cut."""
    round: IntArray
    """(N,), round in which the episode was recorded."""
    tick: IntArray
    """(N,), frame of the episode at which the window begins."""
    length: IntArray
    """(N,), windows that the episode has."""
    rollout_weight: FloatArray
    """(N,), rollouts that the episode stands for."""

    def __len__(self) -> int:
        """N."""
        return len(self.part)

    def at(self, rows: IntArray | MaskArray) -> Windows:
        """The windows named by index or mask."""
        return Windows(**{item.name: getattr(self, item.name)[rows] for item in fields(Windows)})

    @property
    def demonstration(self) -> MaskArray:
        """(N,), windows of demonstrations."""
        return self.part == Part.DEMONSTRATION

    @property
    def policy(self) -> MaskArray:
        """(N,), windows in which the policy alone held the robot."""
        return (self.part != Part.DEMONSTRATION) & (self.part != Part.INTERVENTION)


def viability_labels(windows: Windows, partition: bool = True) -> npt.NDArray[np.int8]:
    """Viability labels (N,): 1 or 0 for the outcome, -1 for none.

    Without the partition ("naive"), every policy window gets its episode's outcome: an arm of the benchmark.
    """
    labelled = windows.policy if not partition else np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    return np.where(labelled, windows.success, -1).astype(np.int8)


def efficiency_mask(windows: Windows, partition: bool = True) -> MaskArray:
    """Which windows feed the efficiency head (N,): successful ones, except demonstrations and what came `BEFORE`."""
    excluded = (Part.DEMONSTRATION, Part.BEFORE_INTERVENTION) if partition else (Part.DEMONSTRATION,)
    return windows.success & ~np.isin(windows.part, excluded)


def cut(episodes: Sequence[RecordedEpisode], how: WindowSpec) -> Windows:
    """All windows of the episodes, in order. LearningProblem when none is left."""
    pieces = [piece for i, item in enumerate(episodes) if len(piece := _cut_one(item, i, how))]
    if not pieces:
        raise LearningProblem(f"The {len(episodes)} episodes hold no window to learn from; collect longer ones.")
    return Windows(**{item.name: np.concatenate([getattr(p, item.name) for p in pieces]) for item in fields(Windows)})


def recent_windows(windows: Windows, rounds: int) -> Windows:
    """Without policy windows that are `rounds` or more rounds older than the newest; people's windows never age."""
    if not windows.policy.any():
        return windows
    newest = int(windows.round[windows.policy].max())
    return windows.at(~windows.policy | (windows.round > newest - rounds))


def interception_rate(episodes: Sequence[RecordedEpisode]) -> float:
    """Kappa: the share of would-be failures that an operator took over, in [0, 1).

    Taken as: every episode with an intervention would have failed without it.
    """
    autonomous = [item for item in episodes if not item.demonstration]
    touched = sum(bool((item.arrays.source == SOURCE_HUMAN).any()) for item in autonomous)
    failed = sum(not item.success and not (item.arrays.source == SOURCE_HUMAN).any() for item in autonomous)
    return touched / (touched + failed) if touched and failed else 0.0


def td_spans(begins: IntArray, ticks: int, how: WindowSpec) -> tuple[IntArray, FloatArray, MaskArray]:
    """Of decisions at frames `begins` (n,): where the temporal difference ends, its cost, whether the episode ends."""
    left = -((begins - ticks) // how.execute)  # decisions from here to the end, this one included
    ends = left <= how.multi_step
    later = np.minimum(begins + how.multi_step * how.execute, ticks)
    return later, np.where(ends, left - 1, how.multi_step).astype(np.float32), ends


def _cut_one(episode: RecordedEpisode, index: int, how: WindowSpec) -> Windows:
    arrays = episode.arrays
    ticks = episode.ticks
    begins = np.arange(0, ticks, how.stride)
    frames = begins[:, None] + np.arange(how.horizon)  # (n, horizon)
    inside = frames < ticks
    source = np.where(inside, arrays.source[np.minimum(frames, ticks - 1)], SOURCE_POLICY)
    part = _parts(arrays, begins, np.where(inside, source, 255), how)
    keep = part >= 0
    begins, frames, inside, source, part = begins[keep], frames[keep], inside[keep], source[keep], part[keep]
    mask = inside & np.where((part == Part.INTERVENTION)[:, None], source == SOURCE_HUMAN, True)
    chunk = np.where(mask[..., None], arrays.action[np.minimum(frames, ticks - 1)], 0)
    later, cost, ends = td_spans(begins, ticks, how)
    count = len(begins)
    return Windows(
        state=arrays.state[begins],
        next_state=arrays.state[later],
        cost=cost,
        ends=ends,
        chunk=chunk.astype(np.float32),
        mask=mask.astype(np.float32),
        part=part,
        success=np.full(count, episode.success),
        episode=np.full(count, index),
        round=np.full(count, episode.round),
        tick=begins,
        length=np.full(count, count),
        rollout_weight=np.full(count, episode.rollout_weight, np.float32),
    )


def _parts(arrays: EpisodeArrays, begins: IntArray, source: IntArray, how: WindowSpec) -> IntArray:
    """The part of each window (n,), -1 for a window to drop; `source` (n, horizon) holds 255 past the end."""
    human = (source == SOURCE_HUMAN).sum(axis=1)
    other = ((source != SOURCE_HUMAN) & (source != SOURCE_POLICY) & (source != 255)).any(axis=1)
    touched = np.flatnonzero(arrays.source == SOURCE_HUMAN)
    if not len(touched):
        policy = np.full(len(begins), int(Part.AUTONOMOUS))
    else:
        policy = np.where(begins < touched[-1], int(Part.BEFORE_INTERVENTION), int(Part.AFTER_INTERVENTION))
    part = np.where(human == 0, policy, np.where(human >= HUMAN_SHARE * how.horizon, int(Part.INTERVENTION), -1))
    taught = (source == SOURCE_EXPERT) | (source == 255)
    return np.where(taught.all(axis=1), int(Part.DEMONSTRATION), np.where(other, -1, part))
