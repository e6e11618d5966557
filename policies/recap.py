"""Recap, a baseline for HABC: a binary indicator says whether the advantage of a window is above a quantile.

With `indicator: input` it is RECAP as published (arXiv 2511.14759): the actor is trained on all data and gets the
binary indicator as an input, which is dropped at random; it acts on "positive". The value function is a distribution
over Monte Carlo returns, -1 per decision and -C for a failure. Corrections by operators are always positive.

With `indicator: filter` it is Imit-Recap: windows below the quantile are left out. Its value head learns discounted
returns from temporal differences (C = 100 and gamma = 0.99 in arXiv 2606.17043).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from enpire.campaign.recipe import settings_of
from enpire.interfaces import ImprovementJob, Progress
from enpire.shares import require_share
from enpire.types import FloatArray, MaskArray
from policies import flow_policy
from policies.bounds import above_zero, at_least, require_default
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
from policies.flow_shape import FlowShape
from policies.flow_training import SMOKE_STEPS, FlowBatches, IndicatorInput
from policies.habc.critic import Critics, CriticShape, as_tensor
from policies.habc.segments import Part, Windows, cut, recent_windows
from policies.normalise import Scale
from policies.optimizer import AveragedAdam, CosineSchedule
from policies.return_distribution import ReturnBins, ReturnDistribution, ValueTraining
from policies.training_data import RecordedEpisode, judged, read_episodes

VALUE_FREQUENCIES = 2
"""Octaves of the Fourier features of the state that the value function sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecapSettings(RoundSettings):
    """Settings of a recipe for Recap."""

    indicator: Literal["filter", "input"] = "filter"
    """`filter`: windows with a negative indicator are left out (Imit-Recap). `input`: all windows are imitated, and the
    actor gets the indicator as an input (RECAP)."""
    indicator_dropout: float = 0.3
    """Share of the training samples that do not get the indicator, with `indicator: input`."""
    guidance: float = 1.0
    """Weight of "positive" when the version acts, with `indicator: input`: 1 in most of the paper, and up to 2.5."""
    value_bins: int = 201
    """Bins of the distribution over returns, with `indicator: input`."""
    discount: float = 0.99
    """Discount factor per decision, with `indicator: filter`."""
    failure_cost: float = 100.0
    """In decisions."""
    positive_share: float = 0.4
    """Share of windows, those with the highest advantages, whose indicator is positive. With `indicator: input` it is a
    share of all windows except interventions, which are positive. With `indicator: filter` it is a share of the
    policy's windows, and all human windows are positive."""
    multi_step: int = 4
    """Decisions that the temporal difference spans."""
    value_steps: int = 500
    value_batch: int = 256
    value_learning_rate: float = 1e-3
    value_hidden: int = 128
    target_follow: float = 0.02
    """Share by which the target network moves towards the value head at each step, with `indicator: filter`."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        RoundSettings.__post_init__(self)
        require_share("discount", self.discount, "(0, 1)")
        require_share("positive_share", self.positive_share, "(0, 1]")
        require_share("target_follow", self.target_follow, "(0, 1]")
        require_share("indicator_dropout", self.indicator_dropout, "[0, 1)")
        at_least(1, self, "multi_step value_steps value_batch value_hidden")
        at_least(2, self, "value_bins")
        at_least(0, self, "failure_cost guidance")
        above_zero(self, "value_learning_rate")
        if self.indicator == "input":
            require_default(self, "discount target_follow", "indicator: input learns undiscounted Monte Carlo returns")
        else:
            require_default(self, "indicator_dropout guidance value_bins", "indicator: filter gives the actor no input")
        if self.guidance != 1 and not self.indicator_dropout:
            raise ValueError(
                f"guidance is {self.guidance:g}, but with indicator_dropout: 0 no sample trains the unconditioned "
                "policy; set guidance: 1, or indicator_dropout above 0."
            )

    def shape(self, state_dim: int, action_dim: int) -> FlowShape:
        """Sizes of the network, with the indicator as one more input if the recipe has it."""
        return replace(RoundSettings.shape(self, state_dim, action_dim), indicator=self.indicator == "input")


class Recap:
    """The learner of Recap."""

    settings: ClassVar = RecapSettings
    smoke: ClassVar = {**SMOKE_STEPS, "value_steps": 20}
    parent_kinds: ClassVar = flow_policy.KINDS

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train the value function, then the actor with each window's indicator; returns the metrics."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        conditioned = settings.indicator == "input"
        rollouts = read_episodes(job.episodes, stopped=True)
        episodes = [item for item in judged(rollouts) if conditioned or item.success or not item.demonstration]
        actor = initial_training_state(job, settings, episodes, rollouts)
        windows = recent_windows(cut(episodes, window_spec(settings, settings.multi_step)), settings.window_rounds)
        if conditioned:
            returns = monte_carlo_returns(windows, episodes, settings)
            advantage = return_advantages(windows, returns, settings, actor.scales[0], job.seed)
            positive = improves(windows, advantage, settings.positive_share)
        else:
            advantage = value_advantages(windows, settings, actor.scales[0], job.seed)
            positive = indicator(windows, advantage, settings.positive_share) > 0
        weights = (positive | conditioned).astype(np.float32)
        sampling_weights = window_sampling_weights(windows, settings, job.round) * (weights > 0)
        batches = FlowBatches.of(windows, actor.network.shape, actor.scales, sampling_weights)
        if conditioned:
            values = np.where(positive, np.float32(1), np.float32(-1))
            batches = replace(batches, indicator=IndicatorInput(values=values, dropout=settings.indicator_dropout))
        schedule = training_schedule(job, settings, int((sampling_weights > 0).sum()))
        metrics = train_with_weights(actor, batches, schedule, weights, report)
        write_version(replace(actor.version(), guidance=settings.guidance), job.output)
        return metrics | _metrics(windows, positive, conditioned) | {"temperature": actor.temperature}


def _metrics(windows: Windows, positive: MaskArray, conditioned: bool) -> dict[str, float]:
    """Shares of the policy's windows whose indicator is positive; Imit-Recap keeps these windows alone."""
    own, lost = windows.policy, windows.policy & ~windows.success
    word = "positive" if conditioned else "kept"
    return {
        "windows": float(len(windows)),
        f"{word}_share": float(positive[own].mean()) if own.any() else float("nan"),
        f"{word}_of_failures": float(positive[lost].mean()) if lost.any() else 0.0,
    }


def monte_carlo_returns(windows: Windows, episodes: Sequence[RecordedEpisode], settings: RecapSettings) -> FloatArray:
    """What each window's episode returned from its start on, (N,) float32 in decisions, undiscounted.

    It is minus the decisions up to the end of the episode, minus `failure_cost` for a failure. `episodes`: those that
    the windows were cut from.
    """
    ticks = np.array([item.ticks for item in episodes])[windows.episode]
    left = -((windows.tick - ticks) // settings.execute)
    return np.asarray(-(left + settings.failure_cost * ~windows.success), np.float32)


def return_advantages(
    windows: Windows, returns: FloatArray, settings: RecapSettings, scale: Scale, seed: int
) -> FloatArray:
    """Train the distribution over returns on all windows; their n-step advantages (N,) float32, in decisions.

    Args:
        windows: N windows.
        returns: (N,), from `monte_carlo_returns`.
        settings: of the recipe.
        scale: of the state.
        seed: of the network and its minibatches.
    """
    bins = ReturnBins(lowest=min(-1.0, float(returns.min())), count=settings.value_bins)
    training = ValueTraining(
        hidden=settings.value_hidden, steps=settings.value_steps, batch=settings.value_batch,
        learning_rate=settings.value_learning_rate, seed=seed,
    )  # fmt: skip
    now, later = (
        fourier(as_tensor(scale.forward(rows)), VALUE_FREQUENCIES) for rows in (windows.state, windows.next_state)
    )
    head = ReturnDistribution(now, returns, bins, training)
    reward, factor = rewards(windows, settings)
    return np.asarray(reward + factor * head.value(later) - head.value(now), np.float32)


def improves(windows: Windows, advantage: FloatArray, share: float) -> MaskArray:
    """RECAP's indicator (N,) bool: the advantage (N,) is above the quantile that leaves `share` of the windows.

    Interventions are always positive and do not count for the quantile. Before the first rollout, the indicator of a
    demonstration is its success.
    """
    if windows.demonstration.all():
        return windows.success
    forced = windows.part == Part.INTERVENTION
    threshold = np.quantile(advantage[~forced], 1 - share) if not forced.all() else 0.0
    return forced | (advantage > threshold)


def rewards(windows: Windows, settings: RecapSettings) -> tuple[FloatArray, FloatArray]:
    """Reward of each window's temporal difference, and factor on the value at its end; both (N,) float32.

    They are discounted with `indicator: filter`.
    """
    # A window that ends the episode also includes its last decision and the penalty of a failure.
    steps = windows.cost + windows.ends
    discount = settings.discount if settings.indicator == "filter" else 1.0
    step_reward = -steps if discount == 1 else -(1 - discount**steps) / (1 - discount)
    failure_penalty = np.where(windows.ends & ~windows.success, settings.failure_cost * discount**steps, 0)
    factor = np.where(windows.ends, 0, discount**steps)
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
    """Imit-Recap's weights (N,) float32: 1 for human windows and the best `share` of policy windows, else 0.

    `advantage`: (N,), from `value_advantages`.
    """
    own = windows.policy
    threshold = np.quantile(advantage[own], 1 - share) if own.any() else 0.0
    human = np.isin(windows.part, (Part.DEMONSTRATION, Part.INTERVENTION))
    return (human | (advantage >= threshold)).astype(np.float32)


def _loss(head: Critics, features: Tensor, target_value: Tensor, unit: float) -> Tensor:
    return torch.nn.functional.mse_loss(head.efficiency(features) / unit, target_value / unit)
