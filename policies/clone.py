"""Behaviour cloning of demonstrations; filtered behaviour cloning also imitates the policy's own successes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, cast

import numpy as np
import torch

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem
from enpire.files import canonical
from enpire.interfaces import ImprovementJob, Progress, Task
from enpire.plugins import load
from enpire.store import durable
from enpire.types import SOURCE_HUMAN, FloatArray
from policies import flow_policy
from policies.bounds import at_least
from policies.flow_network import FlowNetwork
from policies.flow_policy import AddedNetwork, FlowVersion
from policies.flow_shape import FlowShape
from policies.flow_training import (
    SMOKE_STEPS,
    AuxiliaryTraining,
    FlowBatches,
    FlowSettings,
    TrainingSchedule,
    train_actor,
)
from policies.habc.segments import Windows, WindowSpec, cut, recent_windows
from policies.habc.weights import WeightRule, actor_weights
from policies.normalise import Scale
from policies.temperature import next_temperature
from policies.training_data import RecordedEpisode, judged, read_episodes, stacked_actions, stacked_states


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSettings(FlowSettings):
    """Settings that every learner of a flow actor shares, in addition to those of its training."""

    window_rounds: int = 4
    """Policy windows this many rounds older than the newest are dropped. Human windows are never dropped."""
    demonstration_weight: float = 1.0
    """Sampling weight of a demonstration's window in the first round; a policy window has 1."""
    demonstration_decay: float = 0.7
    """Factor on that weight in each later round."""
    cooling: float = 1.0
    """Factor on the parent's sampling temperature in each round (`policies.temperature`)."""
    least_temperature: float = 0.7
    """Cooling stops at this temperature."""
    collect_temperature: float = 0.0
    """Sampling temperature of rollouts that only collect data; 0: that of the version. With more noise than when it is
    deployed, a version collects successes that it would not have seen otherwise."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        FlowSettings.__post_init__(self)
        at_least(1, self, "window_rounds")
        at_least(0, self, "demonstration_weight demonstration_decay cooling least_temperature collect_temperature")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSettings(RoundSettings):
    """Settings of a recipe for behaviour cloning."""

    data: Literal["demonstrations", "every_demonstration", "successes", "corrections"] = "demonstrations"
    """`demonstrations`: the successful ones. `every_demonstration`: also the failed ones. `successes`: filtered
    behaviour cloning, that is successful demonstrations and successful policy episodes. `corrections`: demonstrations
    and human interventions, never the policy's own frames (after DAgger, Ross et al., arXiv 1011.0686)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """The actor that a run trains."""

    network: FlowNetwork
    scales: tuple[Scale, Scale]
    """Of (state, action)."""
    temperature: float
    """Of its version."""
    collect_temperature: float
    """Of its version."""

    def version(self) -> FlowVersion:
        """The actor as a version that stations run."""
        return FlowVersion(
            shape=self.network.shape, state=self.scales[0], action=self.scales[1], temperature=self.temperature,
            weights=self.network.weights(), collect_temperature=self.collect_temperature,
        )  # fmt: skip


class Clone:
    """The learner of behaviour cloning."""

    settings: ClassVar = CloneSettings
    smoke: ClassVar = SMOKE_STEPS
    parent_kinds: ClassVar = flow_policy.KINDS

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Clone the job's episodes and write the version; returns the metrics of the run."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        rollouts = read_episodes(job.episodes, stopped=True)
        episodes = self._chosen(settings, judged(rollouts))
        actor = initial_training_state(job, settings, episodes, rollouts)
        windows = recent_windows(cut(episodes, window_spec(settings)), settings.window_rounds)
        weights = actor_weights(windows, np.ones(len(windows), np.float32), WeightRule())
        if settings.data == "corrections":
            weights = weights * ~windows.policy
        sampling_weights = window_sampling_weights(windows, settings, job.round) * (weights > 0)
        batches = FlowBatches.of(windows, actor.network.shape, actor.scales, sampling_weights)
        schedule = training_schedule(job, settings, int((sampling_weights > 0).sum()))
        metrics = train_with_weights(actor, batches, schedule, weights, report)
        write_version(actor.version(), job.output)
        return metrics | {
            "windows": float(len(windows)),
            "n_demonstrations": float(sum(item.demonstration for item in episodes)),
            "n_success": float(sum(item.success and not item.demonstration for item in episodes)),
            "temperature": actor.temperature,
        }

    def _chosen(self, settings: CloneSettings, episodes: Sequence[RecordedEpisode]) -> list[RecordedEpisode]:
        wanted = [item for item in episodes if _wanted(item, settings.data)]
        if not wanted:
            raise LearningProblem(
                f"None of the {len(episodes)} episodes may be cloned with data: {settings.data}; collect more episodes."
            )
        return wanted


def train_with_weights(
    actor: TrainingState,
    batches: FlowBatches,
    schedule: TrainingSchedule,
    weights: FloatArray,
    report: Callable[[Progress], None],
) -> dict[str, float]:
    """Train the actor's network in place with fixed loss weights (N,), one a window; returns the last metrics."""
    metrics: dict[str, float] = {}
    steps = train_actor(actor.network, batches, schedule, lambda _, rows: weights[rows], AuxiliaryTraining())
    for done, metrics in steps:
        report(Progress(stage="actor", done=done, total=schedule.steps, metrics=metrics))
    return metrics


def prepare(job: ImprovementJob) -> None:
    """Set torch's number of threads to the job's and make the work folder."""
    torch.set_num_threads(max(1, job.threads))
    durable.make_folder(job.work)


def window_spec(settings: FlowSettings, multi_step: int = 1) -> WindowSpec:
    """How windows are cut with these settings; `multi_step`: decisions of a temporal difference."""
    return WindowSpec(horizon=settings.horizon, execute=settings.execute, stride=settings.stride, multi_step=multi_step)


def _wanted(item: RecordedEpisode, data: str) -> bool:
    if data == "every_demonstration":
        return item.demonstration
    if data == "corrections" and not item.demonstration:
        return bool((item.arrays.source == SOURCE_HUMAN).any())
    return item.success and (item.demonstration or data == "successes")


def initial_training_state(
    job: ImprovementJob,
    settings: RoundSettings,
    episodes: Sequence[RecordedEpisode],
    rollouts: Sequence[RecordedEpisode] | None = None,
) -> TrainingState:
    """The parent's network and scales with the next temperature; without a parent, a new network.

    Args:
        job: names the parent.
        settings: of the recipe.
        episodes: that the actor learns from.
        rollouts: from which the temperature is chosen, if others than these.

    Raises:
        LearningProblem: the parent has other sizes than the recipe or the episodes.
        PolicyProblem: the parent is no flow policy.
    """
    if job.parent is None:
        source = [item for item in episodes if item.demonstration] or list(episodes)
        state, action = Scale.of(stacked_states(source)), Scale.of(stacked_actions(source))
        state = state.without(columns_of(job.task, settings.unseen.split()))
        network = FlowNetwork(settings.shape(len(state.mean), len(action.mean)), job.seed)
        return TrainingState(
            network=network, scales=(state, action), temperature=settings.temperature,
            collect_temperature=settings.collect_temperature,
        )  # fmt: skip
    parent = flow_policy.read(job.parent)
    wanted = settings.shape(parent.shape.state_dim, parent.shape.action_dim)
    _check_parent(parent, wanted, episodes)
    network = FlowNetwork(wanted, job.seed)
    network.load_weights(parent.weights_for(wanted))
    return TrainingState(
        network=network, scales=(parent.state, parent.action),
        temperature=next_temperature(parent, job.parent.name, settings, episodes if rollouts is None else rollouts),
        collect_temperature=settings.collect_temperature,
    )  # fmt: skip


def columns_of(task: str, names: Sequence[str]) -> list[int]:
    """Columns of these names in a task's state; LearningProblem lists the names that the task senses."""
    if not names:
        return []
    sensed = [item.name for item in cast("type[Task]", load("tasks", task)).spec.state]
    if unknown := [name for name in names if name not in sensed]:
        raise LearningProblem(
            f"The recipe's `unseen` names {unknown[0]!r}, which {task} does not sense; it senses {', '.join(sensed)}. "
            "Name one of these."
        )
    return [sensed.index(name) for name in names]


def _check_parent(parent: FlowVersion, wanted: FlowShape, episodes: Sequence[RecordedEpisode]) -> None:
    if parent.shape.widths != wanted.widths or parent.shape.horizon != wanted.horizon:
        raise LearningProblem(
            f"The parent version has the shape {parent.shape}, the recipe asks for {wanted}; use the parent's sizes "
            "(horizon, hidden, depth, frequencies), or start from a base policy of the new sizes."
        )
    found = (episodes[0].arrays.state.shape[1], episodes[0].arrays.action.shape[1])
    if found != (wanted.state_dim, wanted.action_dim):
        raise LearningProblem(
            f"The episodes have state and action widths {found}, the parent version "
            f"{(wanted.state_dim, wanted.action_dim)}; give episodes of the parent's task."
        )


def window_sampling_weights(windows: Windows, settings: RoundSettings, round_: int) -> FloatArray:
    """Sampling weights (N,) float32: 1 for policy and intervention windows, the decayed weight for demonstrations.

    A demonstration's weight acts on the draw and not on the loss. The expectation is the same, and no gradient step is
    spent on a window with a small weight.
    """
    weight = settings.demonstration_weight * settings.demonstration_decay ** max(0, round_ - 1)
    return np.where(windows.demonstration, np.float32(weight), np.float32(1)).astype(np.float32)


def training_schedule(job: ImprovementJob, settings: FlowSettings, windows: int) -> TrainingSchedule:
    """The schedule for this number of windows, with the checkpoint in the job's work folder."""
    return TrainingSchedule(
        settings=settings,
        steps=settings.steps(windows),
        seed=job.seed,
        checkpoint=job.work / "checkpoint.safetensors",
        job=job_digest(job),
    )


def job_digest(job: ImprovementJob) -> str:
    """A digest of recipe, parent, episodes, round and seed: a checkpoint with another digest is not used.

    It holds names and no paths, because a run may resume on another machine.
    """
    about = {
        "recipe": job.recipe, "parent": job.parent and job.parent.name,
        "episodes": [folder.name for folder in job.episodes], "round": job.round, "seed": job.seed,
    }  # fmt: skip
    return hashlib.sha256(canonical(about).encode()).hexdigest()


def write_version(version: FlowVersion, output: Path, added: AddedNetwork | None = None) -> None:
    """Write a version's folder atomically. A folder that an earlier run wrote must have the same contents."""
    staged = durable.stage_folder(output)
    flow_policy.save(version, staged, added)
    durable.sync(staged)
    durable.reveal([(staged, output)])
