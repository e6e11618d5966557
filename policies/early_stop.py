"""A training run ends early when the loss on episodes that it does not learn from no longer falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray
from policies.optimizer import AveragedAdam, TensorTable

EVALUATION_STEPS = 50
"""Gradient steps between two looks."""
EVALUATION_ROWS = 512
"""At most so many windows are looked at."""
_EVERY = 10


def held_out(episode: IntArray, sampling_weights: FloatArray) -> MaskArray:
    """Windows (N,) that training must not draw: those of every tenth episode among the ones that are drawn at all."""
    drawn = np.unique(episode[sampling_weights > 0])
    return np.isin(episode, drawn[_EVERY - 1 :: _EVERY])


def evaluation_rows(held: MaskArray, sampling_weights: FloatArray, seed: int) -> IntArray:
    """At most LOOK_ROWS rows, drawn from the windows held out as training would draw them; the same at every look."""
    cumulative = np.cumsum(sampling_weights * held, dtype=np.float64)
    if not len(cumulative) or not cumulative[-1] > 0:
        return np.zeros(0, np.int64)
    count = min(EVALUATION_ROWS, int(((sampling_weights > 0) & held).sum()))
    random = np.random.default_rng((seed, 11))
    return np.searchsorted(cumulative, random.random(count) * cumulative[-1], side="right")


class EarlyStopping:
    """Looks at the averaged weights now and then, keeps the best ones, and says when it has seen enough.

    Its state lies in the checkpoint, so that a run killed anywhere stops at the same step.
    """

    def __init__(self, patience: int, optimizer: AveragedAdam, loss: Callable[[], float], windows: int) -> None:
        """`patience`: looks without a new lowest loss that are waited for, 0 for no end; `windows` are looked at."""
        self._patience, self._optimizer, self._loss, self._windows = patience, optimizer, loss, windows
        self._lowest, self._since, self._latest = math.inf, 0, math.nan
        self._best: FloatArray | None = None

    def should_end(self, done: int) -> bool:
        """Whether training ends after `done` steps."""
        if not self._windows or not self._patience or done % EVALUATION_STEPS:
            return False
        with self._optimizer.averaged():
            self._latest = self._loss()
        if self._latest < self._lowest:
            self._lowest, self._since, self._best = self._latest, 0, self._optimizer.average()
        else:
            self._since += 1
        return self.ended

    @property
    def ended(self) -> bool:
        """Whether training has ended early."""
        return self._patience > 0 and self._since >= self._patience

    def set_final_weights(self) -> None:
        """Give the network its final weights: those of the best look, or the newest average where nobody looked."""
        if self._best is None:
            self._optimizer.use_average()
        else:
            self._optimizer.take(self._best)

    def metrics(self) -> dict[str, float]:
        """How many windows are looked at, and their loss at the last look and at the best one; nothing when off."""
        found = {"held_out_windows": float(self._windows)} if self._patience else {}
        if self._best is None:
            return found
        return found | {"held_out_loss": self._latest, "held_out_lowest": self._lowest}

    def tensors(self) -> TensorTable:
        """State for a checkpoint."""
        if self._best is None:
            return {}
        return {"stop.best": self._best, "stop.said": np.array([self._lowest, self._since, self._latest], np.float32)}

    def restore(self, table: Mapping[str, FloatArray]) -> None:
        """Take up what `tensors` gave."""
        if "stop.best" in table:
            self._best = np.array(table["stop.best"])
            self._lowest, since, self._latest = (float(value) for value in table["stop.said"])
            self._since = int(since)
