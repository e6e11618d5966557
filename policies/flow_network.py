"""The velocity field of the flow policy in torch, for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from enpire.types import FloatArray
from policies.flow_policy import TIME_OCTAVES, FlowShape


def fourier(rows: Tensor, frequencies: int) -> Tensor:
    """The same features as `policies.normalise.fourier`, on tensors."""
    parts = [rows]
    for octave in range(frequencies):
        angle = rows * float(np.float32(np.pi * 2**octave))
        parts += [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts, dim=-1)


class SmallNetwork(nn.Module):
    """Linear layers with SiLU between them: the torch side of `policies.perceptron.Perceptron`."""

    def __init__(self, widths: Sequence[int], seed: int, last: float = 1.0) -> None:
        """Draw the weights from `seed`; those of the last layer are multiplied by `last`."""
        super().__init__()
        self.layer = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        generator = torch.Generator().manual_seed(seed)
        for i, layer in enumerate(self.layer):
            assert isinstance(layer, nn.Linear)
            bound = layer.in_features**-0.5 * (last if i == len(self.layer) - 1 else 1.0)
            with torch.no_grad():
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.zero_()

    def forward(self, row: Tensor) -> Tensor:
        """(B, widths[0]) -> (B, widths[-1])."""
        for layer in self.layer[:-1]:
            row = nn.functional.silu(layer(row))
        return self.layer[-1](row)

    def weights(self) -> dict[str, FloatArray]:
        """A copy of all weights, `<i>.weight` and `<i>.bias`."""
        table = self.state_dict().items()
        return {name.removeprefix("layer."): tensor.detach().numpy().copy() for name, tensor in table}

    def take(self, weights: Mapping[str, FloatArray]) -> None:
        """Replace all weights by what `weights` gave."""
        self.load_state_dict({f"layer.{name}": torch.from_numpy(np.array(value)) for name, value in weights.items()})


class FlowNetwork(nn.Module):
    """A multilayer perceptron: (chunk, flow time, state features) -> velocity of the chunk."""

    def __init__(self, shape: FlowShape, seed: int) -> None:
        """Draw the first weights from `seed` alone, whatever torch's global generator holds."""
        super().__init__()
        self.shape = shape
        widths = shape.widths
        self.layer = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        generator = torch.Generator().manual_seed(seed)
        for i, layer in enumerate(self.layer):
            assert isinstance(layer, nn.Linear)
            bound = layer.in_features**-0.5 * (0.1 if i == len(widths) - 2 else 1.0)
            with torch.no_grad():
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.zero_()

    def forward(self, chunk: Tensor, time: Tensor, features: Tensor) -> Tensor:
        """Velocity (B, chunk_dim) of noisy chunks (B, chunk_dim) at flow times (B,), for state features (B, F)."""
        row = torch.cat([chunk, fourier(time[:, None], TIME_OCTAVES), features], dim=-1)
        for layer in self.layer[:-1]:
            row = nn.functional.silu(layer(row))
        return self.layer[-1](row)

    def weights(self) -> dict[str, FloatArray]:
        """A copy of all weights, by the names that the policy's file uses."""
        return {name: tensor.detach().numpy().copy() for name, tensor in self.state_dict().items()}

    def take(self, weights: Mapping[str, FloatArray]) -> None:
        """Replace all weights."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBatch:
    """One minibatch of flow matching, normalised."""

    features: Tensor
    """(B, state_features)."""
    chunk: Tensor
    """(B, chunk_dim), the recorded actions."""
    mask: Tensor
    """(B, chunk_dim), 1 where a number counts."""
    noise: Tensor
    """(B, chunk_dim), standard normal."""
    time: Tensor
    """(B,), flow time in [0, 1]: 0 is noise, 1 the action."""


def flow_losses(network: FlowNetwork, batch: FlowBatch) -> Tensor:
    """Squared error of the velocity, per sample (B,), mean over the numbers that the mask counts.

    The path is straight: x_t = (1 - t) noise + t chunk, so that its velocity is chunk - noise.
    """
    time = batch.time[:, None]
    noisy = (1 - time) * batch.noise + time * batch.chunk
    error = network(noisy, batch.time, batch.features) - (batch.chunk - batch.noise)
    return (error.square() * batch.mask).sum(dim=1) / batch.mask.sum(dim=1).clamp(min=1)


def weighted_loss(losses: Tensor, weights: Tensor) -> Tensor:
    """Mean over the batch of weight times loss: linear in every weight. No gradient reaches the weights' makers."""
    return (weights.detach() * losses).mean()
