"""Weighted flow matching on windows: the training loop that cloning, filtered cloning, Recap and HABC share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from enpire.errors import LearningProblem
from enpire.shares import require_share
from enpire.types import FloatArray, IntArray, MaskArray
from policies.bounds import above_zero, at_least
from policies.device import Device, DeviceName, Precision
from policies.early_stop import EarlyStopping, evaluation_rows, held_out
from policies.flow_network import FlowBatch, FlowNetwork, flow_losses, weighted_loss
from policies.flow_shape import FlowShape
from policies.habc.segments import Windows
from policies.habc.weights import normalised
from policies.normalise import Scale, fourier
from policies.optimizer import AveragedAdam, CosineSchedule, TensorTable, read_checkpoint, write_checkpoint

CHECKPOINT_STEPS = 250
REPORT_STEPS = 50
SMOKE_STEPS: Mapping[str, int] = {"least_steps": 20, "most_steps": 20}
"""Settings of a smoke run (`enpire.processes.smoke_run`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """Settings of the actor and its training."""

    horizon: int = 8
    execute: int = 4
    hidden: int = 256
    depth: int = 3
    frequencies: int = 4
    euler_steps: int = 10
    temperature: float = 1.0
    """Standard deviation of the initial noise that a version without a parent samples with."""
    batch: int = 256
    passes: float = 9.3
    """Gradient steps, as passes over the windows in use."""
    least_steps: int = 200
    most_steps: int = 6000
    learning_rate: float = 1e-3
    last_learning_rate: float = 1e-5
    average: float = 0.995
    """Decay of the moving average of the weights, per step; the version gets the average."""
    stride: int = 2
    """Frames between the starts of two windows."""
    early_stop: int = 0
    """Evaluations (one every 50 steps) without a new lowest loss on held-out episodes after which training ends. 0: no
    episode is held out and training runs to its last step."""
    device: DeviceName = "auto"
    """Device that trains the actor; `auto` is a GPU if torch sees one. Only `cpu` gives the same bytes every time."""
    precision: Precision = "auto"
    """Number format of matrix products; `auto` is bfloat16 on a GPU and float32 on the CPU."""
    compile: bool = False
    """Compile the loss with torch.compile; only on a GPU."""
    unseen: str = ""
    """Names of state numbers, separated by spaces, that are hidden from a policy without a parent and from all its
    descendants. Hide what predicts a demonstration's next command without the scene, such as the last command or the
    clock (causal confusion, de Haan et al., arXiv 1905.11979)."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError; the parser adds the file's name."""
        at_least(1, self, "horizon execute hidden depth euler_steps batch stride least_steps most_steps")
        at_least(0, self, "frequencies temperature last_learning_rate early_stop")
        above_zero(self, "passes learning_rate")
        if self.execute > self.horizon:
            raise ValueError(f"execute is {self.execute}; allowed is 1 to horizon ({self.horizon}).")
        require_share("average", self.average, "[0, 1)")

    def steps(self, windows: int) -> int:
        """Gradient steps for this number of windows."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.passes * windows / self.batch)))

    @property
    def compute_device(self) -> Device:
        """The device that trains the actor; LearningProblem if the machine does not have it."""
        return Device.of(self.device, self.precision, self.compile)

    def shape(self, state_dim: int, action_dim: int) -> FlowShape:
        """Sizes of the network for a task with these state and action widths."""
        return FlowShape(
            state_dim=state_dim,
            action_dim=action_dim,
            horizon=self.horizon,
            execute=self.execute,
            hidden=self.hidden,
            depth=self.depth,
            frequencies=self.frequencies,
            euler_steps=self.euler_steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorInput:
    """RECAP's indicator of each window, as the actor's training gives it to the network."""

    values: FloatArray
    """(N,) float32, 1 positive, -1 negative."""
    dropout: float
    """Share of samples that do not get it, in [0, 1]; from these the network learns the unconditioned policy."""

    def at(self, rows: IntArray, random: np.random.Generator) -> FloatArray:
        """The indicator of windows `rows` (B,), 0 where it is dropped at random: (B,) float32."""
        given = random.random(len(rows)) >= self.dropout
        return self.values[rows] * given.astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBatches:
    """The windows of a training run, from which its minibatches are drawn; normalised, features computed."""

    features: FloatArray
    """(N, state_features) float32."""
    chunk: FloatArray
    """(N, chunk_dim) float32, normalised actions; 0 where the mask is 0."""
    mask: FloatArray
    """(N, chunk_dim) float32, 1 where the number counts in the loss, else 0."""
    demonstration: MaskArray
    """(N,), windows of demonstrations."""
    sampling_weights: FloatArray
    """(N,) float32, relative probability that a window is drawn, >= 0."""
    episode: IntArray
    """(N,) int, index of the window's episode."""
    indicator: IndicatorInput | None = None
    """For a network with this input."""

    @classmethod
    def of(
        cls, windows: Windows, shape: FlowShape, scales: tuple[Scale, Scale], sampling_weights: FloatArray
    ) -> FlowBatches:
        """Prepare N windows.

        Args:
            windows: the windows, in units of the robot.
            shape: sizes of the actor.
            scales: of (state, action).
            sampling_weights: (N,), >= 0.
        """
        state, action = scales
        chunk = action.forward(windows.chunk) * windows.mask[..., None]
        mask = np.repeat(windows.mask, shape.action_dim, axis=1)
        return cls(
            features=fourier(state.forward(windows.state), shape.frequencies).astype(np.float32),
            chunk=chunk.reshape(len(windows), shape.chunk_dim).astype(np.float32),
            mask=mask,
            demonstration=windows.demonstration,
            sampling_weights=sampling_weights.astype(np.float32),
            episode=windows.episode,
        )

    def at(self, rows: IntArray, random: np.random.Generator, device: Device) -> FlowBatch:
        """The minibatch of windows `rows` (B,) on `device`, with noise and flow times drawn from `random`."""
        chunk = self.chunk[rows]
        noise = random.standard_normal(chunk.shape, dtype=np.float32)
        time = random.random(len(rows), dtype=np.float32)
        given = None if self.indicator is None else torch.from_numpy(self.indicator.at(rows, random))
        return FlowBatch(
            features=torch.from_numpy(self.features[rows]).to(device.torch_device),
            chunk=torch.from_numpy(chunk).to(device.torch_device),
            mask=torch.from_numpy(self.mask[rows]).to(device.torch_device),
            noise=torch.from_numpy(noise).to(device.torch_device),
            time=torch.from_numpy(time).to(device.torch_device),
            indicator=None if given is None else given.to(device.torch_device),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSchedule:
    """How long an actor trains, with which settings and seed, and where its checkpoint is."""

    settings: FlowSettings
    steps: int
    """Gradient steps."""
    seed: int
    checkpoint: Path
    job: str
    """Digest of everything that the result depends on."""

    @property
    def learning_rate(self) -> CosineSchedule:
        """The learning rate of each step."""
        return CosineSchedule(
            first=self.settings.learning_rate, last=self.settings.last_learning_rate, steps=self.steps
        )


WeightFunction = Callable[[int, IntArray], FloatArray]
"""(step, rows (B,) of the minibatch) -> loss weights (B,) before normalisation."""


class AuxiliaryTraining:
    """A second training that shares the actor's steps and checkpoint. This base class trains nothing."""

    def step(self, step: int) -> None:
        """Called before each step of the actor."""

    def tensors(self) -> TensorTable:
        """The state for the checkpoint."""
        return {}

    def restore(self, table: TensorTable) -> None:
        """Restore the state from a checkpoint."""


def train_actor(
    network: FlowNetwork,
    batches: FlowBatches,
    schedule: TrainingSchedule,
    weight_function: WeightFunction,
    auxiliary: AuxiliaryTraining,
) -> Iterator[tuple[int, dict[str, float]]]:
    """Train `network` in place; at the end it holds the averaged weights.

    Every step seeds its own random generator, so a resumed run ends with the same bytes. Yields (steps done, metrics)
    every REPORT_STEPS and at the last step.

    Raises:
        LearningProblem: no window has a sampling weight above 0, or the loss is not finite.
    """
    settings, device = schedule.settings, schedule.settings.compute_device
    network.to(device.torch_device)
    optimizer = AveragedAdam(network.parameters(), schedule.learning_rate, settings.average)
    losses_of = device.compile(flow_losses)
    held = held_out(batches.episode, batches.sampling_weights) & bool(settings.early_stop)
    evaluated = evaluation_rows(held, batches.sampling_weights, schedule.seed)

    def held_out_loss() -> float:
        batch = batches.at(evaluated, np.random.default_rng((schedule.seed, 13)), device)
        with torch.no_grad(), device.autocast():
            return float(losses_of(network, batch).mean())

    stop = EarlyStopping(settings.early_stop, optimizer, held_out_loss, len(evaluated))
    done = 0
    if (found := read_checkpoint(schedule.checkpoint, schedule.job)) is not None:
        table, done = found
        optimizer.restore("actor", table)
        stop.restore(table)
        auxiliary.restore(table)
    cumulative = cumulative_weights(batches, held)
    last = done if stop.ended else schedule.steps
    if done == last:
        yield done, {"steps": float(done)} | stop.metrics()
    for step in range(done, last):
        auxiliary.step(step)
        random = np.random.default_rng((schedule.seed, step))
        rows = np.searchsorted(cumulative, random.random(settings.batch) * cumulative[-1], side="right")
        weights = torch.from_numpy(normalised(weight_function(step, rows), batches.demonstration[rows]))
        with device.autocast():
            loss = weighted_loss(losses_of(network, batches.at(rows, random, device)), weights.to(device.torch_device))
        optimizer.minimise(loss, step)
        done = step + 1
        # Evaluations and checkpoints happen only on reported steps, after the loss was checked to be finite.
        if done % REPORT_STEPS and done < schedule.steps:
            continue
        metrics = {"loss": finite_loss(loss, done), "steps": float(done)}
        ending = stop.should_end(done)
        if done % CHECKPOINT_STEPS == 0 or done == schedule.steps or ending:
            table = optimizer.tensors("actor") | stop.tensors() | auxiliary.tensors()
            write_checkpoint(schedule.checkpoint, table, schedule.job, done)
        yield done, metrics | stop.metrics() | device.metrics()
        if ending:
            break
    stop.set_final_weights()
    network.to("cpu")


def cumulative_weights(batches: FlowBatches, held: MaskArray) -> NDArray[np.float64]:
    """Cumulative sampling weights of the windows that are trained on, (windows,) float64.

    Args:
        batches: all windows.
        held: (windows,) bool, the windows that are held out.

    Raises:
        LearningProblem: no window has a sampling weight above 0.
    """
    cumulative = np.cumsum(batches.sampling_weights * ~held, dtype=np.float64)
    if not cumulative[-1] > 0:
        raise LearningProblem(
            "No window may be imitated: there is neither a demonstration nor a success; collect more episodes."
        )
    return cumulative


def finite_loss(loss: torch.Tensor, done: int) -> float:
    """A scalar loss as a float; LearningProblem if it is not finite."""
    value = float(loss.detach())
    if not math.isfinite(value):
        raise LearningProblem(
            f"The policy's loss is {value} after {done} steps; it must be finite, so lower learning_rate."
        )
    return value
