"""DSRL: an actor picks the noise of a frozen flow policy (Wagenmaker et al., arXiv 2506.15799, with noise aliasing).

Two critics learn the value of actions from recorded decisions, as TD3 does. A third network learns, by regression, the
value of the action that the flow policy makes of a noise; the actor maximises it. So no gradient passes through the
flow policy, and the recorded decisions need not hold the noise that they were made of.
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
from enpire.store.versions import manifest
from enpire.types import FloatArray
from policies import flow_policy, steered
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
from policies.flow_network import FlowNetwork, SmallNetwork
from policies.flow_policy import AddedNetwork, FlowVersion
from policies.flow_shape import FlowShape
from policies.flow_training import SMOKE_STEPS
from policies.normalise import fourier
from policies.replay import Replay, recent_episodes, replay_of
from policies.steered import Steering, steering_inputs
from policies.training_data import read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringSettings(ActorCriticSettings):
    """Settings of a recipe for steering."""

    reach: float = 2.0
    """Largest mean of the noise, in standard deviations of the flow policy's own noise."""
    spread: float = 0.3
    """Standard deviation of the noise around its mean: the exploration of the version."""
    frequencies: int = 1
    noises: int = 4
    """Noises for which each decision of a frozen LeRobot policy is asked; flow policies are asked anew at each step."""
    calm: float = 0.02
    """Weight of the squared mean of the noise in the actor's loss."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        ActorCriticSettings.__post_init__(self)
        at_least(1, self, "noises")
        at_least(0, self, "calm spread frequencies")
        if not (0 < self.reach <= 10 and self.spread <= 10):
            raise ValueError(f"reach must be in (0, 10] and spread at most 10, not {self.reach:g} and {self.spread:g}.")


class Dsrl:
    """The learner of steering."""

    settings: ClassVar = SteeringSettings
    smoke: ClassVar = SMOKE_STEPS
    parent_kinds: ClassVar = flow_policy.KINDS | {"lerobot"}

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train critics and the noise network; the version holds the flow policy unchanged. Returns the metrics."""
        settings = settings_of(self.settings, job.recipe)
        if job.parent is None:
            raise LearningProblem(
                "A steered policy needs a flow policy, and this job has no parent; clone a base first."
            )
        prepare(job)
        if manifest(job.parent)["kind"] == "lerobot":
            from policies.frozen_steering import improve_frozen

            return improve_frozen(job, settings, report)
        version = flow_policy.read(job.parent)
        if version.shape.indicator and version.guidance != 1:
            raise LearningProblem(
                f"The parent enlarges its indicator (guidance {version.guidance:g}); steer a version with guidance 1."
            )
        episodes = recent_episodes(read_episodes(job.episodes), settings.window_rounds)
        replay = require_reward(replay_of(episodes, version.shape.execute))
        networks = NoiseActorCritic(version, SteeringBatches(version, replay, settings), settings, job.seed)
        networks.load_actor(job.parent)
        metrics = train(networks.learning(), replay, settings, job, report)
        write_version(version, job.output, networks.added_network())
        return metrics


class SteeringBatches:
    """The N transitions of the replay as tensors; float32, normalised.

    `state` and `next_state` are (N, features) of the networks, `flow` and `next_flow` (N, state_features) of the flow
    policy, `action` (N, execute * action_dim), `reward` and `not_terminal` (N,).
    """

    def __init__(self, version: FlowVersion, replay: Replay, settings: SteeringSettings) -> None:
        about = _about(settings)

        def tensors(state: FloatArray) -> tuple[Tensor, Tensor]:
            flow = fourier(version.state.forward(state.astype(np.float32)), version.shape.frequencies)
            return torch.from_numpy(steering_inputs(version, about, state)), torch.from_numpy(flow)

        self.state, self.flow = tensors(replay.state)
        self.next_state, self.next_flow = tensors(replay.next_state)
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
    """(2, B, chunk_dim), standard normal: of the target's action, and of the critic of noises."""


class NoiseActorCritic:
    """The noise network (the actor), two critics of actions, and the critic of noises."""

    def __init__(self, version: FlowVersion, data: SteeringBatches, settings: SteeringSettings, seed: int) -> None:
        """New networks; the actor starts near noise of 0."""
        shape = version.shape
        self._version, self._data, self._settings, self._seed = version, data, settings, seed
        self._noise_size, self._action_size = shape.chunk_dim, shape.execute * shape.action_dim
        wide, hidden = shape.state_dim * (1 + 2 * settings.frequencies), (settings.hidden, settings.hidden)
        self.actor = SmallNetwork((wide, *hidden, self._noise_size), seed, last=0.01)
        self._critics = critics_of(wide + self._action_size, settings, seed + 1)
        self._noise_critic = SmallNetwork((wide + self._noise_size, *hidden, 1), seed + 3)
        self._actor_target = target_of(self.actor)
        self._critic_targets = [target_of(critic) for critic in self._critics]
        plain = FlowShape(**(asdict(shape) | {"indicator": False}))
        self._flow = FlowNetwork(plain, seed)
        self._flow.load_weights(version.weights_for(plain))
        self._flow.requires_grad_(False)

    def load_actor(self, parent: Path) -> None:
        """Load the noise network of a parent that has one of the same shape; otherwise keep the new one."""
        document = json.loads((parent / "policy.json").read_text(encoding="utf-8"))
        if document.get("kind") != steered.KIND or document[steered.KEY] != asdict(_about(self._settings)):
            return
        _, added = flow_policy.read_added_network(parent, steered.KIND, steered.KEY)
        self.actor.load_if_same_shape(added.weights)

    def added_network(self) -> AddedNetwork:
        """The noise network as an added network of the version."""
        about = asdict(_about(self._settings))
        return AddedNetwork(kind=steered.KIND, key=steered.KEY, about=about, weights=self.actor.weights())

    def learning(self) -> Learning[Drawn]:
        """What a run trains."""
        return Learning(
            trained={
                "critic": Trained(network=self._critics, loss=self._critic_loss, targets=self._critic_targets),
                "noise": Trained(network=self._noise_critic, loss=self._noise_loss),
                "actor": Trained(
                    network=self.actor, loss=self._actor_loss, targets=[self._actor_target],
                    every=self._settings.actor_every,
                ),
            },
            draw=self._draw,
            measure=self._measure,
        )  # fmt: skip

    def _draw(self, step: int) -> Drawn:
        random, batch = np.random.default_rng((self._seed, 29, step)), self._settings.batch
        rows = random.integers(len(self._data), size=batch)
        noise = random.standard_normal((2, batch, self._noise_size), np.float32)
        return Drawn(rows=torch.from_numpy(rows), noise=torch.from_numpy(noise))

    def _act(self, flow: Tensor, noise: Tensor) -> Tensor:
        """The flow policy's executed actions (B, execute * action_dim) of noises (B, chunk_dim), normalised."""
        steps, chunk = self._flow.shape.euler_steps, noise * self._version.temperature
        with torch.no_grad():
            for step in range(steps):
                time = torch.full((len(chunk),), step / steps)
                chunk = chunk + self._flow(chunk, time, flow) / steps
        return chunk[:, : self._action_size]

    def _mean(self, state: Tensor, network: nn.Module) -> Tensor:
        return self._settings.reach * torch.tanh(network(state))

    def _critic_loss(self, drawn: Drawn) -> Tensor:
        data, rows = self._data, drawn.rows
        with torch.no_grad():
            later = data.next_state[rows]
            noise = self._mean(later, self._actor_target) + self._settings.spread * drawn.noise[0]
            seen = torch.cat((later, self._act(data.next_flow[rows], noise)), dim=1)
            value = least(seen, self._critic_targets).clamp(0, 1)
            wanted = data.reward[rows] + self._settings.discount * data.not_terminal[rows] * value
        return regression(torch.cat((data.state[rows], data.action[rows]), dim=1), wanted, self._critics)

    def _noise_loss(self, drawn: Drawn) -> Tensor:
        """Regression of the value of the action that the flow policy makes of a noise, over all noises in reach."""
        state, noise = self._data.state[drawn.rows], drawn.noise[1].clamp(-1, 1) * self._settings.reach
        with torch.no_grad():
            wanted = least(torch.cat((state, self._act(self._data.flow[drawn.rows], noise)), dim=1), self._critics)
        return regression(torch.cat((state, noise), dim=1), wanted, [self._noise_critic])

    def _actor_loss(self, drawn: Drawn) -> Tensor:
        state = self._data.state[drawn.rows]
        mean = self._mean(state, self.actor)
        value = self._noise_critic(torch.cat((state, mean), dim=1)).squeeze(-1)
        return gain(value) + self._settings.calm * mean.square().mean()

    def _measure(self, drawn: Drawn) -> dict[str, float]:
        state, flow = self._data.state[drawn.rows], self._data.flow[drawn.rows]
        with torch.no_grad():
            mean = self._mean(state, self.actor)
            value, own = (
                least(torch.cat((state, self._act(flow, noise)), dim=1), self._critics).mean()
                for noise in (mean, drawn.noise[1])
            )
        return {
            "value": float(value), "value_gain": float(value - own), "noise": float(mean.square().mean().sqrt())
        }  # fmt: skip


def _about(settings: SteeringSettings) -> Steering:
    return Steering(reach=settings.reach, spread=settings.spread, frequencies=settings.frequencies)
