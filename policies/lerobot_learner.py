"""HABC for LeRobot policies: the windows, critics and gates of HABC as weights on the policy's own loss.

LeRobot's network, loss and files do not change. The weights are looked up by row and are not part of the batch, so that
LeRobot's normaliser does not process them. Without a parent, a new small policy is cloned from demonstrations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.store import durable
from enpire.types import FloatArray, IntArray
from policies import lerobot_files, lerobot_policy
from policies.bounds import require_default
from policies.clone import prepare
from policies.early_stop import EarlyStopping, evaluation_rows, held_out
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS, TrainingSchedule, finite_loss
from policies.habc.learner import Habc, RoundData, WindowWeights, collect_round_data, critic_training, evaluate_critics
from policies.habc.segments import Windows
from policies.habc.settings import HabcSettings
from policies.habc.train import pretrain_critics
from policies.habc.weights import normalised
from policies.image_windows import ImageWindows
from policies.lerobot_base import LerobotShape, new_parts, shape_of
from policies.lerobot_files import Parts
from policies.lerobot_history import History, observation_history
from policies.lerobot_losses import has_row_losses, mean_loss, row_losses
from policies.lerobot_plugins import require_type
from policies.normalise import Scale
from policies.optimizer import AveragedAdam, TensorTable, read_checkpoint, write_checkpoint
from policies.training_data import read_episodes, stacked_actions, stacked_states

_PARTS: Mapping[str, int] = {"act": 4, "diffusion": 8}
"""Own type of new policies -> what divides its width: 4 attention heads, 8 normalisation groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LerobotSettings(HabcSettings):
    """Settings of a recipe for a LeRobot policy."""

    family: str = "act"
    """Of a new policy: act, diffusion, or a type of an installed package lerobot_policy_*. A version with a parent
    keeps the parent's."""
    width: int = 64
    """Of a new policy; a version with a parent keeps the parent's."""
    weights: Literal["loss", "draw"] = "loss"
    """Where the weights act: on the loss of each sample, or on its sampling, which works with any policy."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed, and settings that belong to other policies, with ValueError."""
        HabcSettings.__post_init__(self)
        require_type(self.family, tuple(_PARTS))
        if part := _PARTS.get(self.family):
            if self.width < 1 or self.width % part:
                raise ValueError(
                    f"width is {self.width}; for a new {self.family} policy it must be a multiple of {part}."
                )
        else:
            require_default(self, "width", f"a {self.family} policy has its own size")
        if self.unseen:
            raise ValueError(
                "unseen is for flow policies; `inputs` of policy.json sets what a LeRobot policy sees. Leave it out."
            )
        if self.critic_beside:
            raise ValueError("critics train before a LeRobot policy, not at its steps; leave critic_beside out.")
        network = "hidden depth frequencies euler_steps temperature cooling least_temperature collect_temperature"
        require_default(
            self, network, "it is about flow policies, and a LeRobot policy has its own network and sampling"
        )


class LerobotHabc:
    """The learner of LeRobot policies."""

    settings: ClassVar = LerobotSettings
    smoke: ClassVar = Habc.smoke
    parent_kinds: ClassVar = frozenset({"lerobot"})

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train the critics, weight the windows, train the policy; the version is a LeRobot folder."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        episodes = read_episodes(job.episodes)
        source = [item for item in episodes if item.demonstration] or list(episodes)
        scales = Scale.of(stacked_states(source)), Scale.of(stacked_actions(source))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.seed)
            parts = _parts(job, settings, scales)
            settings = _fitted_settings(settings, parts)
            round_data = collect_round_data(episodes, settings)
            training, schedule = critic_training(job, settings, round_data, scales[0])
            report(Progress(stage="begin", done=0, total=1, metrics={}))
            pretrain_critics(training, schedule)
            metrics, rule = evaluate_critics(round_data, training, scales[1].spread, job.round)
            report(Progress(stage="critics", done=training.done, total=max(1, training.done), metrics=metrics))
            weights = WindowWeights(round_data.windows, training, rule, job.round)
            schedule = replace(schedule, steps=settings.steps(int((weights.sampling_weights > 0).sum())))
            config = parts.policy.config
            history = observation_history(round_data.windows, round_data.episodes, config, settings.execute)
            window_images = ImageWindows(job, history.observations, round_data.episodes)
            window_images.collect(lerobot_policy.cameras_of(config), report)
            windows = _SampledWindows(round_data, weights, settings, schedule.seed)
            for done, actor_metrics in _train(parts, windows, _Batches(parts, history, window_images), schedule):
                report(Progress(stage="actor", done=done, total=schedule.steps, metrics=actor_metrics))
                metrics |= actor_metrics
        staged = durable.stage_folder(job.output)
        lerobot_files.save(parts, staged)
        durable.sync(staged)
        durable.reveal([(staged, job.output)])
        window_images.close()
        return metrics


def _parts(job: ImprovementJob, settings: LerobotSettings, scales: tuple[Scale, Scale]) -> Parts:
    if job.parent is not None:
        return lerobot_files.load_parts(job.parent)
    shape = LerobotShape(
        family=settings.family, width=settings.width, horizon=settings.horizon, execute=settings.execute
    )
    return new_parts(shape, *scales)


def _fitted_settings(settings: LerobotSettings, parts: Parts) -> LerobotSettings:
    """The settings with the policy's chunk length. LearningProblem if the recipe contradicts the parent."""
    config: Any = parts.policy.config
    if config.action_delta_indices is None:
        raise LearningProblem(
            f"This {config.type} policy outputs single actions, not chunks; improve it with the learner lerobot_sac."
        )
    for name, there in shape_of(parts).items():
        if (inputs := getattr(settings, name)) not in (there, getattr(LerobotSettings(), name)):
            raise LearningProblem(
                f"The recipe's {name} is {inputs}, the parent's {there}; leave it out, or begin without a parent."
            )
    wide, execute = max(config.action_delta_indices) + 1, parts.about.execute
    if not 1 <= execute <= wide:
        raise LearningProblem(f"The parent's policy.json says execute {execute}; its chunks allow 1 to {wide}.")
    settings = replace(settings, horizon=wide, execute=execute)
    draw = settings.weights == "draw" or not has_row_losses(parts.policy)
    return replace(settings, weights="draw" if draw else "loss")


class _SampledWindows:
    """The windows with their sampling weights and loss weights."""

    def __init__(self, round_data: RoundData, weights: WindowWeights, settings: LerobotSettings, seed: int) -> None:
        self.windows: Windows = round_data.windows
        self._weights, self.settings, sampling_weights = weights, settings, weights.sampling_weights
        if settings.weights == "draw":
            every = np.arange(len(self.windows))
            sampling_weights = sampling_weights * weights.weights(weights.warmup_steps, every)
        held = held_out(self.windows.episode, sampling_weights) & bool(settings.early_stop)
        self.evaluated = evaluation_rows(held, sampling_weights, seed)
        """(M,) int, rows of the held-out evaluation; empty without early stopping."""
        self._cumulative = np.cumsum(sampling_weights * ~held, dtype=np.float64)
        if not self._cumulative[-1] > 0:
            raise LearningProblem(
                "No window may be imitated: there is neither a demonstration nor a success; collect more episodes."
            )

    def rows(self, random: np.random.Generator) -> np.ndarray:
        drawn = random.random(self.settings.batch) * self._cumulative[-1]
        return np.searchsorted(self._cumulative, drawn, side="right")

    def weights(self, step: int, rows: np.ndarray) -> FloatArray:
        """Loss weights (B,) float32, with mean 1 over policy windows; all 1 if the weights act on the sampling."""
        if self.settings.weights == "draw":
            return np.ones(len(rows), np.float32)
        return normalised(self._weights.weights(step, rows), self.windows.demonstration[rows])


class _Batches:
    """Minibatches in LeRobot's form, with its mask of padded actions."""

    def __init__(self, parts: Parts, history: History, window_images: ImageWindows) -> None:
        self._parts, self._history, self._window_images = parts, history, window_images
        self._cameras = lerobot_policy.cameras_of(parts.policy.config)
        # Without images all windows fit into memory and are normalised once.
        self._all = None if self._cameras else self._inputs_of(np.arange(len(history)))

    def batch(self, rows: IntArray, device: torch.device) -> dict[str, Tensor]:
        """Inputs, `action` (B, frames, action_dim) float32 and `action_is_pad` (B, frames) bool of the rows (B,)."""
        if self._all is None:
            found = self._inputs_of(rows)
        else:
            index = torch.from_numpy(rows)
            found = {key: value[index] for key, value in self._all.items()}
        return {key: value.to(device) for key, value in found.items()}

    def _inputs_of(self, rows: IntArray) -> dict[str, Tensor]:
        history = self._history
        sent = {"action": torch.from_numpy(history.chunk[rows])}
        *earlier, observations = (rows * history.steps + step for step in range(history.steps))
        seen = [self._parts.preprocessor(self._observed(one)) for one in earlier]
        seen.append(self._parts.preprocessor(self._observed(observations) | sent))
        found = {key: value for key, value in seen[-1].items() if key.startswith("observation.")}
        if history.steps > 1 or self._parts.policy.config.type == "diffusion":
            found = {key: torch.stack([one[key] for one in seen], dim=1) for key in found}
        mask = torch.from_numpy(history.mask[rows])
        return {**found, "action": seen[-1]["action"] * mask[..., None], "action_is_pad": mask == 0}

    def _observed(self, observations: IntArray) -> dict[str, Any]:
        about = self._parts.about
        inputs: dict[str, Any] = {
            **lerobot_policy.state_inputs(about, self._history.observations.state[observations]),
            "task": [about.task] * len(observations),
        }
        for camera in self._cameras:
            inputs[f"{lerobot_policy.IMAGES}{camera}"] = lerobot_policy.image_tensor(
                self._window_images.at(camera, observations)
            )
        return inputs


def _train(
    parts: Parts, windows: _SampledWindows, batches: _Batches, schedule: TrainingSchedule
) -> Iterator[tuple[int, dict[str, float]]]:
    """Train in place, yielding (steps done, metrics); a killed and resumed run ends with the same bytes."""
    policy: Any = parts.policy
    settings, device = windows.settings, schedule.settings.compute_device
    # 16-bit weights would lose small steps; autocast may still compute the products in 16 bits.
    policy.float().to(device.torch_device)
    policy.config.device = str(device.torch_device)
    optimizer = AveragedAdam(policy.parameters(), schedule.learning_rate, settings.average)
    losses_of = device.compile(row_losses if settings.weights == "loss" else _mean_rows)

    def held_out_loss() -> float:
        torch.manual_seed(schedule.seed)
        parts = np.array_split(windows.evaluated, -(-len(windows.evaluated) // settings.batch))
        policy.eval()
        with torch.no_grad(), device.autocast():
            found = [float(losses_of(policy, batches.batch(rows, device.torch_device)).mean()) for rows in parts]
        policy.train()
        return float(np.mean(found))

    stop = EarlyStopping(settings.early_stop, optimizer, held_out_loss, len(windows.evaluated))
    done = 0
    if (found := read_checkpoint(schedule.checkpoint, schedule.job)) is not None:
        table, done = found
        optimizer.restore("actor", table)
        stop.restore(table)
        _restore_buffers(policy, table)
    policy.train()
    last = done if stop.ended else schedule.steps
    if done == last:
        yield done, {"steps": float(done)} | stop.metrics()
    for step in range(done, last):
        random = np.random.default_rng((schedule.seed, step))
        torch.manual_seed(int(random.integers(2**62)))
        rows = windows.rows(random)
        weights = torch.from_numpy(windows.weights(step, rows)).to(device.torch_device)
        with device.autocast():
            loss = (weights * losses_of(policy, batches.batch(rows, device.torch_device))).mean()
        optimizer.minimise(loss, step)
        done = step + 1
        # Evaluations and checkpoints happen only on reported steps, after the loss was checked to be finite.
        if done % REPORT_STEPS and done < schedule.steps:
            continue
        metrics = {"loss": finite_loss(loss, done), "steps": float(done)}
        ending = stop.should_end(done)
        if done % CHECKPOINT_STEPS == 0 or done == schedule.steps or ending:
            write_checkpoint(
                schedule.checkpoint, optimizer.tensors("actor") | stop.tensors() | _buffers(policy), schedule.job, done
            )
        yield done, metrics | stop.metrics() | device.metrics()
        if ending:
            break
    stop.set_final_weights()
    policy.to("cpu").eval()
    policy.config.device = "cpu"


def _mean_rows(policy: Any, batch: dict[str, Tensor]) -> Tensor:
    """The policy's own mean loss, for weights that act on the sampling."""
    return mean_loss(policy, batch)


def _buffers(policy: Any) -> TensorTable:
    """float32 buffers of the network, such as the running means of batch normalisation."""
    return {
        f"buffer.{name}": value.cpu().numpy().copy()
        for name, value in policy.named_buffers()
        if value.dtype == torch.float32
    }


def _restore_buffers(policy: Any, table: TensorTable) -> None:
    for name, value in policy.named_buffers():
        if f"buffer.{name}" in table:
            value.copy_(torch.from_numpy(np.array(table[f"buffer.{name}"])).reshape(value.shape))
