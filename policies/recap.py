"""Imit-Recap, a baseline for HABC: imitate only windows whose advantage under a value head is high.

The value head learns discounted returns with a reward of -1 per decision and -C for a failure (C = 100 and gamma =
0.99 in arXiv 2606.17043). The indicator "advantage above a quantile" is RECAP's (arXiv 2511.14759). RECAP gives the
indicator to the actor as an input; here windows below the quantile are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from enpire.campaign.recipe import settings_of
from enpire.interfaces import ImprovementJob, Progress
from enpire.shares import require_share
from enpire.types import FloatArray
from policies.bounds import above_zero, at_least
from policies.clone import (
    RoundSettings,
    initial_training_state,
    prepare,
    train_with_weights,
    training_schedule,
    window_sampling_weights,
    window_spec,
    write_version,
)
from policies.flow_network import fourier
from policies.flow_training import FlowBatches, version_of
from policies.habc.critic import Critics, CriticShape, as_tensor
from policies.habc.segments import Part, Windows, cut, recent_windows
from policies.normalise import Scale
from policies.optimizer import AveragedAdam, CosineSchedule
from policies.training_data import read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecapSettings(RoundSettings):
    """Settings of a recipe for Imit-Recap."""

    discount: float = 0.99
    """Discount factor per decision."""
    failure_cost: float = 100.0
    """In decisions."""
    positive_share: float = 0.4
    """Share of the policy's windows, those with the highest advantages, that is imitated."""
    multi_step: int = 4
    """Decisions that the temporal difference spans."""
    value_steps: int = 500
    value_batch: int = 256
    value_learning_rate: float = 1e-3
    value_hidden: int = 128
    target_follow: float = 0.02
    """Share by which the target network moves towards the value head at each step."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        RoundSettings.__post_init__(self)
        require_share("discount", self.discount, "(0, 1)")
        require_share("positive_share", self.positive_share, "(0, 1]")
        require_share("target_follow", self.target_follow, "(0, 1]")
        at_least(1, self, "multi_step value_steps value_batch value_hidden")
        at_least(0, self, "failure_cost")
        above_zero(self, "value_learning_rate")


class Recap:
    """The learner of Imit-Recap."""

    settings: ClassVar = RecapSettings

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train the value head, select windows by their advantage, clone them; returns the metrics."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        episodes = [item for item in read_episodes(job.episodes) if item.success or not item.demonstration]
        actor = initial_training_state(job, settings, episodes)
        windows = recent_windows(cut(episodes, window_spec(settings, settings.multi_step)), settings.window_rounds)
        advantage = value_advantages(windows, settings, actor.scales[0], job.seed)
        weights = indicator(windows, advantage, settings.positive_share)
        sampling_weights = window_sampling_weights(windows, settings, job.round) * (weights > 0)
        batches = FlowBatches.of(windows, actor.network.shape, actor.scales, sampling_weights)
        schedule = training_schedule(job, settings, int((sampling_weights > 0).sum()))
        metrics = train_with_weights(actor, batches, schedule, weights, report)
        write_version(version_of(actor.network, actor.scales, actor.temperature), job.output)
        own = windows.policy
        return metrics | {
            "windows": float(len(windows)),
            "kept_share": float(weights[own].mean()) if own.any() else float("nan"),
            "kept_of_failures": float(weights[own & ~windows.success].mean())
            if (own & ~windows.success).any()
            else 0.0,
            "temperature": actor.temperature,
        }


def rewards(windows: Windows, settings: RecapSettings) -> tuple[FloatArray, FloatArray]:
    """Discounted reward of each window's temporal difference, and factor on the value at its end; both (N,) float32."""
    # A window that ends the episode also includes its last decision and the penalty of a failure.
    steps = windows.cost + windows.ends
    step_reward = -(1 - settings.discount**steps) / (1 - settings.discount)
    failure_penalty = np.where(windows.ends & ~windows.success, settings.failure_cost * settings.discount**steps, 0)
    factor = np.where(windows.ends, 0, settings.discount**steps)
    return (step_reward - failure_penalty).astype(np.float32), factor.astype(np.float32)


def value_advantages(windows: Windows, settings: RecapSettings, scale: Scale, seed: int) -> FloatArray:
    """Train the value head on all windows; their advantages (N,) float32, in decisions. `scale` is of the state."""
    unit = settings.failure_cost + 1 / (1 - settings.discount)
    shape = CriticShape(state_dim=windows.state.shape[1], hidden=settings.value_hidden, horizon_decisions=unit)
    head = Critics(shape, seed)
    schedule = CosineSchedule(
        first=settings.value_learning_rate, last=0.05 * settings.value_learning_rate, steps=settings.value_steps
    )
    optimizer = AveragedAdam(head.parameters(), schedule, 1 - settings.target_follow)
    target = copy.deepcopy(head)
    optimizer.share_average(target.parameters())
    now, later = (
        fourier(as_tensor(scale.forward(rows)), shape.frequencies) for rows in (windows.state, windows.next_state)
    )
    reward, factor = (as_tensor(row) for row in rewards(windows, settings))
    for step in range(settings.value_steps):
        rows = torch.from_numpy(
            np.random.default_rng((seed, 11, step)).integers(len(windows), size=settings.value_batch)
        )
        with torch.no_grad():
            target_value = reward[rows] + factor[rows] * target.efficiency(later[rows])
        optimizer.minimise(_loss(head, now[rows], target_value, unit), step)
    with torch.no_grad():
        advantage = reward + factor * head.efficiency(later) - head.efficiency(now)
    return advantage.numpy()


def indicator(windows: Windows, advantage: FloatArray, share: float) -> FloatArray:
    """Weights (N,) float32: 1 for human windows and the `share` of policy windows with the best advantages, else 0.

    `advantage`: (N,), from `value_advantages`.
    """
    own = windows.policy
    threshold = np.quantile(advantage[own], 1 - share) if own.any() else 0.0
    human = np.isin(windows.part, (Part.DEMONSTRATION, Part.INTERVENTION))
    return (human | (advantage >= threshold)).astype(np.float32)


def _loss(head: Critics, features: Tensor, target_value: Tensor, unit: float) -> Tensor:
    return torch.nn.functional.mse_loss(head.efficiency(features) / unit, target_value / unit)
