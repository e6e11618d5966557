"""Weighted flow matching on windows: the one training loop of cloning, filtered cloning and HABC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from enpire.errors import LearningProblem
from enpire.types import FloatArray, IntArray, MaskArray
from policies.bounds import above_zero, at_least
from policies.device import Device, DeviceName, Precision
from policies.early_stop import EarlyStopping, evaluation_rows, held_out
from policies.flow_network import FlowBatch, FlowNetwork, flow_losses, weighted_loss
from policies.flow_policy import FlowShape, FlowVersion
from policies.habc.segments import Windows
from policies.habc.weights import normalised
from policies.normalise import Scale, fourier
from policies.optimizer import AveragedAdam, CosineSchedule, TensorTable, read_checkpoint, write_checkpoint

CHECKPOINT_STEPS = 250
REPORT_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """What a recipe may say about the actor and its training."""

    horizon: int = 8
    execute: int = 4
    hidden: int = 256
    depth: int = 3
    frequencies: int = 4
    euler_steps: int = 10
    temperature: float = 1.0
    """Spread of the initial noise that the new version samples with."""
    batch: int = 256
    passes: float = 9.3
    """Gradient steps are this many passes over the windows in use."""
    least_steps: int = 200
    most_steps: int = 6000
    learning_rate: float = 1e-3
    last_learning_rate: float = 1e-5
    average: float = 0.995
    """Share of the average of the weights that one step keeps; the version gets the average."""
    stride: int = 2
    """Frames between the beginnings of two windows."""
    early_stop: int = 0
    """Looks (one every 50 steps) without a new lowest loss on held-out episodes after which training ends; 0: it never
    does, and nothing is held out."""
    device: DeviceName = "auto"
    """Where the actor is trained; `auto` is a GPU when torch sees one. Only the CPU gives the same bytes again."""
    precision: Precision = "auto"
    """Of its matrix products; `auto` is bfloat16 on a GPU, float32 on the CPU."""
    compile: bool = False
    """Its loss goes through torch.compile; on a GPU only."""
    unseen: str = ""
    """Names of sensed numbers, with spaces between, that a policy without a parent never sees; its children neither.
    What a demonstration's next command can be guessed from without looking at the scene, such as the last command or
    the clock, is better hidden (causal confusion in imitation, de Haan et al., arXiv 1905.11979)."""

    def __post_init__(self) -> None:
        """Say which value is not allowed; the file's name is added by whoever parses."""
        at_least(1, self, "horizon execute hidden depth euler_steps batch stride least_steps most_steps")
        at_least(0, self, "frequencies temperature last_learning_rate early_stop")
        above_zero(self, "passes learning_rate")
        if self.execute > self.horizon:
            raise ValueError(f"execute is {self.execute}; allowed is 1 to horizon ({self.horizon}).")
        if not 0 <= self.average < 1:
            raise ValueError(f"average is {self.average}; it must be in [0, 1).")

    def steps(self, windows: int) -> int:
        """Gradient steps for that many windows."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.passes * windows / self.batch)))

    @property
    def compute_device(self) -> Device:
        """Where the actor is trained. LearningProblem when that is not there."""
        return Device.of(self.device, self.precision, self.compile)

    def shape(self, state_dim: int, action_dim: int) -> FlowShape:
        """The network for a task's widths."""
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
class FlowBatches:
    """Windows ready for the actor: features computed, numbers normalised."""

    features: FloatArray
    """(N, state_features)."""
    chunk: FloatArray
    """(N, chunk_dim), normalised."""
    mask: FloatArray
    """(N, chunk_dim)."""
    demonstration: MaskArray
    """(N,)."""
    sampling_weights: FloatArray
    """(N,), how often a window is drawn relative to others, >= 0."""
    episode: IntArray
    """(N,), which windows are of one episode."""

    @classmethod
    def of(
        cls, windows: Windows, shape: FlowShape, scales: tuple[Scale, Scale], sampling_weights: FloatArray
    ) -> FlowBatches:
        """Prepare windows with the scales of (state, action)."""
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
        return FlowBatch(
            features=torch.from_numpy(self.features[rows]).to(device.torch_device),
            chunk=torch.from_numpy(chunk).to(device.torch_device),
            mask=torch.from_numpy(self.mask[rows]).to(device.torch_device),
            noise=torch.from_numpy(random.standard_normal(chunk.shape, dtype=np.float32)).to(device.torch_device),
            time=torch.from_numpy(random.random(len(rows), dtype=np.float32)).to(device.torch_device),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSchedule:
    """How long an actor trains, from which numbers, and where it keeps its place."""

    settings: FlowSettings
    steps: int
    seed: int
    checkpoint: Path
    job: str
    """Digest of everything that the result depends on."""

    @property
    def cosine(self) -> CosineSchedule:
        """The learning rate over the steps."""
        return CosineSchedule(
            first=self.settings.learning_rate, last=self.settings.last_learning_rate, steps=self.steps
        )


WeightFunction = Callable[[int, IntArray], FloatArray]
"""(step, rows of the minibatch) -> weights (B,) before normalisation."""


class AuxiliaryTraining:
    """Something that learns beside the actor and lies in the same checkpoint; this one does nothing."""

    def step(self, step: int) -> None:
        """Before the actor's step."""

    def tensors(self) -> TensorTable:
        """State for the checkpoint."""
        return {}

    def restore(self, table: TensorTable) -> None:
        """Take the state up."""


def train_actor(
    network: FlowNetwork,
    batches: FlowBatches,
    schedule: TrainingSchedule,
    weight_function: WeightFunction,
    auxiliary: AuxiliaryTraining,
) -> Iterator[tuple[int, dict[str, float]]]:
    """Train in place, yielding (steps done, figures) now and then; at the end the network holds the averaged weights.

    Every step draws from a generator of its own number, so that a run killed anywhere goes on to the same bytes.
    """
    settings, device = schedule.settings, schedule.settings.compute_device
    network.to(device.torch_device)
    optimizer = AveragedAdam(network.parameters(), schedule.cosine, settings.average)
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
    cumulative = np.cumsum(batches.sampling_weights * ~held, dtype=np.float64)
    if not cumulative[-1] > 0:
        raise LearningProblem(
            "No window may be imitated: there is neither a demonstration nor a success; collect more."
        )
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
        # Looks and checkpoints fall on steps that are reported, and none of them on a loss that is no number.
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


def finite_loss(loss: torch.Tensor, done: int) -> float:
    """The loss as a number; LearningProblem when it is none."""
    value = float(loss.detach())
    if not math.isfinite(value):
        raise LearningProblem(f"The policy's loss is {value} after {done} steps; lower learning_rate.")
    return value


def version_of(network: FlowNetwork, scales: tuple[Scale, Scale], temperature: float) -> FlowVersion:
    """The network as a version that stations can run."""
    return FlowVersion(
        shape=network.shape, state=scales[0], action=scales[1], temperature=temperature, weights=network.weights()
    )
