"""Decisions of recorded episodes as reinforcement learning wants them: state, what was sent, reward, next state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, FloatArray, IntArray, MaskArray
from policies.training_data import RecordedEpisode


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """N decisions in order, whoever made them; a step is what is executed of one chunk, not a frame."""

    state: FloatArray
    """(N, state_dim)."""
    action: FloatArray
    """(N, execute, action_dim), what was sent; the last command is repeated where an episode ended within."""
    reward: FloatArray
    """(N,), 1 at the last decision of a success, else 0."""
    next_state: FloatArray
    """(N, state_dim), at the next decision or the end."""
    ends: MaskArray
    """(N,), last decisions. A time-out is an end too: episodes carry the time that is left in their state."""
    person: MaskArray
    """(N,), decisions whose frames a person or the teacher commanded for the most part."""
    episode: IntArray
    """(N,)."""

    def __len__(self) -> int:
        """N."""
        return len(self.reward)


def replay_of(episodes: Sequence[RecordedEpisode], execute: int) -> Replay:
    """The decisions of the episodes, `execute` frames each."""
    parts = [_decisions(item, execute) for item in episodes]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    state, action, reward, later, ends, person = columns
    lengths = [len(part[2]) for part in parts]
    return Replay(
        state=state, action=action, reward=reward, next_state=later, ends=ends, person=person,
        episode=np.repeat(np.arange(len(parts)), lengths),
    )  # fmt: skip


def recent_episodes(episodes: Sequence[RecordedEpisode], rounds: int) -> list[RecordedEpisode]:
    """Without the policy's episodes that are `rounds` or more rounds older than the newest."""
    newest = max((item.round for item in episodes if not item.demonstration), default=0)
    return [item for item in episodes if item.demonstration or item.round > newest - rounds]


def _decisions(episode: RecordedEpisode, execute: int) -> tuple[np.ndarray, ...]:
    arrays, ticks = episode.arrays, episode.ticks
    begins = np.arange(0, ticks, execute)
    frames = np.minimum(begins[:, None] + np.arange(execute), ticks - 1)
    ends = begins + execute >= ticks
    people = np.isin(arrays.source[frames], (SOURCE_HUMAN, SOURCE_EXPERT)).mean(axis=1) > 0.5  # (n,)
    return (
        arrays.state[begins],
        arrays.action[frames],
        (ends & episode.success).astype(np.float32),
        arrays.state[np.minimum(begins + execute, ticks)],
        ends,
        people,
    )
