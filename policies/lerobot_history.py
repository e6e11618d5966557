"""What a LeRobot policy with several observation steps looks back on at each window that it learns from.

Observations are those of its own last decisions, `execute` frames apart, as when it acts (`lerobot_policy`). Actions of
such a policy begin before its decision: LeRobot gives `n_obs_steps` 2 the action of the frame before, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from enpire.types import FloatArray
from policies.habc.segments import Windows
from policies.training_data import RecordedEpisode


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """N windows with what lies before them."""

    steps: int
    """Observations of one window."""
    looks: Windows
    """N * steps: each window at the decisions before it, oldest first, then itself; never before the episode began."""
    chunk: FloatArray
    """(N, frames, action_dim), from the first action that the policy gives; 0 where the mask is 0."""
    mask: FloatArray
    """(N, frames), 1 where the command may be imitated; 0 before the episode's first, too."""

    def __len__(self) -> int:
        """N."""
        return len(self.chunk)


def look_back(windows: Windows, episodes: Sequence[RecordedEpisode], config: Any, execute: int) -> History:
    """The windows as a policy of this `config` sees them; `episodes` are those that have windows, in their order."""
    steps, before = int(getattr(config, "n_obs_steps", 1)), -min(config.action_delta_indices)
    ticks = np.maximum(windows.tick[:, None] - execute * np.arange(steps)[::-1], 0)  # (N, steps)
    frames = windows.tick[:, None] - np.arange(before, 0, -1)  # (N, before)
    state = np.zeros((*ticks.shape, windows.state.shape[1]), np.float32)
    earlier = np.zeros((*frames.shape, windows.chunk.shape[2]), np.float32)
    for index, episode in zip(np.unique(windows.episode), episodes, strict=True):
        rows = windows.episode == index
        state[rows] = episode.arrays.state[ticks[rows]]
        earlier[rows] = episode.arrays.action[np.maximum(frames[rows], 0)]
    known = (frames >= 0).astype(np.float32)
    looks = windows.at(np.repeat(np.arange(len(windows)), steps))
    return History(
        steps=steps,
        looks=replace(looks, state=state.reshape(len(looks), -1), tick=ticks.reshape(-1)),
        chunk=np.concatenate([earlier * known[..., None], windows.chunk], axis=1),
        mask=np.concatenate([known, windows.mask], axis=1),
    )
