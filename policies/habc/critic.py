"""The critics of HABC: how likely success is, and how many decisions are left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from enpire.types import FloatArray
from policies.flow_network import fourier
from policies.habc.weights import Advantages


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticShape:
    """Sizes of the critics and the ranges of what they say."""

    state_dim: int
    frequencies: int = 2
    hidden: int = 128
    shared_encoder: bool = False
    """True: one encoder feeds both heads; False: each head has its own."""
    horizon_decisions: float = 40.0
    """T_max: the most decisions an episode can have; the efficiency head speaks in [-T_max, 0]."""
    bounded: bool = True
    """True: V_e cannot rise above 0, whatever the head says."""
    logit_limit: float = 6.0
    """z_v is clipped to this where it is used; 0 means no limit."""


class Critics(nn.Module):
    """f_v: state -> logit of success; f_e: state -> minus the decisions still to come on a successful way.

    Each layer of both heads is one stack of matrices, so that a training step is a few products for both.
    """

    def __init__(self, shape: CriticShape, seed: int) -> None:
        """Draw the first weights from `seed` alone."""
        super().__init__()
        self.shape = shape
        wide, hidden = shape.state_dim * (1 + 2 * shape.frequencies), shape.hidden
        encoders = 1 if shape.shared_encoder else 2
        generator = torch.Generator().manual_seed(seed)
        sizes = ((encoders, wide, hidden), (encoders, hidden, hidden), (2, hidden, 1))
        drawn = [torch.empty(size).uniform_(-(size[1] ** -0.5), size[1] ** -0.5, generator=generator) for size in sizes]
        self.first, self.second, self.last = (nn.Parameter(weight) for weight in drawn)
        """(encoders, features, hidden), (encoders, hidden, hidden), (2 heads, hidden, 1)."""
        self.first_bias, self.second_bias, self.last_bias = (
            nn.Parameter(torch.zeros(n, 1, out)) for n, _, out in sizes
        )

    def features(self, state: Tensor) -> Tensor:
        """Normalised states (B, state_dim) -> (B, features)."""
        return fourier(state, self.shape.frequencies)

    def viability(self, features: Tensor) -> Tensor:
        """z_v (B,), logits, not clipped."""
        return self._alone(features, 0)

    def efficiency(self, features: Tensor) -> Tensor:
        """V_e (B,), in decisions. The head works in units of T_max, so that its targets are of order one."""
        return self._in_decisions(self._alone(features, 1))

    def both(self, labelled: Tensor, timed: Tensor) -> tuple[Tensor, Tensor]:
        """(z_v of `labelled`, V_e of `timed`), each (B,), from rows (B, features) of the same number."""
        pair = (labelled, timed)
        rows = torch.cat(pair)[None] if self.shape.shared_encoder else torch.stack(pair)
        rows = nn.functional.silu(torch.baddbmm(self.first_bias, rows, self.first))
        rows = nn.functional.silu(torch.baddbmm(self.second_bias, rows, self.second))
        said = torch.baddbmm(self.last_bias, rows.view(2, len(labelled), -1), self.last).squeeze(-1)
        return said[0], self._in_decisions(said[1])

    def opinions(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(z_v, V_e) of the same rows (B, features)."""
        if not self.shape.shared_encoder:
            return self.viability(features), self.efficiency(features)
        said = torch.addmm(self.last_bias.view(2), self._encoded(features, 0), self.last.squeeze(-1).T)
        return said[:, 0], self._in_decisions(said[:, 1])

    def viability_layers(self) -> Mapping[str, FloatArray]:
        """The viability head as plain layers, `<i>.weight` (out, in) and `<i>.bias` (out,): state features to z_v."""
        layers = ((self.first, self.first_bias), (self.second, self.second_bias), (self.last, self.last_bias))
        found: dict[str, FloatArray] = {}
        for i, (weight, bias) in enumerate(layers):
            found[f"{i}.weight"] = weight[0].detach().numpy().T.copy()
            found[f"{i}.bias"] = bias[0, 0].detach().numpy().copy()
        return found

    def _alone(self, rows: Tensor, head: int) -> Tensor:
        return torch.addmm(self.last_bias[head], self._encoded(rows, head), self.last[head]).squeeze(-1)

    def _encoded(self, rows: Tensor, head: int) -> Tensor:
        parts = (self.first_bias, self.first, self.second_bias, self.second)
        # A squeezed view costs the gradient nothing, a selected one a copy.
        shared = self.shape.shared_encoder
        b1, w1, b2, w2 = (part.squeeze(0) if shared else part[head] for part in parts)
        return nn.functional.silu(torch.addmm(b2, nn.functional.silu(torch.addmm(b1, rows, w1)), w2))

    def _in_decisions(self, said: Tensor) -> Tensor:
        return self.shape.horizon_decisions * (-nn.functional.softplus(said - 1) if self.shape.bounded else said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    """Rows that the critics learn from or speak about, normalised."""

    features: Tensor
    """(B, features), at the decision."""
    later: Tensor
    """(B, features), where the temporal difference ends."""
    cost: Tensor
    """(B,), decisions between the two."""
    ends: Tensor
    """(B,), 1 where the episode ends before or there."""


def viability_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Weighted binary cross-entropy of Monte Carlo outcomes: logits, labels in {0, 1} and weights, all (B,)."""
    losses = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return (weights * losses).sum() / weights.sum().clamp(min=1e-8)


def efficiency_targets(rows: Transitions, later_value: Tensor) -> Tensor:
    """Undiscounted temporal-difference targets (B,): minus the decisions counted, plus V later; 0 at the last decision.

    No gradient flows through a target.
    """
    return (later_value.detach() * (1 - rows.ends) - rows.cost).detach()


def efficiency_loss(value: Tensor, target: Tensor, unit: float, counted: Tensor | None = None) -> Tensor:
    """Huber loss with threshold 1 on values in multiples of `unit` decisions, over the rows `counted` (B,) as 1.

    With `unit` 1 (the paper's letter) the rare terminal rows are clipped and V runs away: `check_efficiency` sees it.
    """
    if counted is None:
        return nn.functional.huber_loss(value / unit, target / unit, delta=1.0)
    losses = nn.functional.huber_loss(value / unit, target / unit, delta=1.0, reduction="none")
    return (losses * counted).sum() / counted.sum().clamp(min=1)


def advantages(critics: Critics, rows: Transitions) -> Advantages:
    """What the critics say about decisions, without gradients."""
    with torch.no_grad():
        return advantages_of(critics.shape, rows, critics.opinions(rows.features), critics.opinions(rows.later))


def advantages_of(
    shape: CriticShape, rows: Transitions, now: tuple[Tensor, Tensor], later: tuple[Tensor, Tensor]
) -> Advantages:
    """p_v, A_v = z(s') - z(s), A_e = target - V(s), from (z, V) at both ends of the temporal difference."""
    limit, longest = shape.logit_limit, shape.horizon_decisions
    before, after = (z.clamp(-limit, limit) if limit > 0 else z for z in (now[0], later[0]))
    target = efficiency_targets(rows, later[1].clamp(-longest, 0.0))
    return Advantages(
        viability=torch.sigmoid(before).numpy(),
        viability_gain=(after - before).numpy(),
        efficiency_gain=(target - now[1].clamp(-longest, 0.0)).numpy(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Soundness:
    """Whether the efficiency head stayed within what it can mean."""

    lowest: float
    highest: float
    mean_gain: float
    """Mean A_e over its own training rows: near 0 when V is consistent."""
    sound: bool


def check_efficiency(critics: Critics, rows: Transitions) -> Soundness:
    """The divergence guard: V within [-1.05 T_max, 1] and |mean A_e| below 0.1 over the training rows."""
    with torch.no_grad():
        value, later = critics.efficiency(rows.features), critics.efficiency(rows.later)
    gain = efficiency_targets(rows, later) - value
    lowest, highest, mean = float(value.min()), float(value.max()), float(gain.mean())
    inside = lowest >= -1.05 * critics.shape.horizon_decisions and highest <= 1.0
    return Soundness(lowest=lowest, highest=highest, mean_gain=mean, sound=bool(inside and abs(mean) < 0.1))


def rows_of(values: FloatArray) -> Tensor:
    """A tensor over the same numbers, float32."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
