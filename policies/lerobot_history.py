"""Observation histories of windows, for LeRobot policies with several observation steps.

Observations are those of the last decisions, `execute` frames apart, as at inference (`lerobot_policy`). The actions of
such a policy start before its decision: with `n_obs_steps` 2, LeRobot includes the action of the frame before.
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
    """N windows with the observations and actions before them."""

    steps: int
    """Number of observations of one window."""
    observations: Windows
    """(N * steps): for each window its earlier decisions, oldest first, then itself; the first frame is repeated."""
    chunk: FloatArray
    """(N, frames, action_dim) float32, from the policy's first action on, units of the robot; 0 where the mask is 0."""
    mask: FloatArray
    """(N, frames) float32, 1 where the command may be imitated, else 0; 0 before the first frame."""

    def __len__(self) -> int:
        """N."""
        return len(self.chunk)


def observation_history(windows: Windows, episodes: Sequence[RecordedEpisode], config: Any, execute: int) -> History:
    """The histories of windows for a policy with LeRobot's configuration `config`.

    Args:
        windows: N windows.
        episodes: those that have windows, in the order of their windows.
        config: of the LeRobot policy.
        execute: frames of one decision.
    """
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
    observations = windows.at(np.repeat(np.arange(len(windows)), steps))
    return History(
        steps=steps,
        observations=replace(observations, state=state.reshape(len(observations), -1), tick=ticks.reshape(-1)),
        chunk=np.concatenate([earlier * known[..., None], windows.chunk], axis=1),
        mask=np.concatenate([known, windows.mask], axis=1),
    )
