"""DSRL: an actor picks the noise of a frozen flow policy (Wagenmaker et al., arXiv 2506.15799, with noise aliasing).

Two critics learn the value of actions from recorded decisions, as TD3 does. A third network learns, by regression, the
value of the action that the flow policy makes of a noise; the actor maximises it. So no gradient passes through the
flow policy, and the recorded decisions need not hold the noise that they were made of.
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
from enpire.store.versions import manifest
from enpire.types import FloatArray
from policies import flow_policy, steered
from policies.bounds import above_zero, at_least
from policies.clone import job_digest, prepare, write_version
from policies.flow_network import FlowNetwork, SmallNetwork
from policies.flow_policy import AddedNetwork, FlowVersion
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS, SMOKE_STEPS
from policies.normalise import fourier
from policies.optimizer import AveragedAdam, CosineSchedule, read_checkpoint, write_checkpoint
from policies.replay import Replay, recent_episodes, replay_of
from policies.steered import Steering, steering_inputs
from policies.training_data import read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringSettings:
    """Settings of a recipe for steering."""

    reach: float = 2.0
    """Largest mean of the noise, in standard deviations of the flow policy's own noise."""
    spread: float = 0.3
    """Standard deviation of the noise around its mean: the exploration of the version."""
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
    actor_every: int = 2
    """Steps of the critics for one of the actor."""
    noises: int = 4
    """Noises for which each decision of a frozen LeRobot policy is asked; flow policies are asked anew at each step."""
    calm: float = 0.02
    """Weight of the squared mean of the noise in the actor's loss."""
    window_rounds: int = 4
    """Policy episodes this many rounds older than the newest are dropped."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        at_least(1, self, "batch least_steps most_steps hidden actor_every window_rounds noises")
        at_least(0, self, "calm spread frequencies")
        above_zero(self, "learning_rate passes")
        require_share("discount", self.discount, "(0, 1)")
        require_share("target_follow", self.target_follow, "(0, 1]")
        if not (0 < self.reach <= 10 and self.spread <= 10):
            raise ValueError(f"reach must be in (0, 10] and spread at most 10, not {self.reach:g} and {self.spread:g}.")

    def steps(self, decisions: int) -> int:
        """Gradient steps for this number of decisions."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.passes * decisions / self.batch)))


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
        replay = replay_of(recent_episodes(read_episodes(job.episodes), settings.window_rounds), version.shape.execute)
        if not replay.reward.any():
            raise LearningProblem(
                "No decision has a reward: there is neither a demonstration nor a success; collect more episodes."
            )
        networks = NoiseActorCritic(version, settings, job.seed)
        networks.load_actor(job.parent)
        metrics = {"decisions": float(len(replay)), "rewarded": float(replay.reward.sum())}
        steps = settings.steps(len(replay))
        for done, latest in networks.train(SteeringBatches(version, replay, settings), job, steps):
            metrics |= latest
            report(Progress(stage="actor", done=done, total=steps, metrics=latest))
        write_version(version, job.output, networks.added_network())
        return metrics | {"steps": float(steps)}


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


class NoiseActorCritic:
    """The noise network (the actor), two critics of actions, and the critic of noises."""

    def __init__(self, version: FlowVersion, settings: SteeringSettings, seed: int) -> None:
        """New networks; the actor starts near noise of 0."""
        shape = version.shape
        self._version, self._settings, self._seed = version, settings, seed
        self._noise_size, self._action_size = shape.chunk_dim, shape.execute * shape.action_dim
        wide, hidden = shape.state_dim * (1 + 2 * settings.frequencies), (settings.hidden, settings.hidden)
        self.actor = SmallNetwork((wide, *hidden, self._noise_size), seed, last=0.01)
        self._critics = nn.ModuleList(
            SmallNetwork((wide + self._action_size, *hidden, 1), seed + 1 + i) for i in range(2)
        )
        self._noise_critic = SmallNetwork((wide + self._noise_size, *hidden, 1), seed + 3)
        plain = flow_policy.FlowShape(**(asdict(shape) | {"indicator": False}))
        self._flow = FlowNetwork(plain, seed)
        self._flow.load_weights(version.weights_for(plain))
        self._flow.requires_grad_(False)

    def load_actor(self, parent: Path) -> None:
        """Load the noise network of a parent that has one of the same shape; otherwise keep the new one."""
        document = json.loads((parent / "policy.json").read_text(encoding="utf-8"))
        if document.get("kind") != steered.KIND or document[steered.KEY] != asdict(_about(self._settings)):
            return
        _, added = flow_policy.read_added_network(parent, steered.KIND, steered.KEY)
        if {name: value.shape for name, value in added.weights.items()} == {
            name: value.shape for name, value in self.actor.weights().items()
        }:
            self.actor.load_weights(added.weights)

    def added_network(self) -> AddedNetwork:
        """The noise network as an added network of the version."""
        about = asdict(_about(self._settings))
        return AddedNetwork(kind=steered.KIND, key=steered.KEY, about=about, weights=self.actor.weights())

    def train(self, data: SteeringBatches, job: ImprovementJob, steps: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Train in place; a killed and resumed run ends with the same bytes.

        Yields:
            (steps done, metrics) every REPORT_STEPS and at the last step.
        """
        settings = self._settings
        keep = 1 - settings.target_follow
        rate = CosineSchedule(first=settings.learning_rate, last=0.1 * settings.learning_rate, steps=steps)
        targets = [SmallNetwork(widths_of(network), 0) for network in (self.actor, *self._critics)]
        actor, critic, noise_critic = (
            AveragedAdam(network.parameters(), rate, keep)
            for network in (self.actor, self._critics, self._noise_critic)
        )
        actor.share_average(targets[0].parameters())
        critic.share_average(p for target in targets[1:] for p in target.parameters())
        kept = {"actor": actor, "critic": critic, "noise": noise_critic}
        path, digest, first_step = job.work / "checkpoint.safetensors", job_digest(job), 0
        if (found := read_checkpoint(path, digest)) is not None:
            table, first_step = found
            for name, optimizer in kept.items():
                optimizer.restore(name, table)
        for step in range(first_step, steps):
            random = np.random.default_rng((self._seed, 29, step))
            rows = torch.from_numpy(random.integers(len(data), size=settings.batch))
            drawn = torch.from_numpy(random.standard_normal((2, settings.batch, self._noise_size), np.float32))
            loss = self._critic_loss(data, rows, drawn[0], targets)
            critic.minimise(loss, step)
            noise_critic.minimise(self._noise_loss(data, rows, drawn[1]), step)
            if step % settings.actor_every == 0:
                actor.minimise(self._actor_loss(data.state[rows]), step // settings.actor_every)
            done = step + 1
            if done % REPORT_STEPS and done < steps:
                continue
            metrics = self._metrics(float(loss.detach()), data, rows, drawn[1])
            if done % CHECKPOINT_STEPS == 0 or done == steps:
                tensors = {key: value for name, one in kept.items() for key, value in one.tensors(name).items()}
                write_checkpoint(path, tensors, digest, done)
            yield done, metrics

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

    def _critic_loss(self, data: SteeringBatches, rows: Tensor, drawn: Tensor, targets: list[SmallNetwork]) -> Tensor:
        with torch.no_grad():
            later = data.next_state[rows]
            noise = self._mean(later, targets[0]) + self._settings.spread * drawn
            value = least(torch.cat((later, self._act(data.next_flow[rows], noise)), dim=1), targets[1:]).clamp(0, 1)
            wanted = data.reward[rows] + self._settings.discount * data.not_terminal[rows] * value
        seen = torch.cat((data.state[rows], data.action[rows]), dim=1)
        values = torch.stack([critic(seen).squeeze(-1) for critic in self._critics])
        return (values - wanted).square().mean(dim=1).sum()

    def _noise_loss(self, data: SteeringBatches, rows: Tensor, drawn: Tensor) -> Tensor:
        """Regression of the value of the action that the flow policy makes of a noise, over all noises in reach."""
        state, noise = data.state[rows], drawn.clamp(-1, 1) * self._settings.reach
        with torch.no_grad():
            wanted = least(torch.cat((state, self._act(data.flow[rows], noise)), dim=1), self._small_critics())
        found = self._noise_critic(torch.cat((state, noise), dim=1)).squeeze(-1)
        return (found - wanted).square().mean()

    def _actor_loss(self, state: Tensor) -> Tensor:
        mean = self._mean(state, self.actor)
        value = self._noise_critic(torch.cat((state, mean), dim=1)).squeeze(-1)
        # Normalised as in TD3+BC (arXiv 2106.06860), so that `calm` does not depend on the scale of the values.
        return -value.mean() / value.detach().abs().mean().clamp(min=1e-3) + self._settings.calm * mean.square().mean()

    def _small_critics(self) -> list[SmallNetwork]:
        return [critic for critic in self._critics if isinstance(critic, SmallNetwork)]

    def _metrics(self, loss: float, data: SteeringBatches, rows: Tensor, drawn: Tensor) -> dict[str, float]:
        if not math.isfinite(loss):
            raise LearningProblem(f"The critics' loss is {loss}; it must be finite, so lower learning_rate.")
        state, flow = data.state[rows], data.flow[rows]
        with torch.no_grad():
            mean = self._mean(state, self.actor)
            value, own = (
                least(torch.cat((state, self._act(flow, noise)), dim=1), self._small_critics()).mean()
                for noise in (mean, drawn)
            )
        return {
            "loss": loss, "value": float(value), "value_gain": float(value - own),
            "noise": float(mean.square().mean().sqrt()),
        }  # fmt: skip


def _about(settings: SteeringSettings) -> Steering:
    return Steering(reach=settings.reach, spread=settings.spread, frequencies=settings.frequencies)


def least(seen: Tensor, critics: list[SmallNetwork]) -> Tensor:
    """The minimum of the critics' values (B,) (clipped double Q-learning of TD3)."""
    return torch.stack([critic(seen).squeeze(-1) for critic in critics]).amin(dim=0)


def widths_of(network: nn.Module) -> tuple[int, ...]:
    """The widths from which `SmallNetwork` makes a network like this one."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return (layers[0].in_features, *(layer.out_features for layer in layers))
