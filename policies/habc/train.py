"""Training of the critics: which rows they learn from, one step at a time, resumable to the last bit."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from enpire.types import FloatArray, IntArray, MaskArray
from policies.descent import Descent, Schedule, TensorTable, read_checkpoint, write_checkpoint
from policies.flow_network import fourier
from policies.flow_training import Course, Extra
from policies.habc.critic import (
    Critics,
    CriticShape,
    Soundness,
    Transitions,
    advantages,
    advantages_of,
    check_efficiency,
    efficiency_loss,
    efficiency_targets,
    rows_of,
    viability_loss,
)
from policies.habc.segments import Part, Windows, in_efficiency, labels
from policies.habc.settings import HabcSettings
from policies.habc.weights import Advantages, GateForm, gate
from policies.normalise import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Rows of the viability head."""

    features: Tensor
    """(V, features)."""
    label: Tensor
    """(V,), in [0, 1]."""
    weight: Tensor
    """(V,), mean 1."""


class Marks:
    """What each of the N windows may teach, for critics that learn from the actor's own minibatches.

    One packed table (N, 2 features + 5), so that a minibatch is gathered at once.
    """

    def __init__(self, every: Transitions, label: FloatArray, weight: FloatArray, timed: FloatArray) -> None:
        """`label` in [0, 1] and its `weight`, 0 where there is none; `timed` 1 for the efficiency head; all (N,)."""
        columns = (every.cost, every.ends, rows_of(label), rows_of(weight), rows_of(timed))
        self._table = torch.cat((every.features, every.later, torch.stack(columns, dim=1)), dim=1)
        self._wide = every.features.shape[1]
        self.any: MaskArray = (weight > 0) | (timed > 0)
        """(N,), windows that teach one of the heads."""

    def at(self, drawn: IntArray) -> tuple[Transitions, tuple[Tensor, Tensor, Tensor]]:
        """Rows of a minibatch and their (label, weight, timed), each (B,)."""
        rows = self._table[torch.from_numpy(drawn)]
        features, later, columns = rows.split((self._wide, self._wide, 5), dim=1)
        cost, ends, *marks = columns.unbind(dim=1)
        return Transitions(features=features, later=later, cost=cost, ends=ends), (marks[0], marks[1], marks[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that the critics see of the windows."""

    windows: Windows
    every: Transitions
    """All N windows, in order."""
    labelled: Labelled
    timed: Transitions
    """The windows of the efficiency head."""
    marks: Marks
    successes: int
    """Successful policy episodes."""


def label_weights(windows: Windows, settings: HabcSettings, kappa: float) -> FloatArray:
    """Weights (N,) of the viability labels.

    What is missing from the data is made up for: rollouts that were stopped early by those of the control arm, and the
    share kappa of the failures that operators took away by the other failures.
    """
    weights = windows.stands_for.astype(np.float32)
    if settings.balance_length:
        weights /= windows.length
    if settings.correct_interception:
        pure_failure = ~windows.success & windows.policy
        weights = np.where(pure_failure, weights / (1 - min(kappa, 0.95)), weights)
    return weights.astype(np.float32)


def evidence_of(windows: Windows, settings: HabcSettings, scale: Scale, kappa: float, shown: MaskArray) -> Evidence:
    """Rows for both heads; the heads learn only from windows in `shown` (N,), the rest is held out."""
    every = transitions(windows, settings, scale)
    label = labels(windows, settings.partition)
    use = (label >= 0) & shown
    weight = label_weights(windows, settings, kappa)
    smooth = label.clip(settings.label_smoothing, 1 - settings.label_smoothing)
    features, target, heft = [every.features[_index(use)]], [smooth[use]], [weight[use]]
    if settings.label_ends:
        last = use & windows.ends & (windows.cost == 0)
        features.append(every.later[_index(last)])
        target.append(smooth[last])
        heft.append(weight[last])
    heavy = np.concatenate(heft)
    # Policy windows before an intervention are in successful episodes too, but they are a person's success.
    autonomous = windows.success & np.isin(windows.part, (Part.AUTONOMOUS, Part.SUFFIX))
    successes = len(np.unique(windows.episode[autonomous]))
    timed = in_efficiency(windows, settings.partition)
    if successes < settings.few_successes:
        timed |= windows.success & windows.demonstration
    return Evidence(
        windows=windows,
        every=every,
        labelled=Labelled(
            features=torch.cat(features),
            label=rows_of(np.concatenate(target)),
            weight=rows_of(heavy / heavy.mean() if len(heavy) else heavy),
        ),
        timed=_rows(every, timed & shown),
        marks=Marks(every, smooth, weight * use, (timed & shown).astype(np.float32)),
        successes=successes,
    )


def transitions(windows: Windows, settings: HabcSettings, scale: Scale) -> Transitions:
    """All windows as the critics see them."""
    return Transitions(
        features=fourier(rows_of(scale.forward(windows.state)), settings.critic_frequencies),
        later=fourier(rows_of(scale.forward(windows.later_state)), settings.critic_frequencies),
        cost=rows_of(windows.cost),
        ends=rows_of(windows.ends.astype(np.float32)),
    )


def critics_for(windows: Windows, settings: HabcSettings, seed: int) -> Critics:
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


class CriticTraining(Extra):
    """Trains critics, before the actor or beside it; as an `Extra` it lies in the actor's checkpoint."""

    def __init__(self, critics: Critics, evidence: Evidence, settings: HabcSettings, seed: int) -> None:
        """Nothing is trained yet; the gates are all 1."""
        self.critics, self.evidence, self.settings = critics, evidence, settings
        self._seed = seed
        first = settings.critic_learning_rate
        falling = Schedule(
            first=first, last=first if settings.critic_beside else 0.05 * first, steps=settings.critic_steps
        )
        self._descent = Descent(_own(critics), falling, 1 - settings.target_follow)
        self._target = copy.deepcopy(critics)
        self._descent.lend_average(_own(self._target))
        self._done = 0
        self.gates = np.ones(len(evidence.windows), np.float32)
        self.form: GateForm = settings.gate

    def learn(self) -> None:
        """One gradient step of both heads, on its own minibatch."""
        random = np.random.default_rng((self._seed, 7, self._done))
        labelled, timed, size = self.evidence.labelled, self.evidence.timed, self.settings.critic_batch
        drawn = [
            torch.from_numpy(random.integers(count, size=size)) if count else None
            for count in (len(labelled.label), len(timed.cost))
        ]
        match drawn:
            case [Tensor() as told, Tensor() as counted]:
                rows = _rows(timed, counted)
                logits, value = self.critics.both(labelled.features[told], rows.features)
                loss = self._viability_loss(logits, told) + self._efficiency_loss(value, rows)
            case [Tensor() as told, None]:
                loss = self._viability_loss(self.critics.viability(labelled.features[told]), told)
            case [None, Tensor() as counted]:
                rows = _rows(timed, counted)
                loss = self._efficiency_loss(self.critics.efficiency(rows.features), rows)
            case _:
                loss = None
        if loss is not None:
            self._descent.down(loss, self._done)
        self._done += 1

    def learn_from(self, drawn: IntArray) -> FloatArray:
        """One gradient step on the actor's own minibatch; its gates (B,) by the critics as they were before."""
        rows, (label, weight, timed) = self.evidence.marks.at(drawn)
        logits, value = self.critics.opinions(rows.features)
        with torch.no_grad():
            later = self.critics.opinions(rows.later)
            aim = later[1] if self.settings.target_follow == 1 else self._target.efficiency(rows.later)
        loss = viability_loss(logits, label, weight)
        loss = loss + efficiency_loss(value, efficiency_targets(rows, aim), self._unit, timed)
        said = advantages_of(self.critics.shape, rows, (logits.detach(), value.detach()), later)
        self._descent.down(loss, self._done)
        self._done += 1
        return gate(self._scaled(said), self.form)

    def refresh(self) -> Advantages:
        """Compute the gates of all windows from the critics as they are now."""
        scaled = self._scaled(self.advantages())
        self.gates = gate(scaled, self.form)
        return scaled

    def advantages(self) -> Advantages:
        """What the critics say about all windows now."""
        return advantages(self.critics, self.evidence.every)

    def soundness(self) -> Soundness | None:
        """The divergence guard; None when V_e had nothing to learn from."""
        return check_efficiency(self.critics, self.evidence.timed) if len(self.evidence.timed.cost) else None

    def tensors(self) -> TensorTable:
        """State for a checkpoint."""
        return self._descent.tensors("critic") | {
            "critic.gates": self.gates,
            "critic.done": np.array([self._done], np.float32),
        }

    def restore(self, table: TensorTable) -> None:
        """Take the state up."""
        self._descent.restore("critic", table)
        self.gates = np.array(table["critic.gates"])
        self._done = int(table["critic.done"][0])

    @property
    def done(self) -> int:
        """Gradient steps so far."""
        return self._done

    def _scaled(self, said: Advantages) -> Advantages:
        """A_e counts less while few successes have taught it."""
        n = self.evidence.successes
        trust = self.settings.efficiency_gain * n / (n + self.settings.shrink) if n else 0.0
        return said if trust == 1 else replace(said, efficiency_gain=said.efficiency_gain * np.float32(trust))

    def _viability_loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        labelled = self.evidence.labelled
        return viability_loss(logits, labelled.label[rows], labelled.weight[rows])

    def _efficiency_loss(self, value: Tensor, rows: Transitions) -> Tensor:
        asked = self.critics if self.settings.target_follow == 1 else self._target
        with torch.no_grad():
            later = asked.efficiency(rows.later)
        return efficiency_loss(value, efficiency_targets(rows, later), self._unit)

    @property
    def _unit(self) -> float:
        return self.critics.shape.horizon_decisions if self.settings.efficiency_unit == "horizon" else 1.0


def head_start(training: CriticTraining, course: Course) -> None:
    """Train the critics `critic_steps` steps, or take up the result of a run before."""
    path = course.checkpoint.with_name("critics.safetensors")
    if (found := read_checkpoint(path, course.job)) is not None:
        training.restore(found[0])
    while training.done < training.settings.critic_steps:
        training.learn()
    write_checkpoint(path, training.tensors(), course.job, training.done)


def _own(critics: Critics) -> list[torch.nn.Parameter]:
    """Each parameter once, in a fixed order (a shared encoder is listed once)."""
    return list(critics.parameters())


def _rows(rows: Transitions, which: Tensor | MaskArray) -> Transitions:
    index = _index(which) if isinstance(which, np.ndarray) else which
    return Transitions(
        features=rows.features[index], later=rows.later[index], cost=rows.cost[index], ends=rows.ends[index]
    )


def _index(mask: MaskArray) -> Tensor:
    return torch.from_numpy(np.flatnonzero(mask))
