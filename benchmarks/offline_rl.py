"""AWAC (arXiv 2006.09359) and IQL (arXiv 2110.06169) of d3rlpy 2.8.1 as arms of the benchmark of improvement.

d3rlpy pins older packages than ours, so it is no dependency of ENPIRE and lies in a folder of its own:

    uv pip install --no-deps --target .tools/d3rlpy d3rlpy==2.8.1 gym==0.26.2 gym-notices structlog colorama h5py \
        dataclasses-json "marshmallow<4" scikit-learn joblib threadpoolctl narwhals

A recipe names this learner as `benchmarks.offline_rl:OfflineRl`; its versions (kind gaussian) run without d3rlpy.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem, MissingExtra
from enpire.interfaces import ImprovementJob, Progress
from enpire.store import durable
from enpire.types import FloatArray
from policies import gaussian_policy
from policies.clone import prepare
from policies.gaussian_policy import GaussianVersion
from policies.normalise import Scale, fourier
from policies.replay import Replay, recent_episodes, replay_of
from policies.training_data import read_episodes

FOLDER = Path(__file__).parents[1] / ".tools" / "d3rlpy"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineSettings:
    """Settings of a recipe for AWAC or IQL."""

    algorithm: Literal["awac", "iql"] = "iql"
    execute: int = 4
    frequencies: int = 2
    discount: float = 0.97
    batch: int = 256
    least_steps: int = 500
    most_steps: int = 3000
    passes: float = 100.0
    learning_rate: float = 1e-3
    hidden: int = 128
    expectile: float = 0.9
    """IQL: the expectile of the recorded actions' values that is the value of a state, in (0.5, 1)."""
    sharpness: float = 10.0
    """IQL: the weight of an action is exp(sharpness * advantage), at most 100. Advantages are in decisions, as in the
    sparse tasks of both papers, where each step costs 1. Our reward is 1 at the end: a decision costs 1 - discount."""
    softness: float = 33.0
    """AWAC: the weight of an action in a minibatch is softmax(advantage / softness), with advantages in decisions. Its
    authors' 0.5 is for clipped advantages; d3rlpy does not clip."""
    temperature: float = 0.5
    """Factor on the learned standard deviation when sampling."""
    window_rounds: int = 4

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        if not 0.5 < self.expectile < 1 or min(self.sharpness, self.softness) <= 0:
            raise ValueError("expectile is in (0.5, 1), sharpness and softness are above 0.")

    def weighing(self) -> dict[str, float]:
        """The weights of actions as arguments of d3rlpy's algorithm, for returns in [0, 1]."""
        decision = 1 - self.discount
        if self.algorithm == "awac":
            return {"lam": self.softness * decision}
        return {"expectile": self.expectile, "weight_temp": self.sharpness / decision}

    def steps(self, decisions: int) -> int:
        """Gradient steps for this number of decisions."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.passes * decisions / self.batch)))


class OfflineRl:
    """The learner. Each round trains from scratch on the whole replay."""

    settings: ClassVar = OfflineSettings

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train in process and write the actor as a version of plain numbers."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        episodes = recent_episodes(read_episodes(job.episodes), settings.window_rounds)
        replay = replay_of(episodes, settings.execute)
        if not replay.reward.any():
            raise LearningProblem(
                "No decision has a reward: there is neither a demonstration nor a success; collect more episodes."
            )
        state = Scale.of(replay.state)
        low, high = (edge(replay.action.reshape(-1, replay.action.shape[2]), axis=0) for edge in (np.min, np.max))
        # A margin of a tenth, so that no recorded command is where tanh is flat.
        action = Scale(mean=(low + high) / 2, spread=np.maximum(0.55 * (high - low), 1e-6))
        steps = settings.steps(len(replay))
        algorithm = _trained(replay, (state, action), settings, job.seed, steps)
        report(Progress(stage="actor", done=steps, total=steps, metrics={}))
        weights, deviation = _actor(algorithm)
        version = GaussianVersion(
            execute=settings.execute, frequencies=settings.frequencies, temperature=settings.temperature,
            deviation=deviation, state=state, action=action, weights=weights,
        )  # fmt: skip
        staged = durable.stage_folder(job.output)
        gaussian_policy.save(version, staged)
        durable.sync(staged)
        durable.reveal([(staged, job.output)])
        return {"decisions": float(len(replay)), "steps": float(steps), "deviation": float(deviation.mean())}


def _trained(replay: Replay, scales: tuple[Scale, Scale], settings: OfflineSettings, seed: int, steps: int) -> Any:
    d3rlpy = _d3rlpy()
    state, action = scales
    d3rlpy.seed(seed)
    dataset = d3rlpy.dataset.MDPDataset(
        observations=fourier(state.forward(replay.state), settings.frequencies).astype(np.float32),
        actions=action.forward(replay.action).reshape(len(replay), -1).astype(np.float32),
        rewards=replay.reward[:, None],
        terminals=replay.terminal.astype(np.float32),
    )
    encoder = d3rlpy.models.VectorEncoderFactory([settings.hidden, settings.hidden], activation="swish")
    kind = {"awac": d3rlpy.algos.AWACConfig, "iql": d3rlpy.algos.IQLConfig}[settings.algorithm]
    algorithm = kind(
        actor_learning_rate=settings.learning_rate, critic_learning_rate=settings.learning_rate,
        batch_size=settings.batch, gamma=settings.discount, actor_encoder_factory=encoder,
        critic_encoder_factory=encoder, **settings.weighing(),
    ).create(device=False)  # fmt: skip
    algorithm.fit(
        dataset, n_steps=steps, n_steps_per_epoch=steps, show_progress=False, save_interval=10**9,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )  # fmt: skip
    return algorithm


def _actor(algorithm: Any) -> tuple[dict[str, FloatArray], FloatArray]:
    """The actor's layers, and its standard deviations (execute * action_dim,) float32, normalised."""
    import torch

    policy = algorithm.impl.policy
    layers = [module for module in policy.modules() if isinstance(module, torch.nn.Linear)]
    weights: dict[str, FloatArray] = {}
    for i, layer in enumerate(layers):
        weights |= {f"{i}.weight": layer.weight.detach().numpy(), f"{i}.bias": layer.bias.detach().numpy()}
    wide = layers[0].in_features
    with torch.no_grad():
        logarithm = policy(torch.zeros(1, wide)).logstd
    return weights, logarithm.exp().reshape(-1).numpy().astype(np.float32)


def _d3rlpy() -> Any:
    if FOLDER.is_dir() and str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import d3rlpy  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as missing:
        raise MissingExtra(
            f"AWAC and IQL need d3rlpy ({missing}); the head of benchmarks/offline_rl.py says how to install it."
        ) from missing
    return d3rlpy
