"""Adam with a schedule, whose whole state can be laid down in a file and taken up again to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor, nn

from enpire.store import durable
from enpire.types import FloatArray

MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999
TensorTable = dict[str, FloatArray]
"""Name -> values, as a checkpoint holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineSchedule:
    """A learning rate that falls along a half cosine."""

    first: float
    last: float
    steps: int

    def at(self, step: int) -> float:
        """The rate at a step, 0 <= step < steps."""
        share = min(1.0, step / max(1, self.steps))
        return self.last + 0.5 * (self.first - self.last) * (1 + math.cos(math.pi * share))


class AveragedAdam:
    """Adam (Kingma and Ba, arXiv 1412.6980) with gradients clipped to norm 1 and an average of the parameters.

    All parameters that are learned become views of one flat row, on whatever device they are, so that a step is a
    handful of operations and a checkpoint four rows.
    (torch.optim would import the compiler with its first optimizer: seconds in every learner's process.)
    """

    def __init__(self, parameters: Iterable[nn.Parameter], schedule: CosineSchedule, keep: float) -> None:
        """`keep`: share of the average that a step leaves, in [0, 1); 0 means no average."""
        listed = [parameter for parameter in parameters if parameter.requires_grad]
        self._schedule, self._keep = schedule, keep
        self._row = torch.cat([p.detach().reshape(-1) for p in listed])
        self._slope = torch.zeros_like(self._row)
        self._mean, self._square = torch.zeros_like(self._row), torch.zeros_like(self._row)
        self._average = self._row.clone()
        top = 0
        for parameter in listed:
            here = slice(top, top + parameter.numel())
            parameter.data = self._row[here].view_as(parameter)
            parameter.grad = self._slope[here].view_as(parameter)
            top = here.stop

    def minimise(self, loss: Tensor, step: int) -> None:
        """One step along the gradient of a scalar loss; `step` counts from 0."""
        self._slope.zero_()
        loss.backward()
        self._go(step)

    def apply_gradients(self, gradients: Iterable[Tensor], step: int) -> None:
        """One step along gradients that are known, in the order of the parameters."""
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=self._slope)
        self._go(step)

    def _go(self, step: int) -> None:
        with torch.no_grad():
            norm = math.sqrt(float(torch.dot(self._slope, self._slope)))
            self._slope.mul_(min(1.0, 1.0 / (norm + 1e-6)))
            self._mean.lerp_(self._slope, 1 - MEAN_DECAY)
            self._square.mul_(SQUARE_DECAY).addcmul_(self._slope, self._slope, value=1 - SQUARE_DECAY)
            spread = self._square.sqrt().div_((1 - SQUARE_DECAY ** (step + 1)) ** 0.5).add_(1e-8)
            rate = self._schedule.at(step) / (1 - MEAN_DECAY ** (step + 1))
            self._row.addcdiv_(self._mean, spread, value=-rate)
            if self._keep:
                # Early on the average follows fast, so that it does not remember the first weights.
                self._average.lerp_(self._row, 1 - min(self._keep, (1 + step) / (10 + step)))
            else:
                self._average.copy_(self._row)

    def share_average(self, twin: Iterable[nn.Parameter]) -> None:
        """Make the parameters of a second network of the same shape views of the average: a target network."""
        top = 0
        for parameter in twin:
            here = slice(top, top + parameter.numel())
            parameter.data = self._average[here].view_as(parameter)
            parameter.requires_grad_(False)
            top = here.stop

    def use_average(self) -> None:
        """Replace the parameters by their average."""
        with torch.no_grad():
            self._row.copy_(self._average)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within, the parameters are their average."""
        before = self._row.clone()
        self.use_average()
        try:
            yield
        finally:
            with torch.no_grad():
                self._row.copy_(before)

    def average(self) -> FloatArray:
        """A copy of the averaged parameters, for `take`."""
        return self._average.cpu().numpy().copy()

    def take(self, values: FloatArray) -> None:
        """Replace the parameters by what `average` gave at some time."""
        with torch.no_grad():
            self._row.copy_(torch.from_numpy(values))

    def tensors(self, prefix: str) -> TensorTable:
        """All state, parameters included, under names that begin with `prefix`."""
        return {f"{prefix}.{name}": row.cpu().numpy().copy() for name, row in self._rows().items()}

    def restore(self, prefix: str, table: Mapping[str, FloatArray]) -> None:
        """Take up what `tensors` gave."""
        with torch.no_grad():
            for name, row in self._rows().items():
                row.copy_(torch.from_numpy(np.array(table[f"{prefix}.{name}"])))

    def _rows(self) -> dict[str, Tensor]:
        return {"value": self._row, "average": self._average, "mean": self._mean, "square": self._square}


def write_checkpoint(path: Path, table: Mapping[str, FloatArray], job: str, step: int) -> None:
    """Make a checkpoint durable, all of it or nothing."""
    plain = {name: np.ascontiguousarray(value) for name, value in table.items()}
    durable.write(path, save(plain, metadata={"job": job, "step": str(step)}))


def read_checkpoint(path: Path, job: str) -> tuple[TensorTable, int] | None:
    """The newest checkpoint and the steps it has done; None when there is none for this very job."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            if about.get("job") != job:
                return None
            return {name: file.get_tensor(name) for name in file.keys()}, int(about["step"])  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError):
        # Work that can be done again is no reason to stop: begin anew.
        return None
