"""HABC for LeRobot policies: the same windows, critics and gates as for ours, as weights on the policy's own loss.

LeRobot's network, loss and files stay as they are; its normaliser never sees a weight, because the weights are looked
up by row and not carried in the batch. Without a parent a small policy is made and cloned from demonstrations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from enpire.errors import LearningProblem
from enpire.files import parse
from enpire.interfaces import ImprovementJob, Progress
from enpire.store import durable
from enpire.types import FloatArray
from policies import lerobot_policy
from policies.clone import prepare
from policies.descent import Descent, Schedule, read_checkpoint, write_checkpoint
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS, Course
from policies.habc.learner import Material, WeightTable, critic_training, gather, judged
from policies.habc.segments import Windows
from policies.habc.settings import HabcSettings
from policies.habc.train import head_start
from policies.habc.weights import normalised
from policies.lerobot_base import LerobotShape, new_parts
from policies.lerobot_losses import has_row_losses, mean_loss, row_losses
from policies.lerobot_policy import Parts
from policies.normalise import Scale
from policies.training_data import read_episodes, stacked_actions, stacked_states


@dataclass(frozen=True, slots=True, kw_only=True)
class LerobotSettings(HabcSettings):
    """What a recipe for a LeRobot policy may say."""

    family: Literal["act", "diffusion"] = "act"
    """Of a new policy; with a parent, its own family counts."""
    width: int = 64
    weights: Literal["loss", "draw"] = "loss"
    """Where the weights act: on the loss of each sample, or on how often it is drawn (any policy can do that)."""


class LerobotHabc:
    """The learner for recipes that improve LeRobot policies."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train critics, weigh the windows, train the policy; the version is a LeRobot folder of plain files."""
        where = f"The recipe {job.recipe.get('name')}, settings"
        settings = parse(LerobotSettings, job.recipe.get("settings", {}), where)
        prepare(job)
        episodes = read_episodes(job.episodes)
        source = [item for item in episodes if item.demonstration] or list(episodes)
        scales = Scale.of(stacked_states(source)), Scale.of(stacked_actions(source))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            parts = _parts(job, settings, scales)
            settings = _fitted(settings, parts)
            material = gather(episodes, settings)
            training, course = critic_training(job, settings, material, scales[0])
            report(Progress(stage="begin", done=0, total=1, figures={}))
            head_start(training, course)
            figures, rule = judged(material, training, scales[1].spread)
            report(Progress(stage="critics", done=training.done, total=max(1, training.done), figures=figures))
            table = WeightTable(material.windows, training, rule)
            chances = table.chances(material.windows, job.round)
            course = replace(course, steps=settings.steps(int((chances > 0).sum())))
            loss = math.nan
            for done, loss in _train(parts, _Study(material, table, chances, settings), course):
                report(Progress(stage="actor", done=done, total=course.steps, figures={"loss": loss}))
        staged = durable.stage_folder(job.output)
        lerobot_policy.save(parts, staged)
        durable.fill_folder(staged, {})
        durable.reveal([(staged, job.output)])
        return figures | {"loss": loss, "steps": float(course.steps)}


def _parts(job: ImprovementJob, settings: LerobotSettings, scales: tuple[Scale, Scale]) -> Parts:
    if job.parent is not None:
        return lerobot_policy.open_parts(job.parent)
    shape = LerobotShape(
        family=settings.family, width=settings.width, horizon=settings.horizon, execute=settings.execute
    )
    return new_parts(shape, *scales)


def _fitted(settings: LerobotSettings, parts: Parts) -> LerobotSettings:
    """The settings with the policy's own chunk; LearningProblem for what episodes do not hold."""
    config: Any = parts.policy.config
    if lerobot_policy.picture_inputs(config) or getattr(config, "n_obs_steps", 1) != 1:
        raise LearningProblem(
            f"This {config.type} policy reads pictures or several observation steps; episodes keep one state for each "
            "decision, so only policies of the state with n_obs_steps 1 can be improved here."
        )
    wide = len(config.action_delta_indices)
    draw = settings.weights == "draw" or not has_row_losses(parts.policy)
    return replace(settings, horizon=wide, execute=parts.about.execute, weights="draw" if draw else "loss")


class _Study:
    """Windows as LeRobot wants them, with the chance and the weight of each."""

    def __init__(self, material: Material, table: WeightTable, chances: FloatArray, settings: LerobotSettings) -> None:
        self.windows: Windows = material.windows
        self._table, self.settings = table, settings
        if settings.weights == "draw":
            every = np.arange(len(self.windows))
            chances = chances * table.weights(settings.warmup_steps, every)
        self._ladder = np.cumsum(chances, dtype=np.float64)
        if not self._ladder[-1] > 0:
            raise LearningProblem("No window may be imitated: there is neither a demonstration nor a success.")

    def rows(self, random: np.random.Generator) -> np.ndarray:
        drawn = random.random(self.settings.batch) * self._ladder[-1]
        return np.searchsorted(self._ladder, drawn, side="right")

    def weights(self, step: int, rows: np.ndarray) -> FloatArray:
        """(B,), mean 1 over the policy's rows; all 1 where the weights act on the draw."""
        if self.settings.weights == "draw":
            return np.ones(len(rows), np.float32)
        return normalised(self._table.weights(step, rows), self.windows.demonstration[rows])


def _train(parts: Parts, study: _Study, course: Course) -> Iterator[tuple[int, float]]:
    """Train in place, yielding (steps done, loss); a killed run goes on from its last checkpoint to the same bytes."""
    policy: Any = parts.policy
    settings = study.settings
    schedule = Schedule(first=settings.learning_rate, last=settings.last_learning_rate, steps=course.steps)
    descent = Descent(policy.parameters(), schedule, settings.average)
    inputs = _inputs(parts, study.windows)
    first = 0
    if (found := read_checkpoint(course.checkpoint, course.job)) is not None:
        table, first = found
        descent.restore("actor", table)
    policy.train()
    for step in range(first, course.steps):
        random = np.random.default_rng((course.seed, step))
        torch.manual_seed(int(random.integers(2**62)))
        rows = study.rows(random)
        batch = {key: value[torch.from_numpy(rows)] for key, value in inputs.items()}
        weights = torch.from_numpy(study.weights(step, rows))
        loss = (weights * row_losses(policy, batch)).mean() if settings.weights == "loss" else mean_loss(policy, batch)
        descent.down(loss, step)
        done = step + 1
        if done % CHECKPOINT_STEPS == 0 or done == course.steps:
            write_checkpoint(course.checkpoint, descent.tensors("actor"), course.job, done)
        if done % REPORT_STEPS == 0 or done == course.steps:
            value = float(loss.detach())
            if not math.isfinite(value):
                raise LearningProblem(f"The policy's loss is {value} after {done} steps; lower learning_rate.")
            yield done, value
    descent.take_average()
    policy.eval()


def _inputs(parts: Parts, windows: Windows) -> dict[str, Tensor]:
    """Normalised states and actions of all windows, with LeRobot's mask of what is padded."""
    rows: dict[str, Tensor] = lerobot_policy.batch_of(parts.about, windows.state)
    keys = list(rows)
    seen = parts.before({**rows, "action": torch.from_numpy(windows.chunk), "task": [""] * len(windows)})
    found = {key: seen[key] for key in keys}
    if parts.policy.config.type == "diffusion":
        found = {key: value[:, None] for key, value in found.items()}
    mask = torch.from_numpy(windows.mask)
    return {**found, "action": seen["action"] * mask[..., None], "action_is_pad": mask == 0}
