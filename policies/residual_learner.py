"""Residual online reinforcement learning: TD3 (Fujimoto et al., arXiv 1802.09477) on a frozen base policy.

The actor corrects the base policy's actions by at most `reach`; two critics evaluate the corrected actions. Exploration
comes from the base policy's noise. The replay holds every recorded decision, of experts and operators too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
from policies.actor_critic import (
    ActorCriticSettings,
    Learning,
    Trained,
    critics_of,
    gain,
    least,
    regression,
    require_reward,
    target_of,
    train,
)
from policies.bounds import at_least
from policies.clone import prepare, write_version
from policies.flow_network import SmallNetwork
from policies.flow_policy import AddedNetwork, FlowPolicy, FlowVersion
from policies.flow_training import SMOKE_STEPS
from policies.replay import Replay, recent_episodes, replay_of
from policies.residual import Correction, correction_inputs
from policies.training_data import read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualSettings(ActorCriticSettings):
    """Settings of a recipe for residual reinforcement learning."""

    reach: float = 0.5
    """Largest correction, in standard deviations of each command."""
    frequencies: int = 1
    target_noise: float = 0.1
    """Standard deviation of the smoothing noise on the target's action; clipped at twice that."""
    calm: float = 0.05
    """Weight of the squared correction in the actor's loss."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        ActorCriticSettings.__post_init__(self)
        at_least(0, self, "calm target_noise frequencies")
        if not 0 < self.reach < 10:
            raise ValueError(f"reach must be in (0, 10), not {self.reach:g}.")


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
        episodes = recent_episodes(read_episodes(job.episodes), settings.window_rounds)
        replay = require_reward(replay_of(episodes, version.shape.execute))
        networks = ResidualActorCritic(version, ReplayBatches(version, replay, settings, job.seed), settings, job.seed)
        networks.load_correction(job.parent)
        metrics = train(networks.learning(), replay, settings, job, report)
        write_version(version, job.output, networks.added_network())
        return metrics


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One minibatch."""

    rows: Tensor
    """(B,) indices of decisions."""
    noise: Tensor
    """(B, execute * action_dim), the smoothing noise on the target's action."""


class ResidualActorCritic:
    """The correction (the actor) and its two critics; their moving averages are the target networks."""

    def __init__(self, version: FlowVersion, data: ReplayBatches, settings: ResidualSettings, seed: int) -> None:
        """New networks; the correction starts near 0."""
        shape = version.shape
        self._data, self._settings, self._seed = data, settings, seed
        self._action_size = shape.execute * shape.action_dim
        self._state_size = shape.state_dim * (1 + 2 * settings.frequencies)
        wide, hidden = self._state_size + self._action_size, (settings.hidden, settings.hidden)
        self.actor = SmallNetwork((wide, *hidden, self._action_size), seed, last=0.01)
        self._critics = critics_of(wide, settings, seed + 1)
        self._actor_target = target_of(self.actor)
        self._critic_targets = [target_of(critic) for critic in self._critics]

    def load_correction(self, parent: Path) -> None:
        """Load the correction of a parent that has one of the same shape; otherwise keep the new one."""
        document = json.loads((parent / "policy.json").read_text(encoding="utf-8"))
        if document.get("kind") != residual.KIND or document["residual"] != asdict(self._about):
            return
        _, added = flow_policy.read_added_network(parent, residual.KIND, residual.KEY)
        self.actor.load_if_same_shape(added.weights)

    def added_network(self) -> AddedNetwork:
        """The correction as an added network of the version."""
        return AddedNetwork(
            kind=residual.KIND, key=residual.KEY, about=asdict(self._about), weights=self.actor.weights()
        )

    def learning(self) -> Learning[Drawn]:
        """What a run trains."""
        return Learning(
            trained={
                "critic": Trained(network=self._critics, loss=self._critic_loss, targets=self._critic_targets),
                "actor": Trained(
                    network=self.actor, loss=self._actor_loss, targets=[self._actor_target],
                    every=self._settings.actor_every,
                ),
            },
            draw=self._draw,
            measure=self._measure,
        )  # fmt: skip

    @property
    def _about(self) -> Correction:
        return Correction(reach=self._settings.reach, frequencies=self._settings.frequencies)

    def _draw(self, step: int) -> Drawn:
        random, settings = np.random.default_rng((self._seed, 23, step)), self._settings
        rows = random.integers(len(self._data), size=settings.batch)
        noise = random.standard_normal((settings.batch, self._action_size), dtype=np.float32) * settings.target_noise
        noise = noise.clip(-2 * settings.target_noise, 2 * settings.target_noise)
        return Drawn(rows=torch.from_numpy(rows), noise=torch.from_numpy(noise))

    def _corrected(self, rows: Tensor, network: nn.Module) -> tuple[Tensor, Tensor]:
        """Corrected actions and corrections of inputs (B, features), both (B, execute * action_dim), normalised."""
        correction = self._settings.reach * torch.tanh(network(rows))
        return rows[:, self._state_size :] + correction, correction

    def _seen(self, rows: Tensor, commands: Tensor) -> Tensor:
        """The critics' inputs."""
        return torch.cat((rows[:, : self._state_size], commands), dim=1)

    def _critic_loss(self, drawn: Drawn) -> Tensor:
        data, rows = self._data, drawn.rows
        with torch.no_grad():
            later = data.next_state[rows]
            commands, _ = self._corrected(later, self._actor_target)
            value = least(self._seen(later, commands + drawn.noise), self._critic_targets).clamp(0, 1)
            wanted = data.reward[rows] + self._settings.discount * data.not_terminal[rows] * value
        return regression(self._seen(data.state[rows], data.action[rows]), wanted, self._critics)

    def _actor_loss(self, drawn: Drawn) -> Tensor:
        now = self._data.state[drawn.rows]
        commands, correction = self._corrected(now, self.actor)
        value = least(self._seen(now, commands), self._critics[:1])
        return gain(value) + self._settings.calm * correction.square().mean()

    def _measure(self, drawn: Drawn) -> dict[str, float]:
        now = self._data.state[drawn.rows]
        with torch.no_grad():
            commands, correction = self._corrected(now, self.actor)
            value = least(self._seen(now, commands), self._critics)
        return {"value": float(value.mean()), "correction": float(correction.square().mean().sqrt())}
