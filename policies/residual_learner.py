"""Residual online reinforcement learning: TD3 (Fujimoto et al., arXiv 1802.09477) on a frozen base policy.

The actor corrects what the base proposes, by at most `reach`; two critics judge the sum. The base's own noise explores.
The replay holds every recorded decision, also those of the teacher and of people who took over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.types import FloatArray
from policies import flow_policy, residual
from policies.bounds import above_zero, at_least
from policies.clone import job_digest, prepare, write_version
from policies.flow_network import SmallNetwork
from policies.flow_policy import AddedNetwork, FlowPolicy, FlowVersion
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS
from policies.optimizer import AveragedAdam, CosineSchedule, read_checkpoint, write_checkpoint
from policies.replay import Replay, recent_episodes, replay_of
from policies.residual import Correction, correction_inputs
from policies.training_data import read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualSettings:
    """What a recipe for residual reinforcement learning may say."""

    reach: float = 0.5
    """Largest correction, in standard deviations of each command."""
    discount: float = 0.97
    """Per decision."""
    batch: int = 256
    least_steps: int = 500
    most_steps: int = 2500
    passes: float = 60.0
    """Gradient steps are this many passes over the replay."""
    learning_rate: float = 1e-3
    hidden: int = 128
    frequencies: int = 1
    target_follow: float = 0.01
    target_noise: float = 0.1
    """Standard deviation of the smoothing noise on the target's action; clipped at twice that."""
    actor_every: int = 2
    calm: float = 0.05
    """Price of the squared correction: the actor leaves the base only for a gain."""
    window_rounds: int = 4

    def __post_init__(self) -> None:
        """Say which value is not allowed."""
        at_least(1, self, "batch least_steps most_steps hidden actor_every window_rounds")
        at_least(0, self, "calm target_noise frequencies")
        above_zero(self, "learning_rate passes")
        if not 0 < self.discount < 1 or not 0 < self.target_follow <= 1 or not 0 < self.reach < 10:
            raise ValueError("discount must be in (0, 1), target_follow in (0, 1], reach in (0, 10).")

    def steps(self, decisions: int) -> int:
        """Gradient steps for that many decisions."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.passes * decisions / self.batch)))


class ResidualTd3:
    """The learner for recipes of residual online reinforcement learning."""

    settings: ClassVar = ResidualSettings

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train critics and correction; the base goes into the version unchanged."""
        settings = settings_of(self.settings, job.recipe)
        if job.parent is None:
            raise LearningProblem("A residual policy corrects a base; clone a base first.")
        prepare(job)
        version = flow_policy.read(job.parent)
        replay = replay_of(recent_episodes(read_episodes(job.episodes), settings.window_rounds), version.shape.execute)
        if not replay.reward.any():
            raise LearningProblem("No decision was ever rewarded: there is neither a demonstration nor a success.")
        pair = Pair(version, settings, job.seed)
        pair.begin_at(job.parent)
        metrics = {"decisions": float(len(replay)), "rewarded": float(replay.reward.sum())}
        steps = settings.steps(len(replay))
        for done, seen in pair.train(Batches(version, replay, settings, job.seed), job, steps):
            metrics |= seen
            report(Progress(stage="actor", done=done, total=steps, metrics=seen))
        write_version(version, job.output, pair.added_network())
        return metrics | {"steps": float(steps)}


class Batches:
    """The replay, normalised, with what the base proposes at both ends of every decision."""

    def __init__(self, version: FlowVersion, replay: Replay, settings: ResidualSettings, seed: int) -> None:
        """`seed` draws the base's noise."""
        about = Correction(reach=settings.reach, frequencies=settings.frequencies)
        random = np.random.default_rng((seed, 19))
        base, shape = FlowPolicy(version), version.shape

        def rows(state: FloatArray) -> Tensor:
            noise = random.standard_normal((len(state), shape.chunk_dim)).astype(np.float32) * version.temperature
            proposed = base.integrate(state, noise)[:, : shape.execute * shape.action_dim]
            return torch.from_numpy(correction_inputs(version, about, state, proposed))

        self.now, self.later = rows(replay.state), rows(replay.next_state)
        sent = version.action.forward(replay.action).reshape(len(replay), -1)
        self.sent = torch.from_numpy(np.ascontiguousarray(sent, np.float32))
        self.reward = torch.from_numpy(replay.reward)
        self.goes_on = torch.from_numpy(1 - replay.terminal.astype(np.float32))

    def __len__(self) -> int:
        """Decisions."""
        return len(self.reward)


class Pair:
    """The correction and its two critics, with their averages as targets."""

    def __init__(self, version: FlowVersion, settings: ResidualSettings, seed: int) -> None:
        """Fresh networks; the correction begins at nearly nothing."""
        shape = version.shape
        self._settings, self._seed = settings, seed
        self._sent = shape.execute * shape.action_dim
        wide = shape.state_dim * (1 + 2 * settings.frequencies)
        self._wide = wide
        hidden = (settings.hidden, settings.hidden)
        self.actor = SmallNetwork((wide + self._sent, *hidden, self._sent), seed, last=0.01)
        self._critics = nn.ModuleList(SmallNetwork((wide + self._sent, *hidden, 1), seed + 1 + i) for i in range(2))

    def begin_at(self, parent: Path) -> None:
        """Go on from the correction of a parent that has one of the same shape."""
        document = json.loads((parent / "policy.json").read_text(encoding="utf-8"))
        if document.get("kind") != residual.KIND or document["residual"] != asdict(self._about):
            return
        _, beside = flow_policy.read_added_network(parent, residual.KIND, residual.KEY)
        if {name: value.shape for name, value in beside.weights.items()} == {
            name: value.shape for name, value in self.actor.weights().items()
        }:
            self.actor.load_weights(beside.weights)

    def added_network(self) -> AddedNetwork:
        """The correction as it lies in a version's folder."""
        return AddedNetwork(
            kind=residual.KIND, key=residual.KEY, about=asdict(self._about), weights=self.actor.weights()
        )

    def train(self, data: Batches, job: ImprovementJob, steps: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Train in place, yielding (steps done, figures); a killed run goes on to the same bytes."""
        settings = self._settings
        keep = 1 - settings.target_follow
        first = CosineSchedule(first=settings.learning_rate, last=0.1 * settings.learning_rate, steps=steps)
        twins = [SmallNetwork(_widths(net), 0) for net in (self.actor, *self._critics)]
        actor, critic = (
            AveragedAdam(self.actor.parameters(), first, keep),
            AveragedAdam(self._critics.parameters(), first, keep),
        )
        actor.share_average(twins[0].parameters())
        critic.share_average(p for twin in twins[1:] for p in twin.parameters())
        path, digest, begun = job.work / "checkpoint.safetensors", job_digest(job), 0
        if (found := read_checkpoint(path, digest)) is not None:
            table, begun = found
            actor.restore("actor", table)
            critic.restore("critic", table)
        for step in range(begun, steps):
            random = np.random.default_rng((self._seed, 23, step))
            rows = torch.from_numpy(random.integers(len(data), size=settings.batch))
            shaken = random.standard_normal((settings.batch, self._sent), dtype=np.float32) * settings.target_noise
            noise = torch.from_numpy(shaken.clip(-2 * settings.target_noise, 2 * settings.target_noise))
            loss = self._critic_loss(data, rows, noise, twins)
            critic.minimise(loss, step)
            if step % settings.actor_every == 0:
                actor.minimise(self._actor_loss(data, rows), step // settings.actor_every)
            done = step + 1
            if done % REPORT_STEPS and done < steps:
                continue
            metrics = self._metrics(float(loss.detach()), data, rows)
            if done % CHECKPOINT_STEPS == 0 or done == steps:
                write_checkpoint(path, actor.tensors("actor") | critic.tensors("critic"), digest, done)
            yield done, metrics

    @property
    def _about(self) -> Correction:
        return Correction(reach=self._settings.reach, frequencies=self._settings.frequencies)

    def _corrected(self, rows: Tensor, network: nn.Module) -> tuple[Tensor, Tensor]:
        """(commands, correction), normalised, (B, execute * action_dim)."""
        moved = self._settings.reach * torch.tanh(network(rows))
        return rows[:, self._wide :] + moved, moved

    def _values(self, rows: Tensor, commands: Tensor, critics: list[SmallNetwork]) -> Tensor:
        """The lower of the critics' values (B,)."""
        seen = torch.cat((rows[:, : self._wide], commands), dim=1)
        return torch.stack([critic(seen).squeeze(-1) for critic in critics]).amin(dim=0)

    def _critic_loss(self, data: Batches, rows: Tensor, noise: Tensor, twins: list[SmallNetwork]) -> Tensor:
        with torch.no_grad():
            later = data.later[rows]
            commands, _ = self._corrected(later, twins[0])
            value = self._values(later, commands + noise, twins[1:]).clamp(0, 1)
            aim = data.reward[rows] + self._settings.discount * data.goes_on[rows] * value
        seen = torch.cat((data.now[rows][:, : self._wide], data.sent[rows]), dim=1)
        said = torch.stack([critic(seen).squeeze(-1) for critic in self._critics])
        return (said - aim).square().mean(dim=1).sum()

    def _actor_loss(self, data: Batches, rows: Tensor) -> Tensor:
        now = data.now[rows]
        commands, moved = self._corrected(now, self.actor)
        critic = self._critics[0]
        assert isinstance(critic, SmallNetwork)
        value = self._values(now, commands, [critic])
        # TD3+BC's scale (arXiv 2106.06860): the price of a correction means the same for small and large values.
        return -value.mean() / value.detach().abs().mean().clamp(min=1e-3) + self._settings.calm * moved.square().mean()

    def _metrics(self, loss: float, data: Batches, rows: Tensor) -> dict[str, float]:
        if not math.isfinite(loss):
            raise LearningProblem(f"The critics' loss is {loss}; lower learning_rate.")
        with torch.no_grad():
            commands, moved = self._corrected(data.now[rows], self.actor)
            critics = [critic for critic in self._critics if isinstance(critic, SmallNetwork)]
            value = self._values(data.now[rows], commands, critics)
        return {"loss": loss, "value": float(value.mean()), "correction": float(moved.square().mean().sqrt())}


def _widths(network: nn.Module) -> tuple[int, ...]:
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return (layers[0].in_features, *(layer.out_features for layer in layers))
