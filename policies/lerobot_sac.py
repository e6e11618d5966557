"""LeRobot's soft actor-critic with demonstrations and interventions (HIL-SERL, arXiv 2410.21845), in process.

LeRobot 0.6.1 provides the networks and updates (`lerobot.rl.algorithms.sac`). Its actor, learner and transport are not
used; the replay comes from the episode store. Half of every minibatch is demonstrations and interventions, the other
half all other decisions, as in RLPD (arXiv 2302.02948). An action is one command that is held for a decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.shares import require_share
from enpire.store import durable
from enpire.types import FloatArray
from policies import lerobot_files, lerobot_policy
from policies.bounds import above_zero, at_least
from policies.clone import job_digest, prepare
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS, SMOKE_STEPS
from policies.lerobot_base import ACTION, STATE
from policies.lerobot_files import LerobotManifest, Parts, missing_extra
from policies.optimizer import TensorTable, read_checkpoint, write_checkpoint
from policies.replay import Replay, replay_of
from policies.training_data import read_episodes

CRITICS = "sac.safetensors"
"""A file in addition to LeRobot's: critics, temperature and optimizer moments, from which the next round resumes."""
_NEWEST = "newest"
"""Key in that file: id of the newest order in its replay; ids are increasing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SacSettings:
    """Settings of a recipe for SAC with demonstrations and interventions."""

    execute: int = 3
    """Periods for which a command is held: 0.1 s at 30 Hz, as in HIL-SERL."""
    discount: float = 0.97
    """Discount factor per decision."""
    batch: int = 256
    updates: float = 0.5
    """Actor updates for each policy decision that is new since the parent."""
    least_steps: int = 100
    most_steps: int = 4000
    learning_rate: float = 3e-4
    hidden: int = 128
    critic_updates: int = 2
    """Critic updates, each on its own minibatch, for each actor update."""
    temperature: float = 0.01
    """Initial temperature of the entropy term; SAC tunes it. The critics' targets do not include the entropy."""
    entropy: float = -0.5
    """Target entropy, in nats per action dimension."""
    people_share: float = 0.5
    """Share of a minibatch that is demonstrations and interventions, in [0, 1)."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        at_least(1, self, "execute least_steps most_steps hidden critic_updates")
        at_least(2, self, "batch")
        above_zero(self, "learning_rate temperature updates")
        require_share("discount", self.discount, "(0, 1)")
        require_share("people_share", self.people_share, "[0, 1)")

    def steps(self, new: int) -> int:
        """Gradient steps of the actor for this number of new decisions."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.updates * new)))


class LerobotSac:
    """The learner of LeRobot's SAC."""

    settings: ClassVar = SacSettings
    smoke: ClassVar = SMOKE_STEPS

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Resume from a parent of this kind, or start with new networks; the version is a LeRobot folder."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        episodes = read_episodes(job.episodes)
        replay = replay_of(episodes, settings.execute)
        if not replay.reward.any():
            raise LearningProblem(
                "No decision has a reward: there is neither a demonstration nor a success; collect more episodes."
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            parts, algorithm, newest_order = networks(job, settings, replay)
            metrics: dict[str, float] = {"decisions": float(len(replay)), "people": float(replay.human.mean())}
            new = np.array([item.order_id > newest_order and not item.demonstration for item in episodes])
            steps = settings.steps(int(new[replay.episode].sum()))
            for done, latest in _train(algorithm, _MixedBatches(parts, replay, settings, job.seed), job, steps):
                metrics |= latest
                report(Progress(stage="actor", done=done, total=steps, metrics=latest))
        staged = durable.stage_folder(job.output)
        lerobot_files.save(parts, staged)
        save_file(
            {**_tensors(algorithm), _NEWEST: np.frombuffer(max(item.order_id for item in episodes).encode(), np.uint8)},
            staged / CRITICS,
        )
        durable.sync(staged)
        durable.reveal([(staged, job.output)])
        return metrics | {"steps": float(steps)}


class _MixedBatches:
    """Minibatches in the form of LeRobot's algorithm, with a fixed share of demonstrations and interventions."""

    def __init__(self, parts: Parts, replay: Replay, settings: SacSettings, seed: int) -> None:
        sent = torch.from_numpy(_mean_commands(replay))

        def seen(state: np.ndarray) -> dict[str, Tensor]:
            asked: dict[str, Any] = lerobot_policy.state_inputs(parts.about, state)
            return parts.preprocessor({**asked, ACTION: sent, "task": [""] * len(state)})

        now, later = seen(replay.state), seen(replay.next_state)
        keys = list(parts.about.inputs)
        self._now, self._later = ({key: table[key] for key in keys} for table in (now, later))
        self._action, self._seed = now[ACTION], seed
        self._reward, self._ends = torch.from_numpy(replay.reward), torch.from_numpy(replay.terminal.astype(np.float32))
        human = np.flatnonzero(replay.human)
        self._pools = human, np.flatnonzero(~replay.human)
        share = settings.people_share if len(human) and len(self._pools[1]) else float(len(human) > 0)
        self._counts = round(settings.batch * share), settings.batch - round(settings.batch * share)

    def batch(self, step: int) -> dict[str, Any]:
        """The minibatch of a step: tensors (batch, ...), normalised."""
        random = np.random.default_rng((self._seed, 29, step))
        drawn = [
            pool[random.integers(len(pool), size=count)]
            for pool, count in zip(self._pools, self._counts, strict=True)
            if count
        ]
        rows = torch.from_numpy(np.concatenate(drawn))
        return {
            "state": {key: value[rows] for key, value in self._now.items()},
            "next_state": {key: value[rows] for key, value in self._later.items()},
            ACTION: self._action[rows],
            "reward": self._reward[rows],
            "done": self._ends[rows],
        }


def networks(job: ImprovementJob, settings: SacSettings, replay: Replay) -> tuple[Parts, Any, str]:
    """The policy, LeRobot's SAC, and the id of the newest order in the parent's replay; empty without such a parent.

    Raises:
        MissingExtra: LeRobot is not installed.
        LearningProblem: the parent's critics have another size than the recipe's.
    """
    try:
        from lerobot.policies.gaussian_actor.configuration_gaussian_actor import CriticNetworkConfig
        from lerobot.rl.algorithms.sac import SACAlgorithm, SACAlgorithmConfig
    except ImportError as missing:
        raise missing_extra(missing) from missing
    parent = job.parent
    if parent is not None and (parent / CRITICS).is_file():
        parts, before = lerobot_files.load_parts(parent), load_file(parent / CRITICS)
        newest_order = bytes(before.pop(_NEWEST)).decode()
    else:
        # A parent of another kind, such as a cloned base, contributes only its rollouts.
        parts, before, newest_order = _new_parts(settings, replay), None, ""
    config = SACAlgorithmConfig(
        policy_config=parts.policy.config, utd_ratio=settings.critic_updates, use_backup_entropy=False,
        target_entropy=settings.entropy * replay.action.shape[2],
        actor_lr=settings.learning_rate, critic_lr=settings.learning_rate,
        temperature_lr=settings.learning_rate, discount=settings.discount, temperature_init=settings.temperature,
        critic_network_kwargs=CriticNetworkConfig(hidden_dims=[settings.hidden, settings.hidden]),
    )  # fmt: skip
    algorithm: Any = SACAlgorithm(parts.policy, config)  # pyright: ignore[reportArgumentType]
    # The only reward is 1 at the end of a success, so returns are in [0, 1] and targets are clipped to that.
    algorithm.critic_target.register_forward_hook(lambda _module, _inputs, values: values.clamp(0.0, 1.0))
    algorithm.make_optimizers_and_scheduler()
    if before is not None:
        try:
            _restore(algorithm, before)
        except RuntimeError as other:
            raise LearningProblem(
                f"The critics of the parent {job.parent} are not of the recipe's size (hidden: {settings.hidden}); "
                "set the parent's `hidden`, or start from a base policy."
            ) from other
    return parts, algorithm, newest_order


def _new_parts(settings: SacSettings, replay: Replay) -> Parts:
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors
    from lerobot.policies.gaussian_actor.configuration_gaussian_actor import ActorNetworkConfig

    sent, wide = _mean_commands(replay), replay.state.shape[1]
    # A margin of a tenth, so that no recorded command is where tanh is flat.
    room = 0.05 * np.maximum(np.ptp(sent, axis=0), 1e-6)
    stats = {
        STATE: {"min": replay.state.min(axis=0), "max": replay.state.max(axis=0) + np.float32(1e-6)},
        ACTION: {"min": sent.min(axis=0) - room, "max": sent.max(axis=0) + room},
    }
    config: Any = make_policy_config(
        "gaussian_actor", device="cpu", push_to_hub=False, shared_encoder=False, latent_dim=settings.hidden,
        input_features={STATE: PolicyFeature(type=FeatureType.STATE, shape=(wide,))},
        output_features={ACTION: PolicyFeature(type=FeatureType.ACTION, shape=sent.shape[1:])},
        actor_network_kwargs=ActorNetworkConfig(hidden_dims=[settings.hidden, settings.hidden]),
        dataset_stats={key: {name: row.tolist() for name, row in table.items()} for key, table in stats.items()},
    )  # fmt: skip
    policy = get_policy_class("gaussian_actor")(config)
    preprocessor, postprocessor = make_pre_post_processors(config, dataset_stats=stats)  # pyright: ignore[reportArgumentType]
    about = LerobotManifest(inputs={STATE: (0, wide)}, execute=settings.execute, hold=settings.execute)
    return Parts(about=about, policy=policy, preprocessor=preprocessor, postprocessor=postprocessor)


def _mean_commands(replay: Replay) -> FloatArray:
    """One command for each decision, the mean of those sent: (N, action_dim) float32, units of the robot."""
    return replay.action.mean(axis=1)


def _train(
    algorithm: Any, mixer: _MixedBatches, job: ImprovementJob, steps: int
) -> Iterator[tuple[int, dict[str, float]]]:
    """Train in place, yielding (steps done, metrics); a killed and resumed run ends with the same bytes."""
    path, digest, first_step = job.work / "checkpoint.safetensors", job_digest(job), 0
    if (found := read_checkpoint(path, digest)) is not None:
        table, first_step = found
        _restore(algorithm, table)
    algorithm.policy.train()
    for step in range(first_step, steps):
        torch.manual_seed((job.seed * 1_000_003 + step) % 2**62)
        critic_steps = algorithm.config.utd_ratio
        stats = algorithm.update(mixer.batch(step * critic_steps + index) for index in range(critic_steps))
        done = step + 1
        if done % REPORT_STEPS and done < steps:
            continue
        metrics = {**stats.losses, **stats.extra}
        if not all(math.isfinite(value) for value in metrics.values()):
            raise LearningProblem(
                f"SAC's metrics are {metrics} after {done} steps; they must be finite, so lower learning_rate."
            )
        if done % CHECKPOINT_STEPS == 0 or done == steps:
            write_checkpoint(path, _tensors(algorithm), digest, done)
        yield done, metrics
    algorithm.policy.eval()


def _tensors(algorithm: Any) -> TensorTable:
    """Networks, targets, temperature and the optimizers' moments."""
    table = {f"policy.{name}": value for name, value in _arrays(algorithm.policy.state_dict()).items()}
    table |= {f"sac.{name}": value for name, value in _arrays(algorithm.state_dict()).items()}
    for name, optimizer in algorithm.optimizers.items():
        for index, state in optimizer.state_dict()["state"].items():
            table |= {f"adam.{name}.{index}.{key}": value for key, value in _arrays(state).items()}
    return table


def _restore(algorithm: Any, table: TensorTable) -> None:
    """Restore the state from `_tensors`."""
    parts: dict[str, dict[str, Tensor]] = {"policy": {}, "sac": {}, "adam": {}}
    for name, value in table.items():
        head, _, rest = name.partition(".")
        parts[head][rest] = torch.from_numpy(np.array(value))
    algorithm.policy.load_state_dict(parts["policy"])
    algorithm.load_state_dict(parts["sac"])
    for name, optimizer in algorithm.optimizers.items():
        moments: dict[int, dict[str, Tensor]] = {}
        for full, value in parts["adam"].items():
            owner, index, key = full.split(".")
            if owner == name:
                moments.setdefault(int(index), {})[key] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def _arrays(tensors: Mapping[str, Tensor]) -> TensorTable:
    return {name: np.ascontiguousarray(value.detach().numpy()).copy() for name, value in tensors.items()}
