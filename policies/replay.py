"""Decisions of recorded episodes as transitions for reinforcement learning: state, action, reward, next state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, FloatArray, IntArray, MaskArray
from policies.training_data import RecordedEpisode


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """N transitions in order, by policy, operators and experts. One transition is one decision of `execute` frames."""

    state: FloatArray
    """(N, state_dim) float32, units of the robot."""
    action: FloatArray
    """(N, execute, action_dim) float32, commands sent, units of the robot. The last command of an episode is repeated
    where the episode ended within the decision."""
    reward: FloatArray
    """(N,) float32, 1 at the last decision of a success, else 0."""
    next_state: FloatArray
    """(N, state_dim) float32, at the next decision or at the end of the episode."""
    terminal: MaskArray
    """(N,) bool, last decisions. A time-out is terminal too: the state contains the time that is left."""
    human: MaskArray
    """(N,) bool, decisions of which an operator or the expert commanded more than half of the frames."""
    episode: IntArray
    """(N,) int, index of the episode."""
    tick: IntArray
    """(N,) int, frame of the episode at which the decision begins."""

    def __len__(self) -> int:
        """N."""
        return len(self.reward)


def replay_of(episodes: Sequence[RecordedEpisode], execute: int) -> Replay:
    """The transitions of the episodes, one for every `execute` frames."""
    parts = [_decisions(item, execute) for item in episodes]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    state, action, reward, next_state, terminal, human, tick = columns
    lengths = [len(part[2]) for part in parts]
    return Replay(
        state=state, action=action, reward=reward, next_state=next_state, terminal=terminal, human=human,
        episode=np.repeat(np.arange(len(parts)), lengths), tick=tick,
    )  # fmt: skip


def recent_episodes(episodes: Sequence[RecordedEpisode], rounds: int) -> list[RecordedEpisode]:
    """Demonstrations, and policy episodes less than `rounds` rounds older than the newest."""
    newest = max((item.round for item in episodes if not item.demonstration), default=0)
    return [item for item in episodes if item.demonstration or item.round > newest - rounds]


def _decisions(episode: RecordedEpisode, execute: int) -> tuple[np.ndarray, ...]:
    arrays, ticks = episode.arrays, episode.ticks
    begins = np.arange(0, ticks, execute)
    frames = np.minimum(begins[:, None] + np.arange(execute), ticks - 1)
    terminal = begins + execute >= ticks
    human = np.isin(arrays.source[frames], (SOURCE_HUMAN, SOURCE_EXPERT)).mean(axis=1) > 0.5  # (n,)
    return (
        arrays.state[begins],
        arrays.action[frames],
        (terminal & episode.success).astype(np.float32),
        arrays.state[np.minimum(begins + execute, ticks)],
        terminal,
        human,
        begins,
    )
