"""Early stopping: training ends when the loss on held-out episodes no longer falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from enpire.types import FloatArray, IntArray, MaskArray
from policies.optimizer import AveragedAdam, TensorTable

EVALUATION_STEPS = 50
"""Gradient steps between two evaluations of the held-out loss."""
EVALUATION_ROWS = 512
"""Most windows in one evaluation."""
_EVERY = 10
"""One of so many episodes is held out."""


def held_out(episode: IntArray, sampling_weights: FloatArray) -> MaskArray:
    """Windows that training must not draw: those of every tenth episode with a sampling weight above 0.

    Args:
        episode: (N,) int, index of each window's episode.
        sampling_weights: (N,) float32, >= 0.

    Returns:
        (N,) bool.
    """
    drawn = np.unique(episode[sampling_weights > 0])
    return np.isin(episode, drawn[_EVERY - 1 :: _EVERY])


def evaluation_rows(held: MaskArray, sampling_weights: FloatArray, seed: int) -> IntArray:
    """Rows of the held-out windows for every evaluation, drawn by their sampling weights as in training.

    Args:
        held: (N,) bool, the held-out windows.
        sampling_weights: (N,) float32, >= 0.
        seed: of the draw.

    Returns:
        (M,) int, M <= EVALUATION_ROWS; empty if nothing is held out.
    """
    cumulative = np.cumsum(sampling_weights * held, dtype=np.float64)
    if not len(cumulative) or not cumulative[-1] > 0:
        return np.zeros(0, np.int64)
    count = min(EVALUATION_ROWS, int(((sampling_weights > 0) & held).sum()))
    random = np.random.default_rng((seed, 11))
    return np.searchsorted(cumulative, random.random(count) * cumulative[-1], side="right")


class EarlyStopping:
    """Evaluates the averaged weights every EVALUATION_STEPS, keeps the best ones, and ends training.

    Its state is part of the checkpoint, so a killed and resumed run ends at the same step.
    """

    def __init__(self, patience: int, optimizer: AveragedAdam, loss: Callable[[], float], windows: int) -> None:
        """Nothing is evaluated yet.

        Args:
            patience: evaluations without a new lowest loss after which training ends; 0 means never.
            optimizer: holds the parameters and their average.
            loss: evaluates the held-out loss of the parameters as they are.
            windows: number of windows in one evaluation.
        """
        self._patience, self._optimizer, self._loss, self._windows = patience, optimizer, loss, windows
        self._lowest, self._without_gain, self._latest = math.inf, 0, math.nan
        self._best: FloatArray | None = None

    def should_end(self, done: int) -> bool:
        """Evaluate if `done` steps are a multiple of EVALUATION_STEPS; whether training ends now."""
        if not self._windows or not self._patience or done % EVALUATION_STEPS:
            return False
        with self._optimizer.averaged():
            self._latest = self._loss()
        if self._latest < self._lowest:
            self._lowest, self._without_gain, self._best = self._latest, 0, self._optimizer.averaged_values()
        else:
            self._without_gain += 1
        return self.ended

    @property
    def ended(self) -> bool:
        """Whether training has ended early."""
        return self._patience > 0 and self._without_gain >= self._patience

    def set_final_weights(self) -> None:
        """Set the parameters to the best evaluated weights, or to the newest average if none were evaluated."""
        if self._best is None:
            self._optimizer.use_average()
        else:
            self._optimizer.set_values(self._best)

    def metrics(self) -> dict[str, float]:
        """Number of held-out windows, their latest loss and their lowest loss; empty if early stopping is off."""
        found = {"held_out_windows": float(self._windows)} if self._patience else {}
        if self._best is None:
            return found
        return found | {"held_out_loss": self._latest, "held_out_lowest": self._lowest}

    def tensors(self) -> TensorTable:
        """For a checkpoint: `stop.best` (parameters,), `stop.said` (lowest loss, evaluations since it, last loss)."""
        if self._best is None:
            return {}
        return {
            "stop.best": self._best,
            "stop.said": np.array([self._lowest, self._without_gain, self._latest], np.float32),
        }

    def restore(self, table: Mapping[str, FloatArray]) -> None:
        """Restore the state from `tensors`."""
        if "stop.best" in table:
            self._best = np.array(table["stop.best"])
            self._lowest, without_gain, self._latest = (float(value) for value in table["stop.said"])
            self._without_gain = int(without_gain)
