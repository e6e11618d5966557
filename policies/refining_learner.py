"""RLT: a small actor-critic beside a frozen policy (RL Token, Xu et al., Physical Intelligence, 2026).

The frozen policy gives the features of each recorded decision and the chunks that it would send itself, the references.
An ensemble of critics learns the value of sent chunks from the outcomes of episodes. The actor sees features and
reference, and gives the chunk to send: the one with the highest value, with a penalty on the distance from the
reference, or from what a person or the expert sent where one commanded. The target's noise is not clipped as TD3's is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.store.versions import manifest
from enpire.types import FloatArray, Observation
from policies import flow_policy, refined
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
from policies.flow_policy import AddedNetwork, FlowPolicy
from policies.flow_training import SMOKE_STEPS
from policies.normalise import Scale
from policies.refined import Refining
from policies.replay import Replay, recent_episodes, replay_of
from policies.training_data import RecordedEpisode, read_episodes


@dataclass(frozen=True, slots=True, kw_only=True)
class RefiningSettings(ActorCriticSettings):
    """Settings of a recipe for refining."""

    anchor: float = 0.2
    """Weight of the squared distance of the chunk from its reference in the actor's loss; the distance is in standard
    deviations of each command."""
    spread: float = 0.05
    """Standard deviation of the noise on the refined actions, in standard deviations of each command: exploration. It
    also smooths the target's action."""
    critics: int = 4
    """Critics of the ensemble; the lowest of their values counts."""
    references: int = 4
    """Chunks that the frozen policy is asked for at each decision."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        ActorCriticSettings.__post_init__(self)
        at_least(1, self, "critics references")
        at_least(0, self, "anchor")
        if not 0 <= self.spread <= 1:
            raise ValueError(f"spread is {self.spread}; it must be in [0, 1].")


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What a frozen policy knows of N recorded decisions, and K chunks that it would send at each."""

    features: FloatArray
    """(N, width) float32."""
    chunk: FloatArray
    """(N, K, execute, action_dim) float32, units of the robot."""


class Rlt:
    """The learner of refining."""

    settings: ClassVar = RefiningSettings
    smoke: ClassVar = SMOKE_STEPS
    parent_kinds: ClassVar = flow_policy.KINDS | {"lerobot"}

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train critics and actor; the version holds the parent's policy unchanged. Returns the metrics."""
        settings = settings_of(self.settings, job.recipe)
        if job.parent is None:
            raise LearningProblem(
                "A refined policy needs a policy to refine, and this job has no parent; clone a base first."
            )
        prepare(job)
        episodes = recent_episodes(read_episodes(job.episodes), settings.window_rounds)
        refine = _refine_lerobot if manifest(job.parent)["kind"] == "lerobot" else _refine_flow
        return refine(job, job.parent, episodes, settings, report)


def _refine_flow(
    job: ImprovementJob, parent: Path, episodes: list[RecordedEpisode], settings: RefiningSettings,
    report: Callable[[Progress], None],
) -> Mapping[str, float]:  # fmt: skip
    version = flow_policy.read(parent)
    policy, shape = FlowPolicy(version), version.shape
    replay = require_reward(replay_of(episodes, shape.execute))
    for row in range(len(replay)):
        policy.begin(row, seed=_seed(job, row, 0))
    chunk = policy.sample(Observation(stamp_ns=0, state=replay.state), np.arange(len(replay)), settings.references)
    references = References(features=policy.features(replay.state), chunk=chunk[:, :, : shape.execute])
    scales = Scale.of(references.features), version.action
    tensors: dict[str, FloatArray] = {}
    if manifest(parent)["kind"] == refined.KIND:
        tensors = dict(flow_policy.read_added_network(parent, refined.KIND, refined.KEY)[1].weights)
        scales = Scale.pop("features", tensors, str(parent)), version.action
    networks = RefiningActorCritic(replay, references, scales, settings, job.seed)
    networks.actor.load_if_same_shape(tensors)
    metrics = train(networks.learning(), replay, settings, job, report)
    about = asdict(Refining(spread=settings.spread))
    weights = networks.actor.weights() | scales[0].as_tensors("features")
    write_version(version, job.output, AddedNetwork(kind=refined.KIND, key=refined.KEY, about=about, weights=weights))
    return metrics


def _refine_lerobot(
    job: ImprovementJob, parent: Path, episodes: list[RecordedEpisode], settings: RefiningSettings,
    report: Callable[[Progress], None],
) -> Mapping[str, float]:  # fmt: skip
    from policies.frozen_policy import Recorded, ask_once, write_beside
    from policies.lerobot_features import LerobotFeatures, read_beside
    from policies.lerobot_files import REFINING_FILE, load_parts
    from policies.lerobot_policy import cameras_of

    parts = load_parts(parent)
    try:
        policy = LerobotFeatures(parts)
    except PolicyProblem as problem:
        raise LearningProblem(str(problem)) from problem
    replay = require_reward(replay_of(episodes, policy.execute))

    def answer(row: int, observation: Observation) -> Mapping[str, FloatArray]:
        seeds = [_seed(job, row, which) for which in range(settings.references)]
        chunk = policy.chunks(observation, seeds)[:, : policy.execute]
        return {"features": policy.features(observation), "chunk": chunk}

    recorded = Recorded(job=job, replay=replay, episodes=episodes)
    table = ask_once(recorded, cameras_of(parts.policy.config), answer, report)
    references = References(features=table["features"], chunk=table["chunk"])
    scales = Scale.of(references.features), Scale.of(replay.action.reshape(-1, replay.action.shape[-1]))
    tensors: dict[str, FloatArray] = {}
    if (path := parent / REFINING_FILE).is_file():
        tensors = read_beside(path)
        scales = Scale.pop("features", tensors, str(path)), Scale.pop("action", tensors, str(path))
    networks = RefiningActorCritic(replay, references, scales, settings, job.seed)
    networks.actor.load_if_same_shape(tensors)
    metrics = train(networks.learning(), replay, settings, job, report)
    about = replace(parts.about, steering=None, refining=Refining(spread=settings.spread))
    weights = networks.actor.weights() | scales[0].as_tensors("features") | scales[1].as_tensors("action")
    write_beside(parent, about, (REFINING_FILE, weights), job.output)
    return metrics


def _seed(job: ImprovementJob, row: int, which: int) -> int:
    """The seed of the noise of one reference."""
    return int(np.random.default_rng((job.seed, 37, row, which)).integers(2**62))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One minibatch."""

    rows: Tensor
    """(B,) indices of decisions."""
    which: Tensor
    """(2, B) indices of references: at the decision, and at the next one."""
    noise: Tensor
    """(B, execute * action_dim), on the target's action."""


class RefiningActorCritic:
    """The actor and its critics; their moving averages are the target networks. Actions are normalised."""

    def __init__(
        self, replay: Replay, references: References, scales: tuple[Scale, Scale], settings: RefiningSettings, seed: int
    ) -> None:
        """New networks, of `scales` of features and of one action; the actor starts near the references."""
        self._settings, self._seed = settings, seed
        features, action = scales
        count, self._choices = references.chunk.shape[:2]

        def normalised(chunk: FloatArray) -> Tensor:
            rows = action.forward(chunk).astype(np.float32)
            return torch.from_numpy(rows.reshape(*chunk.shape[:-2], -1))

        self._state = torch.from_numpy(features.forward(references.features).astype(np.float32))
        self._reference, self._sent = normalised(references.chunk), normalised(replay.action)
        self._human = torch.from_numpy(replay.human)
        self._reward = torch.from_numpy(replay.reward)
        self._not_terminal = torch.from_numpy(1 - replay.terminal.astype(np.float32))
        # The next decision of an episode is the next row; after the last one nothing follows.
        self._next = torch.arange(1, count + 1).clamp(max=count - 1)
        wide, size = self._state.shape[1] + self._sent.shape[1], self._sent.shape[1]
        self.actor = SmallNetwork((wide, settings.hidden, settings.hidden, size), seed, last=0.01)
        self._critics = critics_of(wide, settings, seed + 1, settings.critics)
        self._actor_target = target_of(self.actor)
        self._critic_targets = [target_of(critic) for critic in self._critics]

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

    def _draw(self, step: int) -> Drawn:
        random, settings = np.random.default_rng((self._seed, 41, step)), self._settings
        rows = random.integers(len(self._reward), size=settings.batch)
        which = random.integers(self._choices, size=(2, settings.batch))
        noise = random.standard_normal((settings.batch, self._sent.shape[1]), np.float32) * settings.spread
        return Drawn(rows=torch.from_numpy(rows), which=torch.from_numpy(which), noise=torch.from_numpy(noise))

    def _chunk(self, rows: Tensor, which: Tensor, network: nn.Module) -> tuple[Tensor, Tensor]:
        """(features (B, width), chunk to send (B, execute * action_dim)) at the decisions."""
        state, reference = self._state[rows], self._reference[rows, which]
        return state, reference + network(torch.cat((state, reference), dim=1))

    def _critic_loss(self, drawn: Drawn) -> Tensor:
        rows = drawn.rows
        with torch.no_grad():
            later, chunk = self._chunk(self._next[rows], drawn.which[1], self._actor_target)
            value = least(torch.cat((later, chunk + drawn.noise), dim=1), self._critic_targets).clamp(0, 1)
            wanted = self._reward[rows] + self._settings.discount * self._not_terminal[rows] * value
        return regression(torch.cat((self._state[rows], self._sent[rows]), dim=1), wanted, self._critics)

    def _actor_loss(self, drawn: Drawn) -> Tensor:
        rows = drawn.rows
        state, chunk = self._chunk(rows, drawn.which[0], self.actor)
        value = least(torch.cat((state, chunk), dim=1), self._critics)
        near = torch.where(self._human[rows, None], self._sent[rows], self._reference[rows, drawn.which[0]])
        return gain(value) + self._settings.anchor * (chunk - near).square().mean()

    def _measure(self, drawn: Drawn) -> dict[str, float]:
        rows, which = drawn.rows, drawn.which[0]
        with torch.no_grad():
            state, chunk = self._chunk(rows, which, self.actor)
            reference = self._reference[rows, which]
            value, own = (least(torch.cat((state, sent), dim=1), self._critics).mean() for sent in (chunk, reference))
            distance = (chunk - reference).square().mean().sqrt()
        return {"value": float(value), "value_gain": float(value - own), "distance": float(distance)}
