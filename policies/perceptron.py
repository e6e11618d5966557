"""A small multilayer perceptron in numpy, for policies that stations run. Rows of a batch are independent."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np

from enpire.errors import PolicyProblem
from enpire.types import FloatArray
from policies.flow_policy import BLOCK_ROWS


class Perceptron:
    """Linear layers with SiLU between them."""

    def __init__(self, weights: Mapping[str, FloatArray], in_features: int, out_features: int) -> None:
        """Load the layers.

        Args:
            weights: `<i>.weight` (out, in) and `<i>.bias` (out,), i = 0, 1, ..., float32.
            in_features: width of the input.
            out_features: width of the output.

        Raises:
            PolicyProblem: a layer is missing, has another shape, or holds numbers that are not finite.
        """
        self._layers: list[tuple[FloatArray, FloatArray]] = []
        wide = in_features
        for i in count():
            if f"{i}.weight" not in weights:
                break
            weight, bias = weights[f"{i}.weight"], weights.get(f"{i}.bias")
            if bias is None or weight.shape != (len(bias), wide) or not np.isfinite(weight).all():
                raise PolicyProblem(
                    f"layer {i} of the network added to the flow policy does not fit; train the version again."
                )
            self._layers.append((np.ascontiguousarray(weight.T, np.float32), bias.astype(np.float32)))
            wide = len(bias)
        if not self._layers or wide != out_features:
            raise PolicyProblem(f"the network added to the flow policy must give {out_features} numbers, not {wide}.")

    def __call__(self, rows: FloatArray) -> FloatArray:
        """(N, in_features) -> (N, out_features) float32, in blocks of BLOCK_ROWS: a row never depends on the others."""
        out = np.empty((len(rows), len(self._layers[-1][1])), np.float32)
        for top in range(0, len(rows), BLOCK_ROWS):
            part = rows[top : top + BLOCK_ROWS]
            block = np.zeros((BLOCK_ROWS, rows.shape[1]), np.float32)
            block[: len(part)] = part
            for i, (weight, bias) in enumerate(self._layers):
                block = block @ weight + bias
                if i < len(self._layers) - 1:
                    with np.errstate(over="ignore"):
                        block = block / (np.float32(1) + np.exp(-block))
            out[top : top + len(part)] = block[: len(part)]
        return out
