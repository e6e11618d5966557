"""The critics of HABC: how likely success is, and how many decisions are left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from enpire.types import FloatArray, IntArray
from policies.flow_network import fourier
from policies.habc.weights import Advantages

PART_ROWS = 1024
"""So many rows at once: their layers stay in the processor's cache."""

_silu_backward = torch.ops.aten.silu_backward


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
        return self.in_decisions(self._alone(features, 1))

    def forward(self, rows: Tensor) -> ForwardPass:
        """Send rows through both heads: (2, B, features), each head its own, or (1, B, features), both the same."""
        count, wide = rows.shape[1:]
        rows = rows.reshape(1, -1, wide) if self.shape.shared_encoder else rows.expand(2, -1, -1)
        first = torch.baddbmm(self.first_bias, rows, self.first)
        mixed = nn.functional.silu(first)
        second = torch.baddbmm(self.second_bias, mixed, self.second)
        encoded = nn.functional.silu(second).view(-1, count, self.shape.hidden)
        said = torch.baddbmm(self.last_bias, encoded.expand(2, -1, -1), self.last).squeeze(-1)
        return ForwardPass(rows=rows, first=first, mixed=mixed, second=second, encoded=encoded, said=said)

    def gradients(self, forward_pass: ForwardPass, slopes: Tensor) -> list[Tensor]:
        """Gradients of all parameters, in their order, from those (2, B) of a loss in what the two heads said.

        By hand: in networks as small as these the bookkeeping of autograd costs more than the products.
        """
        up = slopes[..., None]
        last, last_bias = torch.bmm(forward_pass.encoded.expand(2, -1, -1).mT, up), up.sum(1)
        up = torch.bmm(up, self.last.mT).sum_to_size(forward_pass.encoded.shape).view_as(forward_pass.second)
        up = _silu_backward(up, forward_pass.second)
        second, second_bias = torch.bmm(forward_pass.mixed.mT, up), up.sum(1)
        up = _silu_backward(torch.bmm(up, self.second.mT), forward_pass.first)
        return [torch.bmm(forward_pass.rows.mT, up), second, last, up.sum(1), second_bias, last_bias]

    def both_heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(z_v, V_e) of the same rows (B, features)."""
        if not self.shape.shared_encoder:
            return self.viability(features), self.efficiency(features)
        said = torch.addmm(self.last_bias.view(2), self._encoded(features, 0), self.last.squeeze(-1).T)
        logits, value = said.unbind(1)
        return logits, self.in_decisions(value)

    def viability_layers(self) -> Mapping[str, FloatArray]:
        """The viability head as plain layers, `<i>.weight` (out, in) and `<i>.bias` (out,): state features to z_v."""
        layers = ((self.first, self.first_bias), (self.second, self.second_bias), (self.last, self.last_bias))
        found: dict[str, FloatArray] = {}
        for i, (weight, bias) in enumerate(layers):
            found[f"{i}.weight"] = weight[0].detach().numpy().T.copy()
            found[f"{i}.bias"] = bias[0, 0].detach().numpy().copy()
        return found

    def in_decisions(self, said: Tensor) -> Tensor:
        """What the efficiency head said, as V_e."""
        longest = self.shape.horizon_decisions
        return -longest * nn.functional.softplus(said - 1) if self.shape.bounded else longest * said

    def rate(self, said: Tensor) -> Tensor | float:
        """The derivative of `in_decisions`."""
        longest = self.shape.horizon_decisions
        return -longest * torch.sigmoid(said - 1) if self.shape.bounded else longest

    def _alone(self, rows: Tensor, head: int) -> Tensor:
        return torch.addmm(self.last_bias[head], self._encoded(rows, head), self.last[head]).squeeze(-1)

    def _encoded(self, rows: Tensor, head: int) -> Tensor:
        parts = (self.first_bias, self.first, self.second_bias, self.second)
        # A squeezed view costs the gradient nothing, a selected one a copy.
        shared = self.shape.shared_encoder
        b1, w1, b2, w2 = (part.squeeze(0) if shared else part[head] for part in parts)
        return nn.functional.silu(torch.addmm(b2, nn.functional.silu(torch.addmm(b1, rows, w1)), w2))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardPass:
    """What a pass through the network leaves for its gradient."""

    rows: Tensor
    """(encoders, rows, features)."""
    first: Tensor
    mixed: Tensor
    second: Tensor
    """(encoders, rows, hidden): before and after the first activation, before the second one."""
    encoded: Tensor
    """(2, B, hidden), or (1, B, hidden) when both heads are fed the same."""
    said: Tensor
    """(2, B): z_v of the first rows, and what the efficiency head says of the second, not yet in decisions."""


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

    def at(self, index: int | IntArray) -> Transitions:
        """Some of the rows."""
        return Transitions(
            features=self.features[index], later=self.later[index], cost=self.cost[index], ends=self.ends[index]
        )


def viability_gradient(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Gradient (B,) in the logits of the weighted binary cross-entropy of Monte Carlo outcomes.

    Logits, labels in [0, 1] and weights are (B,); the loss is sum(w (log(1 + e^z) - y z)) / sum(w).
    """
    return (torch.sigmoid(logits) - labels) * weights / max(float(weights.sum()), 1e-8)


def efficiency_targets(rows: Transitions, later_value: Tensor) -> Tensor:
    """Undiscounted temporal-difference targets (B,): minus the decisions counted, plus V later; 0 at the last decision.

    No gradient flows through a target.
    """
    return later_value.detach() * (1 - rows.ends) - rows.cost


def efficiency_gradient(value: Tensor, target: Tensor, unit: float, counted: Tensor) -> Tensor:
    """Gradient (B,) in V_e of the mean, over the rows `counted` (B,) as 1, of a Huber loss.

    Its threshold is 1, on values in multiples of `unit` decisions. With `unit` 1 (the paper's letter) the rare terminal
    rows are clipped and V runs away: `check_efficiency` sees it.
    """
    share = counted / (unit**2 * max(float(counted.sum()), 1.0))
    return (value - target).clamp(-unit, unit) * share


def advantages(critics: Critics, rows: Transitions) -> Advantages:
    """What the critics say about decisions, without gradients."""
    with torch.no_grad():
        return advantages_of(critics.shape, rows, _all(critics, rows.features), _all(critics, rows.later))


def _all(critics: Critics, features: Tensor) -> tuple[Tensor, Tensor]:
    """(z_v, V_e) of many rows, part by part."""
    logits, values = zip(*(critics.both_heads(part) for part in features.split(PART_ROWS)), strict=True)
    return torch.cat(logits), torch.cat(values)


def advantages_of(
    shape: CriticShape, rows: Transitions, now: tuple[Tensor, Tensor], later: tuple[Tensor, Tensor]
) -> Advantages:
    """p_v, A_v = z(s') - z(s), A_e = target - V(s), from (z, V) at both ends of the temporal difference."""
    limit, longest = shape.logit_limit, shape.horizon_decisions
    before, after = (z.clamp(-limit, limit) if limit > 0 else z for z in (now[0], later[0]))
    target = efficiency_targets(rows, later[1].clamp(-longest, 0.0))
    return Advantages(
        viability=torch.sigmoid(before).numpy(),
        viability_advantage=(after - before).numpy(),
        efficiency_advantage=(target - now[1].clamp(-longest, 0.0)).numpy(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceCheck:
    """Whether the efficiency head stayed within what it can mean."""

    lowest: float
    highest: float
    mean_advantage: float
    """Mean A_e over its own training rows: near 0 when V is consistent."""
    sound: bool


def check_divergence(critics: Critics, rows: Transitions) -> DivergenceCheck:
    """The divergence guard: V within [-1.05 T_max, 1] and |mean A_e| below 0.1 over the training rows."""
    with torch.no_grad():
        value, later = critics.efficiency(rows.features), critics.efficiency(rows.later)
    gain = efficiency_targets(rows, later) - value
    lowest, highest, mean = float(value.min()), float(value.max()), float(gain.mean())
    inside = lowest >= -1.05 * critics.shape.horizon_decisions and highest <= 1.0
    return DivergenceCheck(lowest=lowest, highest=highest, mean_advantage=mean, sound=bool(inside and abs(mean) < 0.1))


def as_tensor(values: FloatArray) -> Tensor:
    """A tensor over the same numbers, float32."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
