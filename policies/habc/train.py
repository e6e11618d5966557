"""Training of HABC's critics: their rows and targets, gradient steps, and checkpoints that resume bit for bit."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
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
from policies.habc.diagnostics import p_v_at_start
from policies.habc.labels import bootstrap_shares, label_weights
from policies.habc.segments import Part, Windows, efficiency_mask
from policies.habc.settings import HabcSettings
from policies.habc.weights import Advantages, ExchangeRate, GateForm, WeightRule, gate, gated
from policies.normalise import Scale
from policies.optimizer import AveragedAdam, CosineSchedule, TensorTable, read_checkpoint, write_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ViabilityLabels:
    """Labels of M rows of the viability head: an outcome, p_v of a later state, or a mixture of both."""

    outcome: FloatArray
    """(M,), in [0, 1]."""
    later: Tensor
    """(M, features), of the later state."""
    share: FloatArray
    """(M,), share of p_v later in the label, in [0, 1]."""
    weight: FloatArray
    """(M,), 0 without a label."""


class CriticTargets:
    """Labels and weights of the M training rows: the N windows, then the labelled last states of episodes.

    They are packed with the transitions in one table (2 M, 2 features + 6), so that one gather makes a minibatch: first
    the rows of the viability head, which end at the state of its label, then those of the efficiency head.
    """

    def __init__(self, rows: Transitions, labels: ViabilityLabels, efficiency_weight: FloatArray) -> None:
        """Pack M transitions, their labels, and (M,) 1 for rows that train the efficiency head, else 0."""
        targets = map(as_tensor, (labels.outcome, labels.weight, labels.share, efficiency_weight))
        columns = torch.stack((rows.cost, rows.ends, *targets), dim=1)
        self._table = torch.cat([torch.cat((rows.features, to, columns), dim=1) for to in (labels.later, rows.later)])
        self._wide = rows.features.shape[1]
        self.bootstraps = bool((labels.share[labels.weight > 0] > 0).any())
        self.viability_rows = np.flatnonzero(labels.weight > 0)
        """(viability rows,) int, of 0 to M - 1: the rows that train the viability head."""
        self.efficiency_rows = np.flatnonzero(efficiency_weight > 0)
        """(efficiency rows,) int, of 0 to M - 1: the rows that train the efficiency head."""
        self.first_row = (0, len(efficiency_weight))
        """The first row of the table for the viability head, and for the efficiency head."""

    def at(self, drawn: Tensor) -> tuple[Transitions, Sequence[Tensor]]:
        """Transitions of table rows `drawn` (2, B), and label, weight, share and efficiency weight, each (2, B).

        `drawn` may also be (B,), and they are (B,) then.
        """
        rows = self._table.index_select(0, drawn.flatten()).view(*drawn.shape, -1)
        features, later, columns = rows.split_with_sizes((self._wide, self._wide, 6), dim=-1)
        cost, ends, *targets = columns.unbind(dim=-1)
        return Transitions(features=features, later=later, cost=cost, ends=ends), targets


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticData:
    """The data of the critics' training."""

    windows: Windows
    transitions: Transitions
    """Of all N windows, in order."""
    targets: CriticTargets
    successes: int
    """Number of successful policy episodes without an intervention before their last windows."""
    scale: Scale
    """Of the state, as the critics see it."""


def critic_data(
    windows: Windows, settings: HabcSettings, scale: Scale, kappa: float, training: MaskArray
) -> CriticData:
    """Training rows of both heads.

    Args:
        windows: N windows.
        settings: of the recipe.
        scale: of the state, as the actor sees it. The critics see all of it: what makes an actor imitate badly, such as
            a clock that tells it what to do, still tells how likely a success is.
        kappa: share of failures that operators prevented, in [0, 1).
        training: (N,) bool, the windows to train on; the others are held out.
    """
    scale = scale.seeing_all(windows.state)
    transitions = window_transitions(windows, settings, scale)
    later = bootstrap_shares(windows, settings)
    weight = label_weights(windows, settings, kappa) * training
    if not (weight * (1 - later)).any():
        weight[:] = 0  # Without an outcome p_v later is no label.
    # Policy windows before an intervention can be part of a success, too, but of the operator's.
    autonomous = windows.success & np.isin(windows.part, (Part.AUTONOMOUS, Part.AFTER_INTERVENTION))
    successes = len(np.unique(windows.episode[autonomous]))
    efficiency_weight = efficiency_mask(windows, settings.partition)
    if successes < settings.few_successes:
        efficiency_weight |= windows.success & windows.demonstration
    last = np.flatnonzero((weight > 0) & windows.ends & (windows.cost == 0) & settings.label_ends)
    rows = np.concatenate((np.arange(len(windows)), last))
    training_rows = Transitions(
        features=torch.cat((transitions.features, transitions.later[last])),
        later=transitions.later[rows],
        cost=transitions.cost[rows],
        ends=transitions.ends[rows],
    )
    smooth = windows.success.astype(np.float32).clip(settings.label_smoothing, 1 - settings.label_smoothing)
    counted = np.append(efficiency_weight & training, np.zeros(len(last)))
    share = np.append(later, np.zeros(len(last), np.float32))
    labels = ViabilityLabels(
        outcome=smooth[rows],
        later=_features(windows.label_state, settings, scale)[rows],
        share=share,
        weight=weight[rows],
    )
    return CriticData(
        windows=windows,
        transitions=transitions,
        targets=CriticTargets(training_rows, labels, counted),
        successes=successes,
        scale=scale,
    )


def window_transitions(windows: Windows, settings: HabcSettings, scale: Scale) -> Transitions:
    """The transitions of all windows."""
    return transitions((windows.state, windows.next_state), windows.cost, windows.ends, settings, scale)


def transitions(
    states: tuple[FloatArray, FloatArray], cost: FloatArray, ends: MaskArray, settings: HabcSettings, scale: Scale
) -> Transitions:
    """The critics' inputs for n temporal differences.

    Args:
        states: (n, state_dim) at the decision and (n, state_dim) where the difference ends, units of the robot.
        cost: (n,), decisions that the difference counts.
        ends: (n,) bool, whether the episode ends within it.
        settings: of the recipe.
        scale: of the state.
    """
    now, later = (_features(state, settings, scale) for state in states)
    return Transitions(features=now, later=later, cost=as_tensor(cost), ends=as_tensor(ends.astype(np.float32)))


def _features(state: FloatArray, settings: HabcSettings, scale: Scale) -> Tensor:
    """The critics' inputs (n, features) of states (n, state_dim), units of the robot."""
    return fourier(as_tensor(scale.forward(state)), settings.critic_frequencies)


def new_critics(windows: Windows, settings: HabcSettings, seed: int) -> Critics:
    """New critics, with T_max from the longest episode of these windows."""
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
    """Trains the critics before the actor or, as its auxiliary training, at the same steps."""

    def __init__(self, critics: Critics, data: CriticData, settings: HabcSettings, seed: int) -> None:
        """Untrained critics; all gates are 1."""
        self.critics, self.data, self.settings = critics, data, settings
        self._seed = seed
        first = settings.critic_learning_rate
        rate = CosineSchedule(
            first=first, last=first if settings.critic_beside else 0.05 * first, steps=settings.critic_steps
        )
        self._optimizer = AveragedAdam(_parameters(critics), rate, 1 - settings.target_follow)
        self._target = copy.deepcopy(critics)
        self._optimizer.share_average(_parameters(self._target))
        self._done = 0
        self._rows = self._draw(np.random.default_rng((seed, 7)))
        """(critic_steps, 2, critic_batch) int64, table rows of each step and head."""
        self.gates = np.ones(len(data.windows), np.float32)
        """(N,) float32, the gate of each window."""
        self.viability = np.ones(len(data.windows), np.float32)
        """(N,) float32, p_v of each window when the gates were computed."""
        self.gate_form: GateForm = settings.gate
        self.exchange_rate = ExchangeRate(
            time_value=settings.time_value, typical_decisions=self._typical_decisions(data.windows)
        )

    def train_step(self) -> None:
        """One gradient step of both heads, each on its own minibatch."""
        rows, (label, weight, share, efficiency_weight) = self.data.targets.at(self._rows[self._done])
        counted = rows.at(1)
        with torch.inference_mode():
            labels = label[0]
            if self.data.targets.bootstraps:
                # One evaluation of both heads is faster than two of one.
                later, target = self._followed(rows.later).output
                target_value, labels = self._followed.in_decisions(target), _mixed(labels, share[0], later)
            else:
                target_value = self._followed.efficiency(counted.later)
            forward_pass = self.critics(rows.features)
            value = self.critics.in_decisions(forward_pass.output[1])
            self._apply(
                forward_pass,
                viability_gradient(forward_pass.output[0], labels, weight[0]),
                efficiency_gradient(value, efficiency_targets(counted, target_value), self._unit, efficiency_weight[1]),
            )

    def train_step_on(self, drawn: IntArray) -> FloatArray:
        """One gradient step on the actor's minibatch `drawn` (B,) int; returns its gates (B,) from before the step."""
        rows, (label, weight, share, efficiency_weight) = self.data.targets.at(torch.from_numpy(drawn))
        with torch.inference_mode():
            forward_pass = self.critics(rows.features[None])
            now = (forward_pass.output[0], self.critics.in_decisions(forward_pass.output[1]))
            later = self.critics.both_heads(rows.later)
            target_value = later[1] if self.settings.target_follow == 1 else self._target.efficiency(rows.later)
            found = advantages_of(self.critics.shape, rows, now, later)
            self._apply(
                forward_pass,
                viability_gradient(now[0], self._labels(label, share, rows.later), weight),
                efficiency_gradient(now[1], efficiency_targets(rows, target_value), self._unit, efficiency_weight),
            )
        return self._gate(self._scaled(found))

    @property
    def _followed(self) -> Critics:
        """The critics that give the targets: the target network if there is one."""
        return self.critics if self.settings.target_follow == 1 else self._target

    def _labels(self, label: Tensor, share: Tensor, later: Tensor) -> Tensor:
        """Viability labels (B,): outcomes, and p_v of the later states (B, features) with their shares (B,)."""
        if not self.data.targets.bootstraps:
            return label
        return _mixed(label, share, self._followed.viability(later))

    def _apply(self, forward_pass: ForwardPass, viability: Tensor, efficiency: Tensor) -> None:
        loss_gradient = torch.stack((viability, efficiency * self.critics.rate(forward_pass.output[1])))
        self._optimizer.apply_gradients(self.critics.gradients(forward_pass, loss_gradient), self._done)
        self._done += 1

    def update_gates(self, scaled: Advantages, rule: WeightRule) -> None:
        """Recompute the gates of all windows.

        Args:
            scaled: (N,), from `scaled_advantages`.
            rule: which windows the gate weights.
        """
        windows = self.data.windows
        rate = replace(self.exchange_rate, success_rate=p_v_at_start(windows, scaled))
        self.exchange_rate = rate.scaled_to(scaled.at(gated(windows, rule)))
        self.gates, self.viability = self._gate(scaled), scaled.viability

    def ignore_time(self) -> None:
        """Weight by viability alone from here on, because the efficiency head is not sound.

        Forms of the gate that do not use time stay as they are.
        """
        match self.gate_form:
            case "exchange":
                self.exchange_rate = replace(self.exchange_rate, time_value=0.0)
            case "soft":
                self.gate_form = "damped_viability"
            case "fixed" | "hard":
                self.gate_form = "viability"
            case "viability" | "damped_viability" | "off":
                pass

    def scaled_advantages(self) -> Advantages:
        """Advantages of all N windows, as the gates use them."""
        return self._scaled(self.advantages())

    def gates_of(self, found: Advantages) -> FloatArray:
        """Gates (n,) of any n decisions with these advantages (n,)."""
        return self._gate(self._scaled(found))

    def advantages(self) -> Advantages:
        """Advantages of all N windows."""
        return advantages(self.critics, self.data.transitions)

    def divergence_check(self) -> DivergenceCheck | None:
        """Check the efficiency head on its training rows; None if it has none."""
        rows = self.data.targets.efficiency_rows
        return check_divergence(self.critics, self.data.transitions.at(rows)) if len(rows) else None

    def tensors(self) -> TensorTable:
        """The state for a checkpoint."""
        return self._optimizer.tensors("critic") | {
            "critic.gates": self.gates,
            "critic.done": np.array([self._done], np.float32),
        }

    def restore(self, table: TensorTable) -> None:
        """Restore the state from a checkpoint."""
        self._optimizer.restore("critic", table)
        self.gates = np.array(table["critic.gates"])
        self._done = int(table["critic.done"][0])

    @property
    def done(self) -> int:
        """Gradient steps done."""
        return self._done

    def _gate(self, scaled: Advantages) -> FloatArray:
        return gate(scaled, self.gate_form, self.exchange_rate)

    def _typical_decisions(self, windows: Windows) -> float:
        """Median decisions of the policy's successes without an intervention; without any, the longest episode's."""
        lengths = windows.length[(windows.part == Part.AUTONOMOUS) & windows.success & (windows.tick == 0)]
        if not len(lengths):
            return self.critics.shape.horizon_decisions
        return float(np.median(lengths)) * self.settings.stride / self.settings.execute

    def _scaled(self, raw: Advantages) -> Advantages:
        """Advantages with A_e reduced while it was trained on few successes (`shrink`)."""
        n = self.data.successes
        trust = self.settings.efficiency_gain * n / (n + self.settings.shrink) if n else 0.0
        return raw if trust == 1 else replace(raw, efficiency_advantage=raw.efficiency_advantage * np.float32(trust))

    def _draw(self, random: np.random.Generator) -> Tensor:
        steps, size = self.settings.critic_steps, self.settings.critic_batch
        drawn = np.zeros((steps, 2, size), np.int64)
        targets = self.data.targets
        for head, rows in enumerate((targets.viability_rows, targets.efficiency_rows)):
            if len(rows):
                drawn[:, head] = rows[random.integers(len(rows), size=(steps, size))] + targets.first_row[head]
        return torch.from_numpy(drawn)

    @property
    def _unit(self) -> float:
        return self.critics.shape.horizon_decisions if self.settings.efficiency_unit == "horizon" else 1.0


def _mixed(label: Tensor, share: Tensor, later: Tensor) -> Tensor:
    """Viability labels (B,): outcomes (B,), and p_v of logits `later` (B,) with their shares (B,)."""
    return label + share * (torch.sigmoid(later) - label)


def pretrain_critics(training: CriticTraining, schedule: TrainingSchedule) -> None:
    """Train the critics for `critic_steps` steps, or restore them from a checkpoint of the same job."""
    path = schedule.checkpoint.with_name("critics.safetensors")
    if (found := read_checkpoint(path, schedule.job)) is not None:
        training.restore(found[0])
    while training.done < training.settings.critic_steps:
        training.train_step()
    write_checkpoint(path, training.tensors(), schedule.job, training.done)


def _parameters(critics: Critics) -> list[torch.nn.Parameter]:
    """Each parameter once, in a fixed order."""
    return list(critics.parameters())
