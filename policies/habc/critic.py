"""The critics of HABC: how likely success is, and how many decisions are left."""

from __future__ import annotations

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
    """f_v: state -> logit of success; f_e: state -> minus the decisions still to come on a successful way."""

    def __init__(self, shape: CriticShape, seed: int) -> None:
        """Draw the first weights from `seed` alone."""
        super().__init__()
        self.shape = shape
        wide = shape.state_dim * (1 + 2 * shape.frequencies)
        self.viability_encoder = _encoder(wide, shape.hidden)
        self.efficiency_encoder = self.viability_encoder if shape.shared_encoder else _encoder(wide, shape.hidden)
        self.viability_head, self.efficiency_head = nn.Linear(shape.hidden, 1), nn.Linear(shape.hidden, 1)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    bound = module.in_features**-0.5
                    module.weight.uniform_(-bound, bound, generator=generator)
                    module.bias.zero_()

    def features(self, state: Tensor) -> Tensor:
        """Normalised states (B, state_dim) -> (B, features)."""
        return fourier(state, self.shape.frequencies)

    def viability(self, features: Tensor) -> Tensor:
        """z_v (B,), logits, not clipped."""
        return self.viability_head(self.viability_encoder(features)).squeeze(-1)

    def efficiency(self, features: Tensor) -> Tensor:
        """V_e (B,), in decisions. The head works in units of T_max, so that its targets are of order one."""
        said = self.efficiency_head(self.efficiency_encoder(features)).squeeze(-1)
        return self.shape.horizon_decisions * (-nn.functional.softplus(said - 1) if self.shape.bounded else said)


def _encoder(wide: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(wide, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())


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


def efficiency_loss(value: Tensor, target: Tensor, unit: float) -> Tensor:
    """Huber loss with threshold 1 on values in multiples of `unit` decisions.

    With `unit` 1 (the paper's letter) the rare terminal rows are clipped and V runs away: `check_efficiency` sees it.
    """
    return nn.functional.huber_loss(value / unit, target / unit, delta=1.0)


def advantages(critics: Critics, rows: Transitions) -> Advantages:
    """What the critics say about decisions, without gradients: p_v, A_v = z(s') - z(s), A_e = target - V(s)."""
    limit = critics.shape.logit_limit
    with torch.no_grad():
        now, later = critics.viability(rows.features), critics.viability(rows.later)
        if limit > 0:
            now, later = now.clamp(-limit, limit), later.clamp(-limit, limit)
        span = (-critics.shape.horizon_decisions, 0.0)
        value = critics.efficiency(rows.features).clamp(*span)
        target = efficiency_targets(rows, critics.efficiency(rows.later).clamp(*span))
    return Advantages(
        viability=torch.sigmoid(now).numpy(),
        viability_gain=(later - now).numpy(),
        efficiency_gain=(target - value).numpy(),
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
