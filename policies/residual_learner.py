"""Residual online reinforcement learning: TD3 (Fujimoto et al., arXiv 1802.09477) on a frozen base policy.

The actor corrects the base policy's actions by at most `reach`; two critics evaluate the corrected actions. Exploration
comes from the base policy's noise. The replay holds every recorded decision, of experts and operators too.
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
from enpire.shares import require_share
from enpire.types import FloatArray
from policies import flow_policy, residual
from policies.bounds import above_zero, at_least
from policies.clone import job_digest, prepare, write_version
from policies.flow_network import SmallNetwork
from policies.flow_policy import AddedNetwork, FlowPolicy, FlowVersion
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS, SMOKE_STEPS
from policies.optimizer import AveragedAdam, CosineSchedule, read_checkpoint, write_checkpoint
from policies.replay import Replay, recent_episodes, replay_of
from policies.residual import Correction, correction_inputs
from policies.training_data import read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualSettings:
    """Settings of a recipe for residual reinforcement learning."""

    reach: float = 0.5
    """Largest correction, in standard deviations of each command."""
    discount: float = 0.97
    """Discount factor per decision."""
    batch: int = 256
    least_steps: int = 500
    most_steps: int = 2500
    passes: float = 60.0
    """Gradient steps, as passes over the replay."""
    learning_rate: float = 1e-3
    hidden: int = 128
    frequencies: int = 1
    target_follow: float = 0.01
    """Share by which the target networks move at each step."""
    target_noise: float = 0.1
    """Standard deviation of the smoothing noise on the target's action; clipped at twice that."""
    actor_every: int = 2
    """Steps of the critics for one of the actor (TD3's delayed policy updates)."""
    calm: float = 0.05
    """Weight of the squared correction in the actor's loss."""
    window_rounds: int = 4
    """Policy episodes this many rounds older than the newest are dropped."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        at_least(1, self, "batch least_steps most_steps hidden actor_every window_rounds")
        at_least(0, self, "calm target_noise frequencies")
        above_zero(self, "learning_rate passes")
        require_share("discount", self.discount, "(0, 1)")
        require_share("target_follow", self.target_follow, "(0, 1]")
        if not 0 < self.reach < 10:
            raise ValueError(f"reach must be in (0, 10), not {self.reach:g}.")

    def steps(self, decisions: int) -> int:
        """Gradient steps for this number of decisions."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.passes * decisions / self.batch)))


class ResidualTd3:
    """The learner of residual reinforcement learning."""

    settings: ClassVar = ResidualSettings
    smoke: ClassVar = SMOKE_STEPS
    parent_kinds: ClassVar = flow_policy.KINDS

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train critics and correction; the version holds the base policy unchanged. Returns the metrics."""
        settings = settings_of(self.settings, job.recipe)
        if job.parent is None:
            raise LearningProblem(
                "A residual policy corrects a base policy, and this job has no parent; clone a base first."
            )
        prepare(job)
        version = flow_policy.read(job.parent)
        replay = replay_of(recent_episodes(read_episodes(job.episodes), settings.window_rounds), version.shape.execute)
        if not replay.reward.any():
            raise LearningProblem(
                "No decision has a reward: there is neither a demonstration nor a success; collect more episodes."
            )
        networks = ResidualActorCritic(version, settings, job.seed)
        networks.load_correction(job.parent)
        metrics = {"decisions": float(len(replay)), "rewarded": float(replay.reward.sum())}
        steps = settings.steps(len(replay))
        for done, latest in networks.train(ReplayBatches(version, replay, settings, job.seed), job, steps):
            metrics |= latest
            report(Progress(stage="actor", done=done, total=steps, metrics=latest))
        write_version(version, job.output, networks.added_network())
        return metrics | {"steps": float(steps)}


class ReplayBatches:
    """The N transitions of the replay as tensors, with the base policy's actions at both ends; float32, normalised.

    `state` and `next_state` are (N, features), `action` is (N, execute * action_dim), `reward` and `not_terminal` (N,).
    """

    def __init__(self, version: FlowVersion, replay: Replay, settings: ResidualSettings, seed: int) -> None:
        """`seed`: of the base policy's noise."""
        about = Correction(reach=settings.reach, frequencies=settings.frequencies)
        random = np.random.default_rng((seed, 19))
        base, shape = FlowPolicy(version), version.shape

        def rows(state: FloatArray) -> Tensor:
            noise = random.standard_normal((len(state), shape.chunk_dim)).astype(np.float32) * version.temperature
            proposed = base.integrate(state, noise)[:, : shape.execute * shape.action_dim]
            return torch.from_numpy(correction_inputs(version, about, state, proposed))

        self.state, self.next_state = rows(replay.state), rows(replay.next_state)
        sent = version.action.forward(replay.action).reshape(len(replay), -1)
        self.action = torch.from_numpy(np.ascontiguousarray(sent, np.float32))
        self.reward = torch.from_numpy(replay.reward)
        self.not_terminal = torch.from_numpy(1 - replay.terminal.astype(np.float32))

    def __len__(self) -> int:
        """N."""
        return len(self.reward)


class ResidualActorCritic:
    """The correction (the actor) and its two critics; their moving averages are the target networks."""

    def __init__(self, version: FlowVersion, settings: ResidualSettings, seed: int) -> None:
        """New networks; the correction starts near 0."""
        shape = version.shape
        self._settings, self._seed = settings, seed
        self._action_size = shape.execute * shape.action_dim
        wide = shape.state_dim * (1 + 2 * settings.frequencies)
        self._state_size = wide
        hidden = (settings.hidden, settings.hidden)
        self.actor = SmallNetwork((wide + self._action_size, *hidden, self._action_size), seed, last=0.01)
        self._critics = nn.ModuleList(
            SmallNetwork((wide + self._action_size, *hidden, 1), seed + 1 + i) for i in range(2)
        )

    def load_correction(self, parent: Path) -> None:
        """Load the correction of a parent that has one of the same shape; otherwise keep the new one."""
        document = json.loads((parent / "policy.json").read_text(encoding="utf-8"))
        if document.get("kind") != residual.KIND or document["residual"] != asdict(self._about):
            return
        _, added = flow_policy.read_added_network(parent, residual.KIND, residual.KEY)
        if {name: value.shape for name, value in added.weights.items()} == {
            name: value.shape for name, value in self.actor.weights().items()
        }:
            self.actor.load_weights(added.weights)

    def added_network(self) -> AddedNetwork:
        """The correction as an added network of the version."""
        return AddedNetwork(
            kind=residual.KIND, key=residual.KEY, about=asdict(self._about), weights=self.actor.weights()
        )

    def train(self, data: ReplayBatches, job: ImprovementJob, steps: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Train in place; a killed and resumed run ends with the same bytes.

        Yields:
            (steps done, metrics) every REPORT_STEPS and at the last step.
        """
        settings = self._settings
        keep = 1 - settings.target_follow
        rate = CosineSchedule(first=settings.learning_rate, last=0.1 * settings.learning_rate, steps=steps)
        targets = [SmallNetwork(_widths(net), 0) for net in (self.actor, *self._critics)]
        actor, critic = (
            AveragedAdam(self.actor.parameters(), rate, keep),
            AveragedAdam(self._critics.parameters(), rate, keep),
        )
        actor.share_average(targets[0].parameters())
        critic.share_average(p for target in targets[1:] for p in target.parameters())
        path, digest, first_step = job.work / "checkpoint.safetensors", job_digest(job), 0
        if (found := read_checkpoint(path, digest)) is not None:
            table, first_step = found
            actor.restore("actor", table)
            critic.restore("critic", table)
        for step in range(first_step, steps):
            random = np.random.default_rng((self._seed, 23, step))
            rows = torch.from_numpy(random.integers(len(data), size=settings.batch))
            smoothing = (
                random.standard_normal((settings.batch, self._action_size), dtype=np.float32) * settings.target_noise
            )
            noise = torch.from_numpy(smoothing.clip(-2 * settings.target_noise, 2 * settings.target_noise))
            loss = self._critic_loss(data, rows, noise, targets)
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
        """Corrected actions and corrections of inputs (B, features), both (B, execute * action_dim), normalised."""
        correction = self._settings.reach * torch.tanh(network(rows))
        return rows[:, self._state_size :] + correction, correction

    def _values(self, rows: Tensor, commands: Tensor, critics: list[SmallNetwork]) -> Tensor:
        """The minimum of the critics' values (B,) (clipped double Q-learning of TD3)."""
        seen = torch.cat((rows[:, : self._state_size], commands), dim=1)
        return torch.stack([critic(seen).squeeze(-1) for critic in critics]).amin(dim=0)

    def _critic_loss(self, data: ReplayBatches, rows: Tensor, noise: Tensor, targets: list[SmallNetwork]) -> Tensor:
        with torch.no_grad():
            later = data.next_state[rows]
            commands, _ = self._corrected(later, targets[0])
            value = self._values(later, commands + noise, targets[1:]).clamp(0, 1)
            target_value = data.reward[rows] + self._settings.discount * data.not_terminal[rows] * value
        seen = torch.cat((data.state[rows][:, : self._state_size], data.action[rows]), dim=1)
        values = torch.stack([critic(seen).squeeze(-1) for critic in self._critics])
        return (values - target_value).square().mean(dim=1).sum()

    def _actor_loss(self, data: ReplayBatches, rows: Tensor) -> Tensor:
        now = data.state[rows]
        commands, correction = self._corrected(now, self.actor)
        critic = self._critics[0]
        assert isinstance(critic, SmallNetwork)
        value = self._values(now, commands, [critic])
        # Normalised as in TD3+BC (arXiv 2106.06860), so that `calm` does not depend on the scale of the values.
        return (
            -value.mean() / value.detach().abs().mean().clamp(min=1e-3)
            + self._settings.calm * correction.square().mean()
        )

    def _metrics(self, loss: float, data: ReplayBatches, rows: Tensor) -> dict[str, float]:
        if not math.isfinite(loss):
            raise LearningProblem(f"The critics' loss is {loss}; it must be finite, so lower learning_rate.")
        with torch.no_grad():
            commands, correction = self._corrected(data.state[rows], self.actor)
            critics = [critic for critic in self._critics if isinstance(critic, SmallNetwork)]
            value = self._values(data.state[rows], commands, critics)
        return {"loss": loss, "value": float(value.mean()), "correction": float(correction.square().mean().sqrt())}


def _widths(network: nn.Module) -> tuple[int, ...]:
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return (layers[0].in_features, *(layer.out_features for layer in layers))
