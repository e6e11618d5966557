"""Training of the critics: which rows they learn from, one step at a time, resumable to the last bit."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from enpire.types import FloatArray, IntArray, MaskArray
from policies.flow_network import fourier
from policies.flow_training import AuxiliaryTraining, TrainingSchedule
from policies.habc.critic import (
    Critics,
    CriticShape,
    DivergenceCheck,
    ForwardPass,
    Transitions,
    advantages,
    advantages_of,
    as_tensor,
    check_divergence,
    efficiency_gradient,
    efficiency_targets,
    viability_gradient,
)
from policies.habc.segments import Part, Windows, efficiency_mask, viability_labels
from policies.habc.settings import HabcSettings
from policies.habc.weights import Advantages, GateForm, gate
from policies.normalise import Scale
from policies.optimizer import AveragedAdam, CosineSchedule, TensorTable, read_checkpoint, write_checkpoint


class CriticTargets:
    """What each of M rows may teach: the N windows, then the last states that are labelled too.

    One packed table (M, 2 features + 5), so that a minibatch is gathered at once.
    """

    def __init__(self, rows: Transitions, label: FloatArray, weight: FloatArray, timed: FloatArray) -> None:
        """`label` in [0, 1] and its `weight`, 0 where there is none; `timed` 1 for the efficiency head; all (M,)."""
        columns = (rows.cost, rows.ends, as_tensor(label), as_tensor(weight), as_tensor(timed))
        self._table = torch.cat((rows.features, rows.later, torch.stack(columns, dim=1)), dim=1)
        self._wide = rows.features.shape[1]
        self.labelled, self.timed = np.flatnonzero(weight > 0), np.flatnonzero(timed > 0)
        """Rows that teach the viability head, and those that teach the efficiency head."""

    def at(self, drawn: Tensor) -> tuple[Transitions, tuple[Tensor, Tensor, Tensor]]:
        """Rows of a minibatch (...) and their (label, weight, timed), each (...)."""
        rows = self._table.index_select(0, drawn.flatten()).view(*drawn.shape, -1)
        features, later, columns = rows.split_with_sizes((self._wide, self._wide, 5), dim=-1)
        cost, ends, *marks = columns.unbind(dim=-1)
        return Transitions(features=features, later=later, cost=cost, ends=ends), (marks[0], marks[1], marks[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticData:
    """All that the critics see of the windows."""

    windows: Windows
    every: Transitions
    """All N windows, in order."""
    marks: CriticTargets
    successes: int
    """Successful policy episodes."""


def label_weights(windows: Windows, settings: HabcSettings, kappa: float) -> FloatArray:
    """Weights (N,) of the viability labels.

    What is missing from the data is made up for: rollouts that were stopped early by those of the control arm, and the
    share kappa of the failures that operators took away by the failures that nobody touched.
    """
    weights = windows.rollout_weight.astype(np.float32)
    if settings.balance_length:
        weights /= windows.length
    if settings.correct_interception:
        pure_failure = ~windows.success & (windows.part == Part.AUTONOMOUS)
        weights = np.where(pure_failure, weights / (1 - min(kappa, 0.95)), weights)
    return weights.astype(np.float32)


def critic_data(windows: Windows, settings: HabcSettings, scale: Scale, kappa: float, shown: MaskArray) -> CriticData:
    """Rows for both heads; the heads learn only from windows in `shown` (N,), the rest is held out."""
    every = transitions(windows, settings, scale)
    label = viability_labels(windows, settings.partition)
    use = (label >= 0) & shown
    # Policy windows before an intervention are in successful episodes too, but they are a person's success.
    autonomous = windows.success & np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    successes = len(np.unique(windows.episode[autonomous]))
    timed = efficiency_mask(windows, settings.partition)
    if successes < settings.few_successes:
        timed |= windows.success & windows.demonstration
    last = np.flatnonzero(use & windows.ends & (windows.cost == 0) & settings.label_ends)
    rows = np.concatenate((np.arange(len(windows)), last))
    taught = Transitions(
        features=torch.cat((every.features, every.later[last])),
        later=every.later[rows],
        cost=every.cost[rows],
        ends=every.ends[rows],
    )
    smooth = label.clip(settings.label_smoothing, 1 - settings.label_smoothing)
    weight = label_weights(windows, settings, kappa) * use
    counted = np.append(timed & shown, np.zeros(len(last)))
    return CriticData(
        windows=windows,
        every=every,
        marks=CriticTargets(taught, smooth[rows], weight[rows], counted),
        successes=successes,
    )


def transitions(windows: Windows, settings: HabcSettings, scale: Scale) -> Transitions:
    """All windows as the critics see them."""
    return seen((windows.state, windows.next_state), windows.cost, windows.ends, settings, scale)


def seen(
    states: tuple[FloatArray, FloatArray], cost: FloatArray, ends: MaskArray, settings: HabcSettings, scale: Scale
) -> Transitions:
    """Decisions as the critics see them, from the states (n, state_dim) there and where the difference ends."""
    now, later = (fourier(as_tensor(scale.forward(state)), settings.critic_frequencies) for state in states)
    return Transitions(features=now, later=later, cost=as_tensor(cost), ends=as_tensor(ends.astype(np.float32)))


def new_critics(windows: Windows, settings: HabcSettings, seed: int) -> Critics:
    """Fresh critics for these windows."""
    longest = float(windows.length.max()) * settings.stride / settings.execute
    shape = CriticShape(
        state_dim=windows.state.shape[1],
        frequencies=settings.critic_frequencies,
        hidden=settings.critic_hidden,
        shared_encoder=settings.shared_encoder,
        horizon_decisions=max(2.0, math.ceil(longest)),
        bounded=settings.bounded_efficiency,
        logit_limit=settings.logit_limit,
    )
    return Critics(shape, seed)


class CriticTraining(AuxiliaryTraining):
    """Trains critics, before the actor or beside it; as an `Extra` it lies in the actor's checkpoint."""

    def __init__(self, critics: Critics, data: CriticData, settings: HabcSettings, seed: int) -> None:
        """Nothing is trained yet; the gates are all 1."""
        self.critics, self.data, self.settings = critics, data, settings
        self._seed = seed
        first = settings.critic_learning_rate
        falling = CosineSchedule(
            first=first, last=first if settings.critic_beside else 0.05 * first, steps=settings.critic_steps
        )
        self._optimizer = AveragedAdam(_own(critics), falling, 1 - settings.target_follow)
        self._target = copy.deepcopy(critics)
        self._optimizer.share_average(_own(self._target))
        self._done = 0
        self._drawn = self._draw(np.random.default_rng((seed, 7)))
        """(critic_steps, 2, critic_batch), rows of the marks for both heads."""
        self.gates = np.ones(len(data.windows), np.float32)
        self.form: GateForm = settings.gate

    def learn(self) -> None:
        """One gradient step of both heads, each on a minibatch of its own."""
        rows, (label, weight, timed) = self.data.marks.at(self._drawn[self._done])
        counted = rows.at(1)
        with torch.inference_mode():
            aim = (self.critics if self.settings.target_follow == 1 else self._target).efficiency(counted.later)
            forward_pass = self.critics(rows.features)
            value = self.critics.in_decisions(forward_pass.output[1])
            self._step(
                forward_pass,
                viability_gradient(forward_pass.output[0], label[0], weight[0]),
                efficiency_gradient(value, efficiency_targets(counted, aim), self._unit, timed[1]),
            )

    def step_on(self, drawn: IntArray) -> FloatArray:
        """One gradient step on the actor's own minibatch; its gates (B,) by the critics as they were before."""
        rows, (label, weight, timed) = self.data.marks.at(torch.from_numpy(drawn))
        with torch.inference_mode():
            forward_pass = self.critics(rows.features[None])
            now = (forward_pass.output[0], self.critics.in_decisions(forward_pass.output[1]))
            later = self.critics.both_heads(rows.later)
            aim = later[1] if self.settings.target_follow == 1 else self._target.efficiency(rows.later)
            said = advantages_of(self.critics.shape, rows, now, later)
            self._step(
                forward_pass,
                viability_gradient(now[0], label, weight),
                efficiency_gradient(now[1], efficiency_targets(rows, aim), self._unit, timed),
            )
        return gate(self._scaled(said), self.form)

    def _step(self, forward_pass: ForwardPass, viability: Tensor, efficiency: Tensor) -> None:
        loss_gradient = torch.stack((viability, efficiency * self.critics.rate(forward_pass.output[1])))
        self._optimizer.apply_gradients(self.critics.gradients(forward_pass, loss_gradient), self._done)
        self._done += 1

    def update_gates(self) -> Advantages:
        """Compute the gates of all windows from the critics as they are now."""
        scaled = self._scaled(self.advantages())
        self.gates = gate(scaled, self.form)
        return scaled

    def gates_of(self, rows: Transitions) -> tuple[Advantages, FloatArray]:
        """What the critics say about any decisions now, and their gates (n,)."""
        said = advantages(self.critics, rows)
        return said, gate(self._scaled(said), self.form)

    def advantages(self) -> Advantages:
        """What the critics say about all windows now."""
        return advantages(self.critics, self.data.every)

    def divergence_check(self) -> DivergenceCheck | None:
        """The divergence guard; None when V_e had nothing to learn from."""
        timed = self.data.marks.timed
        return check_divergence(self.critics, self.data.every.at(timed)) if len(timed) else None

    def tensors(self) -> TensorTable:
        """State for a checkpoint."""
        return self._optimizer.tensors("critic") | {
            "critic.gates": self.gates,
            "critic.done": np.array([self._done], np.float32),
        }

    def restore(self, table: TensorTable) -> None:
        """Take the state up."""
        self._optimizer.restore("critic", table)
        self.gates = np.array(table["critic.gates"])
        self._done = int(table["critic.done"][0])

    @property
    def done(self) -> int:
        """Gradient steps so far."""
        return self._done

    def _scaled(self, said: Advantages) -> Advantages:
        """A_e counts less while few successes have taught it."""
        n = self.data.successes
        trust = self.settings.efficiency_gain * n / (n + self.settings.shrink) if n else 0.0
        return said if trust == 1 else replace(said, efficiency_advantage=said.efficiency_advantage * np.float32(trust))

    def _draw(self, random: np.random.Generator) -> Tensor:
        steps, size = self.settings.critic_steps, self.settings.critic_batch
        drawn = np.zeros((steps, 2, size), np.int64)
        for head, teaching in enumerate((self.data.marks.labelled, self.data.marks.timed)):
            if len(teaching):
                drawn[:, head] = teaching[random.integers(len(teaching), size=(steps, size))]
        return torch.from_numpy(drawn)

    @property
    def _unit(self) -> float:
        return self.critics.shape.horizon_decisions if self.settings.efficiency_unit == "horizon" else 1.0


def pretrain_critics(training: CriticTraining, schedule: TrainingSchedule) -> None:
    """Train the critics `critic_steps` steps, or take up the result of a run before."""
    path = schedule.checkpoint.with_name("critics.safetensors")
    if (found := read_checkpoint(path, schedule.job)) is not None:
        training.restore(found[0])
    while training.done < training.settings.critic_steps:
        training.learn()
    write_checkpoint(path, training.tensors(), schedule.job, training.done)


def _own(critics: Critics) -> list[torch.nn.Parameter]:
    """Each parameter once, in a fixed order (a shared encoder is listed once)."""
    return list(critics.parameters())
