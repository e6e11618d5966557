"""DSRL beside a frozen policy that is too slow to ask at every gradient step, such as SmolVLA.

The learner of `steered_learner` asks the flow policy for an action at each step. Here every recorded decision is asked
once, with a few noises, and the table of actions is kept. Three networks learn from it: two critics of actions, whose
targets take the value of the next decision from the critic of noises; the critic of noises, by regression on the values
of the table's actions; and the actor, which maximises it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn

from enpire.errors import LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.store import durable
from enpire.types import FloatArray, Observation
from policies.clone import job_digest
from policies.flow_network import SmallNetwork
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS
from policies.image_windows import ImageWindows
from policies.lerobot_files import LerobotManifest, LerobotSteering, load_parts, write_manifest
from policies.lerobot_noise import FILE, ExposesNoise, LerobotNoise, read_network
from policies.lerobot_policy import cameras_of
from policies.normalise import Scale
from policies.optimizer import AveragedAdam, CosineSchedule, read_checkpoint, write_checkpoint
from policies.replay import Replay, recent_episodes, replay_of
from policies.steered_learner import SteeringSettings, least, widths_of
from policies.training_data import read_episodes

ASKED = "asked.safetensors"
"""In the job's work folder: what the frozen policy answered, so that a resumed run does not ask again."""


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
    replay = replay_of(episodes, policy.execute)
    if not replay.reward.any():
        raise LearningProblem(
            "No decision has a reward: there is neither a demonstration nor a success; collect more episodes."
        )
    images = ImageWindows(job, replay, episodes)
    cameras = cameras_of(parts.policy.config)
    images.collect(cameras, report)

    def seen(row: int) -> Observation:
        return Observation(
            stamp_ns=0, state=replay.state[row : row + 1],
            images={camera: images.at(camera, np.array([row])) for camera in cameras},
        )  # fmt: skip

    answers = _asked(policy, [partial(seen, row) for row in range(len(replay))], job, settings, report)
    images.close()
    networks = FrozenActorCritic(replay, answers, settings, job.seed)
    networks.load_actor(parent)
    metrics = {"decisions": float(len(replay)), "rewarded": float(replay.reward.sum())}
    steps = settings.steps(len(replay))
    for done, latest in networks.train(job, steps):
        metrics |= latest
        report(Progress(stage="actor", done=done, total=steps, metrics=latest))
    _write(parent, parts.about, networks, settings, job.output)
    return metrics | {"steps": float(steps)}


def _asked(
    policy: ExposesNoise, seen: Sequence[Callable[[], Observation]], job: ImprovementJob,
    settings: SteeringSettings, report: Callable[[Progress], None],
) -> Answers:  # fmt: skip
    """Ask the policy for every observation, or read what it answered before."""
    noise = np.random.default_rng((job.seed, 31)).standard_normal(
        (len(seen), settings.noises, policy.noise_dim), np.float32
    )
    noise = np.clip(noise, -1, 1) * np.float32(settings.reach)
    path, digest = job.work / ASKED, job_digest(job)
    if (found := read_checkpoint(path, digest)) is not None:
        return Answers(features=found[0]["features"], noise=noise, action=found[0]["action"])
    features, action = list[FloatArray](), list[FloatArray]()
    for row, look in enumerate(seen):
        observation = look()
        features.append(policy.features(observation))
        chunks = policy.chunks_from(observation, noise[row])[:, : policy.execute]
        action.append(chunks.reshape(settings.noises, -1))
        if (done := row + 1) % REPORT_STEPS == 0 or done == len(seen):
            report(Progress(stage="noise", done=done, total=len(seen), metrics={}))
    answers = Answers(features=np.stack(features), noise=noise, action=np.stack(action))
    write_checkpoint(path, {"features": answers.features, "action": answers.action}, digest, len(seen))
    return answers


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
        wide, deep, noises = state.shape[1], (settings.hidden, settings.hidden), answers.noise.shape[2]
        self.actor = SmallNetwork((wide, *deep, noises), seed, last=0.01)
        self._critics = [SmallNetwork((wide + sent.shape[1], *deep, 1), seed + 1 + i) for i in range(2)]
        self._noise_critic = SmallNetwork((wide + noises, *deep, 1), seed + 3)

    def load_actor(self, parent: Path) -> None:
        """Load the network of a parent that has one of the same shape, with its scale; otherwise keep the new one."""
        if not (parent / FILE).is_file():
            return
        scale, weights = read_network(parent)
        mine = {name: value.shape for name, value in self.actor.weights().items()}
        if {name: value.shape for name, value in weights.items()} == mine:
            raw = self._state.numpy() * self.scale.spread + self.scale.mean
            state = torch.from_numpy(scale.forward(raw).astype(np.float32))
            self.scale, self._state, self._later = scale, state, torch.cat([state[1:], state[-1:]])
            self.actor.load_weights(weights)

    def train(self, job: ImprovementJob, steps: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Train in place; a killed and resumed run ends with the same bytes.

        Yields:
            (steps done, metrics) every REPORT_STEPS and at the last step.
        """
        settings = self._settings
        keep = 1 - settings.target_follow
        rate = CosineSchedule(first=settings.learning_rate, last=0.1 * settings.learning_rate, steps=steps)
        targets = [SmallNetwork(widths_of(network), 0) for network in (self.actor, self._noise_critic)]
        actor, critic, noise_critic = (
            AveragedAdam(network.parameters(), rate, keep)
            for network in (self.actor, nn.ModuleList(self._critics), self._noise_critic)
        )
        actor.share_average(targets[0].parameters())
        noise_critic.share_average(targets[1].parameters())
        kept = {"actor": actor, "critic": critic, "noise": noise_critic}
        path, digest, first_step = job.work / "checkpoint.safetensors", job_digest(job), 0
        if (found := read_checkpoint(path, digest)) is not None:
            table, first_step = found
            for name, optimizer in kept.items():
                optimizer.restore(name, table)
        for step in range(first_step, steps):
            random = np.random.default_rng((self._seed, 29, step))
            rows = torch.from_numpy(random.integers(len(self._reward), size=settings.batch))
            drawn = torch.from_numpy(random.standard_normal((settings.batch, self._noise.shape[2]), np.float32))
            which = torch.from_numpy(random.integers(self._noise.shape[1], size=settings.batch))
            loss = self._critic_loss(rows, drawn, targets)
            critic.minimise(loss, step)
            noise_critic.minimise(self._noise_loss(rows, which), step)
            if step % settings.actor_every == 0:
                actor.minimise(self._actor_loss(self._state[rows]), step // settings.actor_every)
            done = step + 1
            if done % REPORT_STEPS and done < steps:
                continue
            metrics = self._metrics(float(loss.detach()), rows, which)
            if done % CHECKPOINT_STEPS == 0 or done == steps:
                tensors = {key: value for name, one in kept.items() for key, value in one.tensors(name).items()}
                write_checkpoint(path, tensors, digest, done)
            yield done, metrics

    def _mean(self, state: Tensor, network: nn.Module) -> Tensor:
        return self._settings.reach * torch.tanh(network(state))

    def _critic_loss(self, rows: Tensor, drawn: Tensor, targets: list[SmallNetwork]) -> Tensor:
        with torch.no_grad():
            later = self._later[rows]
            noise = self._mean(later, targets[0]) + self._settings.spread * drawn
            value = targets[1](torch.cat((later, noise), dim=1)).squeeze(-1).clamp(0, 1)
            wanted = self._reward[rows] + self._settings.discount * self._not_terminal[rows] * value
        seen = torch.cat((self._state[rows], self._action[rows]), dim=1)
        values = torch.stack([critic(seen).squeeze(-1) for critic in self._critics])
        return (values - wanted).square().mean(dim=1).sum()

    def _noise_loss(self, rows: Tensor, which: Tensor) -> Tensor:
        """Regression of the value of the action that the policy made of a noise."""
        state = self._state[rows]
        with torch.no_grad():
            wanted = least(torch.cat((state, self._table[rows, which]), dim=1), self._critics)
        found = self._noise_critic(torch.cat((state, self._noise[rows, which]), dim=1)).squeeze(-1)
        return (found - wanted).square().mean()

    def _actor_loss(self, state: Tensor) -> Tensor:
        mean = self._mean(state, self.actor)
        value = self._noise_critic(torch.cat((state, mean), dim=1)).squeeze(-1)
        return -value.mean() / value.detach().abs().mean().clamp(min=1e-3) + self._settings.calm * mean.square().mean()

    def _metrics(self, loss: float, rows: Tensor, which: Tensor) -> dict[str, float]:
        if not math.isfinite(loss):
            raise LearningProblem(f"The critics' loss is {loss}; it must be finite, so lower learning_rate.")
        state = self._state[rows]
        with torch.no_grad():
            mean = self._mean(state, self.actor)
            value = self._noise_critic(torch.cat((state, mean), dim=1)).mean()
            own = least(torch.cat((state, self._table[rows, which]), dim=1), self._critics).mean()
        return {
            "loss": loss, "value": float(value), "value_gain": float(value - own),
            "noise": float(mean.square().mean().sqrt()),
        }  # fmt: skip


def _write(
    parent: Path, about: LerobotManifest, networks: FrozenActorCritic, settings: SteeringSettings, output: Path
) -> None:  # fmt: skip
    """Write the parent's files as they are, with the network beside them."""
    staged = durable.stage_folder(output)
    for path in sorted(parent.iterdir()):
        if path.name not in (FILE, "policy.json"):
            with path.open("rb") as read, (staged / path.name).open("wb") as written:
                while chunk := read.read(2**20):
                    written.write(chunk)
    steering = LerobotSteering(reach=settings.reach, spread=settings.spread)
    write_manifest(replace(about, steering=steering), staged)
    scale = {"scale.mean": networks.scale.mean, "scale.spread": networks.scale.spread}
    save_file({**networks.actor.weights(), **scale}, staged / FILE)
    durable.sync_many([*staged.iterdir(), staged])
    durable.reveal([(staged, output)])
