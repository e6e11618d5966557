"""The critics of HABC (arXiv 2606.17043): the probability of success, and the decisions left until success."""

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
"""Rows of one evaluation; with this number the layers' outputs stay in the processor's cache."""

_silu_backward = torch.ops.aten.silu_backward


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticShape:
    """Sizes of the critics and ranges of their outputs."""

    state_dim: int
    frequencies: int = 2
    """Octaves of the Fourier features of the state."""
    hidden: int = 128
    shared_encoder: bool = False
    """True: both heads share one encoder. False: each head has its own."""
    horizon_decisions: float = 40.0
    """T_max, the largest number of decisions in an episode; V_e is in [-T_max, 0]."""
    bounded: bool = True
    """True: V_e is at most 0 by construction."""
    logit_limit: float = 6.0
    """z_v is clipped to [-limit, limit] where it is used; 0 means no limit."""


class Critics(nn.Module):
    """Two heads on the state: z_v, the logit of success, and V_e, minus the decisions left until success.

    Each layer stores the matrices of both heads in one tensor, so that a training step needs few products.
    """

    def __init__(self, shape: CriticShape, seed: int) -> None:
        """Draw the initial weights from `seed`."""
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
        """Fourier features (B, features) of normalised states (B, state_dim), float32."""
        return fourier(state, self.shape.frequencies)

    def viability(self, features: Tensor) -> Tensor:
        """z_v (B,), logits, not clipped, of features (B, features)."""
        return self._alone(features, 0)

    def efficiency(self, features: Tensor) -> Tensor:
        """V_e (B,), in decisions, of features (B, features). The head itself works in units of T_max."""
        return self.in_decisions(self._alone(features, 1))

    def forward(self, rows: Tensor) -> ForwardPass:
        """Evaluate both heads on rows (2, B, features), one batch a head, or (1, B, features), the same for both."""
        count, wide = rows.shape[1:]
        rows = rows.reshape(1, -1, wide) if self.shape.shared_encoder else rows.expand(2, -1, -1)
        first = torch.baddbmm(self.first_bias, rows, self.first)
        mixed = nn.functional.silu(first)
        second = torch.baddbmm(self.second_bias, mixed, self.second)
        encoded = nn.functional.silu(second).view(-1, count, self.shape.hidden)
        # A product and a sum are faster than a matrix product with one column, also in `gradients`.
        output = (encoded * self.last.mT).sum(-1) + self.last_bias.squeeze(-1)
        return ForwardPass(rows=rows, first=first, mixed=mixed, second=second, encoded=encoded, output=output)

    def gradients(self, forward_pass: ForwardPass, loss_gradient: Tensor) -> list[Tensor]:
        """Gradients of all parameters, in their order, from the loss gradient (2, B) in the two heads' outputs.

        Written by hand because autograd's bookkeeping costs more than the products of networks of this size.
        """
        up = loss_gradient[..., None]
        last, last_bias = (forward_pass.encoded * up).sum(1)[..., None], up.sum(1)
        up = (up * self.last.mT).sum_to_size(forward_pass.encoded.shape).view_as(forward_pass.second)
        up = _silu_backward(up, forward_pass.second)
        second, second_bias = torch.bmm(forward_pass.mixed.mT, up), up.sum(1)
        up = _silu_backward(torch.bmm(up, self.second.mT), forward_pass.first)
        return [torch.bmm(forward_pass.rows.mT, up), second, last, up.sum(1), second_bias, last_bias]

    def both_heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(z_v (B,) in logits, V_e (B,) in decisions) of the same features (B, features)."""
        if not self.shape.shared_encoder:
            return self.viability(features), self.efficiency(features)
        output = torch.addmm(self.last_bias.view(2), self._encoded(features, 0), self.last.squeeze(-1).T)
        logits, value = output.unbind(1)
        return logits, self.in_decisions(value)

    def viability_layers(self) -> Mapping[str, FloatArray]:
        """The viability head, state features to z_v: `<i>.weight` (out, in) and `<i>.bias` (out,), float32."""
        layers = ((self.first, self.first_bias), (self.second, self.second_bias), (self.last, self.last_bias))
        found: dict[str, FloatArray] = {}
        for i, (weight, bias) in enumerate(layers):
            found[f"{i}.weight"] = weight[0].detach().numpy().T.copy()
            found[f"{i}.bias"] = bias[0, 0].detach().numpy().copy()
        return found

    def in_decisions(self, output: Tensor) -> Tensor:
        """V_e (B,) in decisions, from the efficiency head's output (B,)."""
        longest = self.shape.horizon_decisions
        return -longest * nn.functional.softplus(output - 1) if self.shape.bounded else longest * output

    def rate(self, output: Tensor) -> Tensor | float:
        """The derivative of `in_decisions` at the head's output (B,)."""
        longest = self.shape.horizon_decisions
        return -longest * torch.sigmoid(output - 1) if self.shape.bounded else longest

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
    """Intermediate results of `Critics.forward`, kept for `Critics.gradients`."""

    rows: Tensor
    """(encoders, rows, features)."""
    first: Tensor
    mixed: Tensor
    second: Tensor
    """(encoders, rows, hidden): before and after the first activation, before the second activation."""
    encoded: Tensor
    """(2, B, hidden), or (1, B, hidden) if both heads have the same rows and encoder."""
    output: Tensor
    """(2, B): z_v of the first batch, and the efficiency head's output for the second, before `in_decisions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    """Temporal differences of B decisions, as the critics read them; float32, normalised."""

    features: Tensor
    """(B, features), of the state at the decision."""
    later: Tensor
    """(B, features), of the state where the temporal difference ends."""
    cost: Tensor
    """(B,), decisions that the difference counts."""
    ends: Tensor
    """(B,), 1 where the episode ends within the difference, else 0."""

    def at(self, index: int | IntArray) -> Transitions:
        """Some of the rows, by index."""
        return Transitions(
            features=self.features[index], later=self.later[index], cost=self.cost[index], ends=self.ends[index]
        )


def viability_gradient(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Gradient (B,) of the viability loss in the logits: weighted binary cross-entropy with Monte Carlo outcomes.

    Logits z, labels y in [0, 1] and weights w are (B,); the loss is sum(w (log(1 + e^z) - y z)) / sum(w).
    """
    return (torch.sigmoid(logits) - labels) * weights / max(float(weights.sum()), 1e-8)


def efficiency_targets(rows: Transitions, later_value: Tensor) -> Tensor:
    """Undiscounted temporal-difference targets (B,) in decisions: V_e where the difference ends, minus its cost.

    `later_value`: (B,) in decisions; it does not count where the episode ends. No gradient flows through a target.
    """
    return later_value.detach() * (1 - rows.ends) - rows.cost


def efficiency_gradient(value: Tensor, target: Tensor, unit: float, counted: Tensor) -> Tensor:
    """Gradient (B,) of the efficiency loss in V_e: a Huber loss with threshold 1, on values in `unit` decisions.

    `value` and `target` are (B,) in decisions; the loss is the mean over rows where `counted` (B,) is 1. With `unit`
    1, as in the paper, the gradient of the rare terminal rows is clipped and V_e diverges (`check_divergence`).
    """
    share = counted / (unit**2 * max(float(counted.sum()), 1.0))
    return (value - target).clamp(-unit, unit) * share


def advantages(critics: Critics, rows: Transitions) -> Advantages:
    """p_v, A_v and A_e of decisions, without gradients."""
    with torch.no_grad():
        return advantages_of(critics.shape, rows, both_of_all(critics, rows.features), both_of_all(critics, rows.later))


def both_of_all(critics: Critics, features: Tensor) -> tuple[Tensor, Tensor]:
    """(z_v (n,) in logits, V_e (n,) in decisions) of many rows (n, features), PART_ROWS at a time."""
    logits, values = zip(*(critics.both_heads(part) for part in features.split(PART_ROWS)), strict=True)
    return torch.cat(logits), torch.cat(values)


def advantages_of(
    shape: CriticShape, rows: Transitions, now: tuple[Tensor, Tensor], later: tuple[Tensor, Tensor]
) -> Advantages:
    """p_v, A_v = z_v(s') - z_v(s) and A_e = target - V_e(s) (arXiv 2606.17043).

    `now` and `later` are (z_v (B,), V_e (B,)) at the two ends of the temporal differences.
    """
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
    """Range and consistency of the efficiency head over its training rows."""

    lowest: float
    """Smallest V_e, in decisions."""
    highest: float
    """Largest V_e, in decisions."""
    mean_advantage: float
    """Mean A_e, in decisions; near 0 if V_e is consistent."""
    sound: bool
    """Whether all of these are within their limits."""


def check_divergence(critics: Critics, rows: Transitions) -> DivergenceCheck:
    """Check that V_e is within [-1.05 T_max, 1] and that the mean of A_e is within 0.1 of 0 on these rows."""
    with torch.no_grad():
        value, later = critics.efficiency(rows.features), critics.efficiency(rows.later)
    gain = efficiency_targets(rows, later) - value
    lowest, highest, mean = float(value.min()), float(value.max()), float(gain.mean())
    inside = lowest >= -1.05 * critics.shape.horizon_decisions and highest <= 1.0
    return DivergenceCheck(lowest=lowest, highest=highest, mean_advantage=mean, sound=bool(inside and abs(mean) < 0.1))


def as_tensor(values: FloatArray) -> Tensor:
    """A float32 tensor of an array of any shape, without a copy if possible."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
