"""The velocity field of the flow policy in torch, for training (flow matching, Lipman et al., arXiv 2210.02747)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from enpire.types import FloatArray
from policies.flow_shape import TIME_OCTAVES, FlowShape


def fourier(rows: Tensor, frequencies: int) -> Tensor:
    """`policies.normalise.fourier` on tensors: (..., width) -> (..., width * (1 + 2 * frequencies))."""
    parts = [rows]
    for octave in range(frequencies):
        angle = rows * float(np.float32(np.pi * 2**octave))
        parts += [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts, dim=-1)


def linear_layers(widths: Sequence[int], seed: int, last: float) -> nn.ModuleList:
    """Linear layers of these widths (input first), drawn from `seed`; the last layer's weights are scaled by `last`."""
    layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
    generator = torch.Generator().manual_seed(seed)
    for i, layer in enumerate(layers):
        assert isinstance(layer, nn.Linear)
        bound = layer.in_features**-0.5 * (last if i == len(layers) - 1 else 1.0)
        with torch.no_grad():
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.zero_()
    return layers


class SmallNetwork(nn.Module):
    """Linear layers with SiLU between them; `policies.perceptron.Perceptron` runs the trained weights in numpy."""

    def __init__(self, widths: Sequence[int], seed: int, last: float = 1.0) -> None:
        """`widths`: input first, output last. `last`: factor on the initial weights of the last layer."""
        super().__init__()
        self.layer = linear_layers(widths, seed, last)

    def forward(self, row: Tensor) -> Tensor:
        """(B, widths[0]) float32 -> (B, widths[-1])."""
        for layer in self.layer[:-1]:
            row = nn.functional.silu(layer(row))
        return self.layer[-1](row)

    def weights(self) -> dict[str, FloatArray]:
        """A copy of all weights: `<i>.weight` (out, in) and `<i>.bias` (out,), float32."""
        table = self.state_dict().items()
        return {name.removeprefix("layer."): tensor.detach().numpy().copy() for name, tensor in table}

    def load_weights(self, weights: Mapping[str, FloatArray]) -> None:
        """Load weights in the form that `weights` returns."""
        self.load_state_dict({f"layer.{name}": torch.from_numpy(np.array(value)) for name, value in weights.items()})

    def load_if_same_shape(self, weights: Mapping[str, FloatArray]) -> bool:
        """Load weights (out, in) and biases (out,) of a network of this shape, and return True; or keep these."""
        same = {name: value.shape for name, value in weights.items()} == {
            name: value.shape for name, value in self.weights().items()
        }
        if same:
            self.load_weights(weights)
        return same


class FlowNetwork(nn.Module):
    """A multilayer perceptron: (noisy chunk, flow time, state features) -> velocity of the chunk."""

    def __init__(self, shape: FlowShape, seed: int) -> None:
        """Draw the initial weights from `seed`, not from torch's global generator."""
        super().__init__()
        self.shape = shape
        self.layer = linear_layers(shape.widths, seed, 0.1)
        if shape.indicator:
            self.indicator = nn.Parameter(torch.zeros(shape.hidden))

    def forward(self, chunk: Tensor, time: Tensor, features: Tensor, indicator: Tensor | None = None) -> Tensor:
        """Velocity (B, chunk_dim), all float32.

        Args:
            chunk: (B, chunk_dim), noisy and normalised.
            time: (B,), flow time in [0, 1].
            features: (B, state_features).
            indicator: (B,), RECAP's indicator: 1, -1, or 0 where it is not given; None gives it to no sample.
        """
        row = self.layer[0](torch.cat([chunk, fourier(time[:, None], TIME_OCTAVES), features], dim=-1))
        if indicator is not None:
            # A term of its own leaves the product above as it is: with zeros here the output equals the parent's.
            row = row + indicator[:, None] * self.indicator
        for layer in self.layer[1:]:
            row = layer(nn.functional.silu(row))
        return row

    def weights(self) -> dict[str, FloatArray]:
        """A copy of all weights, float32, with the names and shapes of `FlowVersion.weights`."""
        return {name: tensor.detach().numpy().copy() for name, tensor in self.state_dict().items()}

    def load_weights(self, weights: Mapping[str, FloatArray]) -> None:
        """Load weights in the form that `weights` returns."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBatch:
    """One minibatch of flow matching; float32, normalised."""

    features: Tensor
    """(B, state_features)."""
    chunk: Tensor
    """(B, chunk_dim), the recorded actions."""
    mask: Tensor
    """(B, chunk_dim), 1 where the number counts in the loss, else 0."""
    noise: Tensor
    """(B, chunk_dim), standard normal."""
    time: Tensor
    """(B,), flow time in [0, 1]: 0 is noise, 1 the action."""
    indicator: Tensor | None = None
    """(B,), 1 positive, -1 negative, 0 not given; None without the input."""


def flow_losses(network: FlowNetwork, batch: FlowBatch) -> Tensor:
    """Squared error of the velocity for each sample (B,): the mean over the numbers that the mask counts.

    The conditional path is straight, x_t = (1 - t) noise + t chunk, so its velocity is chunk - noise (Lipman et al.,
    arXiv 2210.02747, eq. 22 and 23 with sigma_min 0).
    """
    time = batch.time[:, None]
    noisy = (1 - time) * batch.noise + time * batch.chunk
    error = network(noisy, batch.time, batch.features, batch.indicator) - (batch.chunk - batch.noise)
    return (error.square() * batch.mask).sum(dim=1) / batch.mask.sum(dim=1).clamp(min=1)


def weighted_loss(losses: Tensor, weights: Tensor) -> Tensor:
    """Mean of weight times loss (both (B,)), a scalar. No gradient flows into the weights."""
    return (weights.detach() * losses).mean()
