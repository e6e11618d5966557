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
from policies.device import DeviceName, Precision, Workplace
from policies.early_stop import EarlyStop, held_out, rows_to_look_at
from policies.flow_network import FlowBatch, FlowNetwork, flow_losses, weighted_loss
from policies.flow_policy import FlowShape, FlowVersion
from policies.habc.segments import Windows
from policies.habc.weights import normalised
from policies.normalise import Scale, fourier
from policies.optimizer import Descent, Schedule, TensorTable, read_checkpoint, write_checkpoint

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
    def workplace(self) -> Workplace:
        """Where the actor is trained. LearningProblem when that is not there."""
        return Workplace.of(self.device, self.precision, self.compile)

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
class Lesson:
    """Windows ready for the actor: features computed, numbers normalised."""

    features: FloatArray
    """(N, state_features)."""
    chunk: FloatArray
    """(N, chunk_dim), normalised."""
    mask: FloatArray
    """(N, chunk_dim)."""
    demonstration: MaskArray
    """(N,)."""
    chances: FloatArray
    """(N,), how often a window is drawn relative to others, >= 0."""
    episode: IntArray
    """(N,), which windows are of one episode."""

    @classmethod
    def of(cls, windows: Windows, shape: FlowShape, scales: tuple[Scale, Scale], chances: FloatArray) -> Lesson:
        """Prepare windows with the scales of (state, action)."""
        state, action = scales
        chunk = action.forward(windows.chunk) * windows.mask[..., None]
        mask = np.repeat(windows.mask, shape.action_dim, axis=1)
        return cls(
            features=fourier(state.forward(windows.state), shape.frequencies).astype(np.float32),
            chunk=chunk.reshape(len(windows), shape.chunk_dim).astype(np.float32),
            mask=mask,
            demonstration=windows.demonstration,
            chances=chances.astype(np.float32),
            episode=windows.episode,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How long an actor trains, from which numbers, and where it keeps its place."""

    settings: FlowSettings
    steps: int
    seed: int
    checkpoint: Path
    job: str
    """Digest of everything that the result depends on."""

    @property
    def schedule(self) -> Schedule:
        """The learning rate over the steps."""
        return Schedule(first=self.settings.learning_rate, last=self.settings.last_learning_rate, steps=self.steps)


WeightsOf = Callable[[int, IntArray], FloatArray]
"""(step, rows of the minibatch) -> weights (B,) before normalisation."""


class Extra:
    """Something that learns beside the actor and lies in the same checkpoint; this one does nothing."""

    def step(self, step: int) -> None:
        """Before the actor's step."""

    def tensors(self) -> TensorTable:
        """State for the checkpoint."""
        return {}

    def restore(self, table: TensorTable) -> None:
        """Take the state up."""


def train_actor(
    network: FlowNetwork, lesson: Lesson, course: Course, weights_of: WeightsOf, beside: Extra
) -> Iterator[tuple[int, dict[str, float]]]:
    """Train in place, yielding (steps done, figures) now and then; at the end the network holds the averaged weights.

    Every step draws from a generator of its own number, so that a run killed anywhere goes on to the same bytes.
    """
    settings, place = course.settings, course.settings.workplace
    network.to(place.device)
    descent = Descent(network.parameters(), course.schedule, settings.average)
    losses_of = place.compile(flow_losses)
    held = held_out(lesson.episode, lesson.chances) & bool(settings.early_stop)
    looked = rows_to_look_at(held, lesson.chances, course.seed)

    def held_out_loss() -> float:
        batch = batch_of(lesson, looked, np.random.default_rng((course.seed, 13)), place)
        with torch.no_grad(), place.autocast():
            return float(losses_of(network, batch).mean())

    stop = EarlyStop(settings.early_stop, descent, held_out_loss, len(looked))
    done = 0
    if (found := read_checkpoint(course.checkpoint, course.job)) is not None:
        table, done = found
        descent.restore("actor", table)
        stop.restore(table)
        beside.restore(table)
    ladder = np.cumsum(lesson.chances * ~held, dtype=np.float64)
    if not ladder[-1] > 0:
        raise LearningProblem(
            "No window may be imitated: there is neither a demonstration nor a success; collect more."
        )
    last = done if stop.seen_enough else course.steps
    if done == last:
        yield done, {"steps": float(done)} | stop.figures()
    for step in range(done, last):
        beside.step(step)
        random = np.random.default_rng((course.seed, step))
        rows = np.searchsorted(ladder, random.random(settings.batch) * ladder[-1], side="right")
        weights = torch.from_numpy(normalised(weights_of(step, rows), lesson.demonstration[rows]))
        with place.autocast():
            loss = weighted_loss(losses_of(network, batch_of(lesson, rows, random, place)), weights.to(place.device))
        descent.down(loss, step)
        done = step + 1
        # Looks and checkpoints fall on steps that are reported, and none of them on a loss that is no number.
        if done % REPORT_STEPS and done < course.steps:
            continue
        figures = {"loss": finite_loss(loss, done), "steps": float(done)}
        enough = stop.enough(done)
        if done % CHECKPOINT_STEPS == 0 or done == course.steps or enough:
            table = descent.tensors("actor") | stop.tensors() | beside.tensors()
            write_checkpoint(course.checkpoint, table, course.job, done)
        yield done, figures | stop.figures() | place.figures()
        if enough:
            break
    stop.settle()
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


def batch_of(lesson: Lesson, rows: IntArray, random: np.random.Generator, place: Workplace) -> FlowBatch:
    """These windows with noise and flow times drawn from `random`, at their place."""
    chunk = lesson.chunk[rows]
    return FlowBatch(
        features=torch.from_numpy(lesson.features[rows]).to(place.device),
        chunk=torch.from_numpy(chunk).to(place.device),
        mask=torch.from_numpy(lesson.mask[rows]).to(place.device),
        noise=torch.from_numpy(random.standard_normal(chunk.shape, dtype=np.float32)).to(place.device),
        time=torch.from_numpy(random.random(len(rows), dtype=np.float32)).to(place.device),
    )
