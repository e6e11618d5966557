"""Best of N with HABC's critics: the actor does not change; a learned score picks one of several sampled chunks.

The critics evaluate states, but a chunk must be scored before it is sent. So a small network regresses the critics'
(1 - p_v) A_v + p_v A_e of recorded decisions, failures included, from the state and the commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.types import FloatArray
from policies import best_of_n, flow_policy
from policies.best_of_n import Score, score_inputs
from policies.bounds import above_zero, at_least, require_default
from policies.clone import prepare, write_version
from policies.flow_network import SmallNetwork
from policies.flow_policy import AddedNetwork, FlowVersion
from policies.flow_shape import FlowShape
from policies.habc.diagnostics import auc
from policies.habc.learner import RoundData, collect_round_data, critic_training, evaluate_critics
from policies.habc.settings import HabcSettings
from policies.habc.train import CriticTraining, pretrain_critics
from policies.optimizer import AveragedAdam, CosineSchedule
from policies.training_data import read_episodes

ACTOR_SETTINGS = (
    "horizon execute hidden depth frequencies euler_steps temperature batch passes least_steps most_steps "
    "learning_rate last_learning_rate average early_stop device precision compile unseen demonstration_weight "
    "demonstration_decay cooling least_temperature collect_temperature critic_beside warmup_share gate time_value "
    "reweight_interventions reweight_from_round state_weights"
)
"""Settings of HABC that concern the actor and its weights."""
TARGET_LIMIT = 3.0
"""The score's targets are clipped to [-limit, limit]; beyond it the gate hardly changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings(HabcSettings):
    """Settings of a recipe for best of N."""

    candidates: int = 8
    """Chunks sampled for each decision."""
    score_steps: int = 600
    score_hidden: int = 128
    score_frequencies: int = 2
    score_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        HabcSettings.__post_init__(self)
        at_least(1, self, "candidates score_steps score_hidden")
        at_least(0, self, "score_frequencies")
        above_zero(self, "score_learning_rate")
        require_default(self, ACTOR_SETTINGS, "best of N keeps the parent's actor and trains critics and a score alone")

    def critics(self, shape: FlowShape) -> HabcSettings:
        """The settings of HABC's critics with the chunk length of the parent's actor."""
        own = {item.name: getattr(self, item.name) for item in fields(HabcSettings)}
        return HabcSettings(**{**own, "horizon": shape.horizon, "execute": shape.execute})


class BestOfN:
    """The learner of best of N."""

    settings: ClassVar = SelectionSettings
    smoke: ClassVar = {"critic_steps": 20, "score_steps": 20}
    parent_kinds: ClassVar = flow_policy.KINDS

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train critics and score; the version holds the parent's actor unchanged. Returns the metrics."""
        settings = settings_of(self.settings, job.recipe)
        if job.parent is None:
            raise LearningProblem(
                "Best of N picks among a parent's chunks, and this job has no parent; clone a base first."
            )
        prepare(job)
        version = flow_policy.read(job.parent)
        critic_settings = settings.critics(version.shape)
        round_data = collect_round_data(read_episodes(job.episodes, stopped=True), critic_settings)
        training, schedule = critic_training(job, critic_settings, round_data, version.state)
        pretrain_critics(training, schedule)
        report(Progress(stage="critics", done=training.done, total=max(1, training.done), metrics={}))
        metrics, _ = evaluate_critics(round_data, training, version.action.spread, job.round)
        targets = score_targets(round_data, training)
        network, score_metrics = train_score(version, round_data, targets, settings, job.seed)
        report(Progress(stage="score", done=settings.score_steps, total=settings.score_steps, metrics=score_metrics))
        about = Score(candidates=settings.candidates, frequencies=settings.score_frequencies)
        added = AddedNetwork(kind=best_of_n.KIND, key=best_of_n.KEY, about=asdict(about), weights=network.weights())
        write_version(version, job.output, added)
        return metrics | score_metrics


def score_targets(round_data: RoundData, training: CriticTraining) -> FloatArray:
    """The soft gate's argument (N,) float32 of every window, clipped to TARGET_LIMIT."""
    return np.clip(training.scaled_advantages().mixed, -TARGET_LIMIT, TARGET_LIMIT).astype(np.float32)


def train_score(
    version: FlowVersion, round_data: RoundData, targets: FloatArray, settings: SelectionSettings, seed: int
) -> tuple[SmallNetwork, dict[str, float]]:
    """Train the score on the policy's windows by regression; returns it with the AUC of held-out signs.

    `targets`: (N,), from `score_targets`. LearningProblem if there is no policy window.
    """
    windows = round_data.windows
    own = windows.policy & (windows.mask[:, : version.shape.execute].min(axis=1) > 0)
    if not (own & ~round_data.held_out).any():
        raise LearningProblem("There is no policy window to train the score on; collect rollouts of the policy first.")
    about = Score(candidates=settings.candidates, frequencies=settings.score_frequencies)
    rows = score_inputs(version, about, windows.state, windows.chunk)
    training = np.flatnonzero(own & ~round_data.held_out)
    network = SmallNetwork((rows.shape[1], settings.score_hidden, settings.score_hidden, 1), seed)
    first = settings.score_learning_rate
    optimizer = AveragedAdam(
        network.parameters(), CosineSchedule(first=first, last=0.05 * first, steps=settings.score_steps), 0.99
    )
    for step in range(settings.score_steps):
        drawn = training[np.random.default_rng((seed, 13, step)).integers(len(training), size=settings.critic_batch)]
        score = network(torch.from_numpy(rows[drawn])).squeeze(-1)
        optimizer.minimise(nn.functional.mse_loss(score, torch.from_numpy(targets[drawn])), step)
    optimizer.use_average()
    held_out = np.flatnonzero(own & round_data.held_out)
    with torch.no_grad():
        score = network(torch.from_numpy(rows[held_out])).squeeze(-1).numpy()
    return network, {"score_auc": auc(score, targets[held_out] > 0), "score_windows": float(len(training))}
