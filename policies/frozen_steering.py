"""DSRL beside a frozen policy that is too slow to ask at every gradient step, such as SmolVLA.

The learner of `steered_learner` asks the flow policy for an action at each step. Here every recorded decision is asked
once, with a few noises, and the table of actions is kept. Three networks learn from it: two critics of actions, whose
targets take the value of the next decision from the critic of noises; the critic of noises, by regression on the values
of the table's actions; and the actor, which maximises it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from enpire.errors import LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.types import FloatArray, Observation
from policies.actor_critic import (
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
from policies.flow_network import SmallNetwork
from policies.frozen_policy import Recorded, ask_once, write_beside
from policies.lerobot_features import read_beside
from policies.lerobot_files import STEERING_FILE, LerobotSteering, load_parts
from policies.lerobot_noise import LerobotNoise
from policies.lerobot_policy import cameras_of
from policies.normalise import Scale
from policies.replay import Replay, recent_episodes, replay_of
from policies.steered_learner import SteeringSettings
from policies.training_data import read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a frozen policy answered for N recorded decisions and K noises each."""

    features: FloatArray
    """(N, width) float32."""
    noise: FloatArray
    """(N, K, noise_dim) float32."""
    action: FloatArray
    """(N, K, execute * action_dim) float32, units of the robot."""


def improve_frozen(
    job: ImprovementJob, settings: SteeringSettings, report: Callable[[Progress], None]
) -> Mapping[str, float]:  # fmt: skip
    """Train the network that picks the noise of the job's parent, a LeRobot policy; returns the metrics.

    Raises:
        LearningProblem: the parent takes no noise, or no decision has a reward.
    """
    parent = job.parent
    assert parent is not None
    parts = load_parts(parent)
    try:
        policy = LerobotNoise(parts)
    except PolicyProblem as problem:
        raise LearningProblem(str(problem)) from problem
    episodes = recent_episodes(read_episodes(job.episodes), settings.window_rounds)
    replay = require_reward(replay_of(episodes, policy.execute))
    noise = np.random.default_rng((job.seed, 31)).standard_normal(
        (len(replay), settings.noises, policy.noise_dim), np.float32
    )
    noise = np.clip(noise, -1, 1) * np.float32(settings.reach)

    def answer(row: int, observation: Observation) -> Mapping[str, FloatArray]:
        chunks = policy.chunks_from(observation, noise[row])[:, : policy.execute]
        return {"features": policy.features(observation), "action": chunks.reshape(settings.noises, -1)}

    recorded = Recorded(job=job, replay=replay, episodes=episodes)
    table = ask_once(recorded, cameras_of(parts.policy.config), answer, report)
    answers = Answers(features=table["features"], noise=noise, action=table["action"])
    networks = FrozenActorCritic(replay, answers, settings, job.seed)
    networks.load_actor(parent)
    metrics = train(networks.learning(), replay, settings, job, report)
    steering = LerobotSteering(reach=settings.reach, spread=settings.spread)
    tensors = networks.actor.weights() | networks.scale.as_tensors("scale")
    write_beside(parent, replace(parts.about, steering=steering, refining=None), (STEERING_FILE, tensors), job.output)
    return metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One minibatch."""

    rows: Tensor
    """(B,) indices of decisions."""
    noise: Tensor
    """(B, noise_dim), standard normal: of the target's action."""
    which: Tensor
    """(B,) indices of the noises for which the policy was asked."""


class FrozenActorCritic:
    """The actor, two critics of actions and the critic of noises, over the answers of a frozen policy."""

    def __init__(self, replay: Replay, answers: Answers, settings: SteeringSettings, seed: int) -> None:
        """New networks; the actor starts near noise of 0."""
        self._settings, self._seed = settings, seed
        self.scale = Scale.of(answers.features)
        sent = replay.action.reshape(len(replay), -1)
        action = Scale.of(sent)
        state = self.scale.forward(answers.features).astype(np.float32)
        # The next decision of an episode is the next row; after the last one nothing follows.
        later = np.concatenate([state[1:], state[-1:]])
        self._state, self._later = torch.from_numpy(state), torch.from_numpy(later)
        self._action = torch.from_numpy(action.forward(sent).astype(np.float32))
        self._table = torch.from_numpy(action.forward(answers.action).astype(np.float32))
        self._noise = torch.from_numpy(answers.noise)
        self._reward = torch.from_numpy(replay.reward)
        self._not_terminal = torch.from_numpy(1 - replay.terminal.astype(np.float32))
        wide, hidden, noises = state.shape[1], (settings.hidden, settings.hidden), answers.noise.shape[2]
        self.actor = SmallNetwork((wide, *hidden, noises), seed, last=0.01)
        self._critics = critics_of(wide + sent.shape[1], settings, seed + 1)
        self._noise_critic = SmallNetwork((wide + noises, *hidden, 1), seed + 3)
        self._actor_target, self._noise_target = target_of(self.actor), target_of(self._noise_critic)

    def load_actor(self, parent: Path) -> None:
        """Load the network of a parent that has one of the same shape, with its scale; otherwise keep the new one."""
        path = parent / STEERING_FILE
        if not path.is_file():
            return
        weights = read_beside(path)
        scale = Scale.pop("scale", weights, str(path))
        if self.actor.load_if_same_shape(weights):
            raw = self._state.numpy() * self.scale.spread + self.scale.mean
            state = torch.from_numpy(scale.forward(raw).astype(np.float32))
            self.scale, self._state, self._later = scale, state, torch.cat([state[1:], state[-1:]])

    def learning(self) -> Learning[Drawn]:
        """What a run trains."""
        return Learning(
            trained={
                "critic": Trained(network=self._critics, loss=self._critic_loss),
                "noise": Trained(network=self._noise_critic, loss=self._noise_loss, targets=[self._noise_target]),
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
        rows = random.integers(len(self._reward), size=batch)
        noise = random.standard_normal((batch, self._noise.shape[2]), np.float32)
        which = random.integers(self._noise.shape[1], size=batch)
        return Drawn(rows=torch.from_numpy(rows), noise=torch.from_numpy(noise), which=torch.from_numpy(which))

    def _mean(self, state: Tensor, network: nn.Module) -> Tensor:
        return self._settings.reach * torch.tanh(network(state))

    def _critic_loss(self, drawn: Drawn) -> Tensor:
        rows = drawn.rows
        with torch.no_grad():
            later = self._later[rows]
            noise = self._mean(later, self._actor_target) + self._settings.spread * drawn.noise
            value = least(torch.cat((later, noise), dim=1), [self._noise_target]).clamp(0, 1)
            wanted = self._reward[rows] + self._settings.discount * self._not_terminal[rows] * value
        return regression(torch.cat((self._state[rows], self._action[rows]), dim=1), wanted, self._critics)

    def _noise_loss(self, drawn: Drawn) -> Tensor:
        """Regression of the value of the action that the policy made of a noise."""
        rows, which = drawn.rows, drawn.which
        state = self._state[rows]
        with torch.no_grad():
            wanted = least(torch.cat((state, self._table[rows, which]), dim=1), self._critics)
        return regression(torch.cat((state, self._noise[rows, which]), dim=1), wanted, [self._noise_critic])

    def _actor_loss(self, drawn: Drawn) -> Tensor:
        state = self._state[drawn.rows]
        mean = self._mean(state, self.actor)
        value = self._noise_critic(torch.cat((state, mean), dim=1)).squeeze(-1)
        return gain(value) + self._settings.calm * mean.square().mean()

    def _measure(self, drawn: Drawn) -> dict[str, float]:
        state = self._state[drawn.rows]
        with torch.no_grad():
            mean = self._mean(state, self.actor)
            value = self._noise_critic(torch.cat((state, mean), dim=1)).mean()
            own = least(torch.cat((state, self._table[drawn.rows, drawn.which]), dim=1), self._critics).mean()
        return {
            "value": float(value), "value_gain": float(value - own), "noise": float(mean.square().mean().sqrt())
        }  # fmt: skip
