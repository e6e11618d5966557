"""Cuts episodes into windows: who commanded the robot, which windows are labelled, which may be imitated.

A window starts at a decision and holds one action chunk. Labels follow the partition of HABC (arXiv 2606.17043): only
windows that the policy executed alone up to the end of the episode are labelled with its outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from enpire.errors import LearningProblem
from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY, EpisodeArrays, FloatArray, IntArray, MaskArray
from policies.training_data import RecordedEpisode

HUMAN_SHARE = 0.2
"""A window with at least this share of human frames is an intervention window (10 of 50 in the paper)."""


class Part(IntEnum):
    """The part of the episode that a window belongs to."""

    DEMONSTRATION = 0
    AUTONOMOUS = 1
    """Policy, in an episode without an intervention."""
    BEFORE_INTERVENTION = 2
    """Policy, before or between interventions: an operator changed what came after, so the window has no label."""
    INTERVENTION = 3
    """Operator, in at least HUMAN_SHARE of the frames."""
    AFTER_INTERVENTION = 4
    """Policy, after the last intervention, up to the end."""
    BEFORE_STOP = 5
    """Policy, in an episode that was stopped early: its outcome is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """Length and spacing of windows."""

    horizon: int = 8
    """Frames of a window, the length of an action chunk."""
    execute: int = 4
    """Frames of one decision."""
    stride: int = 4
    """Frames between the starts of two windows."""
    multi_step: int = 1
    """Decisions that a temporal difference spans."""
    label_steps: int = 0
    """Decisions between a state and the later one whose p_v is its label; 0 means `multi_step`."""
    until_takeover: bool = False
    """End a temporal difference where an operator takes over, if that comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """N windows; states and commands in units of the robot."""

    state: FloatArray
    """(N, state_dim) float32, at the decision."""
    next_state: FloatArray
    """(N, state_dim) float32, `multi_step` decisions later, or at the end of the episode if that comes first; with
    `until_takeover` at an operator's first command if that comes first."""
    cost: FloatArray
    """(N,) float32, decisions that the temporal difference counts: `multi_step`, or those before the last decision."""
    ends: MaskArray
    """(N,) bool, True where the episode ends within the `multi_step` decisions; False where it was stopped early."""
    label_state: FloatArray
    """(N, state_dim) float32, as `next_state`, but `label_steps` decisions later."""
    label_ends: MaskArray
    """(N,) bool, as `ends`, but within the `label_steps` decisions."""
    chunk: FloatArray
    """(N, horizon, action_dim) float32, commands sent from the decision on; 0 where the mask is 0."""
    mask: FloatArray
    """(N, horizon) float32, 1 where the command may be imitated, else 0."""
    part: IntArray
    """(N,) int, a `Part`."""
    success: MaskArray
    """(N,) bool, the episode's verdict."""
    episode: IntArray
    """(N,) int, index of the episode in the list given to `cut`."""
    round: IntArray
    """(N,) int, round in which the episode was recorded."""
    tick: IntArray
    """(N,) int, frame of the episode at which the window starts."""
    length: IntArray
    """(N,) int, number of windows of the episode."""
    supervised: MaskArray
    """(N,) bool, whether an operator was allowed to take over in the episode, or did."""
    rollout_weight: FloatArray
    """(N,) float32, rollouts that the episode represents (`RecordedEpisode.rollout_weight`)."""

    def __len__(self) -> int:
        """N."""
        return len(self.part)

    def at(self, rows: IntArray | MaskArray) -> Windows:
        """Some of the windows, by index (M,) or mask (N,)."""
        return Windows(**{item.name: getattr(self, item.name)[rows] for item in fields(Windows)})

    @property
    def demonstration(self) -> MaskArray:
        """(N,) bool, windows of demonstrations."""
        return self.part == Part.DEMONSTRATION

    @property
    def policy(self) -> MaskArray:
        """(N,) bool, windows in which only the policy commanded the robot."""
        return (self.part != Part.DEMONSTRATION) & (self.part != Part.INTERVENTION)


def viability_labels(windows: Windows, partition: bool = True, supervised: bool = True) -> npt.NDArray[np.int8]:
    """Viability labels (N,) int8: 1 success, 0 failure, -1 no label.

    Without the partition ("naive labels", an arm of the benchmark) every policy window gets its episode's outcome.
    Without `supervised` no window of a supervised episode has a label: operators prevent failures and hand back where
    the policy does well, so what the policy finishes there are successes too often.
    """
    labelled = windows.policy if not partition else np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    labelled &= (supervised | ~windows.supervised) & (windows.part != Part.BEFORE_STOP)
    return np.where(labelled, windows.success, -1).astype(np.int8)


def efficiency_mask(windows: Windows, partition: bool = True) -> MaskArray:
    """Windows (N,) bool that train the efficiency head: those of successful episodes without demonstrations.

    With the partition, windows before an intervention are left out as well.
    """
    excluded = (Part.DEMONSTRATION, Part.BEFORE_INTERVENTION) if partition else (Part.DEMONSTRATION,)
    return windows.success & ~np.isin(windows.part, excluded)


def cut(episodes: Sequence[RecordedEpisode], spec: WindowSpec) -> Windows:
    """All windows of the episodes, in order; LearningProblem if there is none."""
    pieces = [piece for i, item in enumerate(episodes) if len(piece := _cut_one(item, i, spec))]
    if not pieces:
        raise LearningProblem(f"The {len(episodes)} episodes hold no window to learn from; collect longer episodes.")
    return Windows(**{item.name: np.concatenate([getattr(p, item.name) for p in pieces]) for item in fields(Windows)})


def recent_windows(windows: Windows, rounds: int) -> Windows:
    """Human windows, and policy windows less than `rounds` rounds older than the newest."""
    if not windows.policy.any():
        return windows
    newest = int(windows.round[windows.policy].max())
    return windows.at(~windows.policy | (windows.round > newest - rounds))


def interception_rate(episodes: Sequence[RecordedEpisode]) -> float:
    """Kappa: the share of rollouts without success of their own in which an operator intervened, in [0, 1).

    Each episode counts with its `rollout_weight`: a failure of the early-stop control arm also represents failures that
    were stopped. Assumes that every episode with an intervention would have failed without it.
    """
    touched = failed = 0.0
    for item in episodes:
        if item.touched:
            touched += item.rollout_weight
        elif not item.success and not item.demonstration and not item.stopped:
            failed += item.rollout_weight
    return touched / (touched + failed) if touched and failed else 0.0


def td_spans(begins: IntArray, ticks: int, spec: WindowSpec) -> tuple[IntArray, FloatArray, MaskArray]:
    """Temporal differences that start at decisions.

    Args:
        begins: (n,) int, frames of the decisions.
        ticks: frames of the episode.
        spec: `execute` and `multi_step` are read.

    Returns:
        (n,) int frames where they end, (n,) float32 decisions that they count, (n,) bool whether the episode ends
        within them.
    """
    left = -((begins - ticks) // spec.execute)  # decisions from here to the end, this one included
    ends = left <= spec.multi_step
    later = np.minimum(begins + spec.multi_step * spec.execute, ticks)
    return later, np.where(ends, left - 1, spec.multi_step).astype(np.float32), ends


def _cut_one(episode: RecordedEpisode, index: int, spec: WindowSpec) -> Windows:
    arrays = episode.arrays
    ticks = episode.ticks
    begins = np.arange(0, ticks, spec.stride)
    frames = begins[:, None] + np.arange(spec.horizon)  # (n, horizon)
    inside = frames < ticks
    source = np.where(inside, arrays.source[np.minimum(frames, ticks - 1)], SOURCE_POLICY)
    part = _parts(arrays, begins, np.where(inside, source, 255), spec)
    if episode.stopped:
        part = np.where(part == Part.AUTONOMOUS, int(Part.BEFORE_STOP), part)
    keep = part >= 0
    begins, frames, inside, source, part = begins[keep], frames[keep], inside[keep], source[keep], part[keep]
    mask = inside & np.where((part == Part.INTERVENTION)[:, None], source == SOURCE_HUMAN, True)
    chunk = np.where(mask[..., None], arrays.action[np.minimum(frames, ticks - 1)], 0)
    later, cost, ends = _spans(episode, begins, part, spec)
    label_later, _, label_ends = _spans(
        episode, begins, part, replace(spec, multi_step=spec.label_steps or spec.multi_step)
    )
    count = len(begins)
    return Windows(
        state=arrays.state[begins],
        next_state=arrays.state[later],
        cost=cost,
        ends=ends,
        label_state=arrays.state[label_later],
        label_ends=label_ends,
        chunk=chunk.astype(np.float32),
        mask=mask.astype(np.float32),
        part=part,
        success=np.full(count, episode.success),
        episode=np.full(count, index),
        round=np.full(count, episode.round),
        tick=begins,
        length=np.full(count, count),
        supervised=np.full(count, episode.supervised or episode.touched),
        rollout_weight=np.full(count, episode.rollout_weight, np.float32),
    )


def _spans(
    episode: RecordedEpisode, begins: IntArray, part: IntArray, spec: WindowSpec
) -> tuple[IntArray, FloatArray, MaskArray]:
    """`td_spans` of windows, ended where an operator takes over (`until_takeover`) or the episode was stopped early."""
    later, cost, ends = td_spans(begins, episode.ticks, spec)
    if spec.until_takeover or episode.stopped:
        taken = _takeovers(episode.arrays, begins)
        cut_off = (part != Part.INTERVENTION) & ((taken < later) | (ends & episode.stopped))
        later = np.where(cut_off, np.minimum(taken, later), later)
        cost = np.where(cut_off, -((begins - later) // spec.execute), cost).astype(np.float32)
        ends &= ~cut_off
    return later, cost, ends


def _takeovers(arrays: EpisodeArrays, begins: IntArray) -> IntArray:
    """The first frame (n,) int of an operator after each of the frames `begins` (n,); the number of frames if none."""
    human = np.append(np.flatnonzero(arrays.source == SOURCE_HUMAN), len(arrays.source))
    return human[np.searchsorted(human, begins)]


def _parts(arrays: EpisodeArrays, begins: IntArray, source: IntArray, spec: WindowSpec) -> IntArray:
    """The part of each window (n,), -1 for a window to drop; `source` (n, horizon) is 255 past the end."""
    human = (source == SOURCE_HUMAN).sum(axis=1)
    other = ((source != SOURCE_HUMAN) & (source != SOURCE_POLICY) & (source != 255)).any(axis=1)
    touched = np.flatnonzero(arrays.source == SOURCE_HUMAN)
    if not len(touched):
        policy = np.full(len(begins), int(Part.AUTONOMOUS))
    else:
        policy = np.where(begins < touched[-1], int(Part.BEFORE_INTERVENTION), int(Part.AFTER_INTERVENTION))
    part = np.where(human == 0, policy, np.where(human >= HUMAN_SHARE * spec.horizon, int(Part.INTERVENTION), -1))
    expert = (source == SOURCE_EXPERT) | (source == 255)
    return np.where(expert.all(axis=1), int(Part.DEMONSTRATION), np.where(other, -1, part))
