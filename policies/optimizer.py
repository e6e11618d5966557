"""Adam with a learning rate schedule; its checkpoints restore the state bit for bit."""

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
"""Name -> float32 array, as a checkpoint holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineSchedule:
    """A learning rate that falls from `first` to `last` along half a cosine."""

    first: float
    last: float
    steps: int

    def at(self, step: int) -> float:
        """The learning rate of a step, 0 <= step < steps."""
        share = min(1.0, step / max(1, self.steps))
        return self.last + 0.5 * (self.first - self.last) * (1 + math.cos(math.pi * share))


class AveragedAdam:
    """Adam (Kingma and Ba, arXiv 1412.6980) with gradients clipped to norm 1 and an average of the parameters.

    All trained parameters become views of one flat tensor, so that a step takes few operations and a checkpoint is
    four tensors. torch.optim is not used: its first optimizer imports the compiler, which takes seconds.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], schedule: CosineSchedule, decay: float) -> None:
        """Flatten the parameters that require a gradient.

        Args:
            parameters: of one or more networks, all on one device, float32.
            schedule: the learning rate.
            decay: of the exponential moving average of the parameters, in [0, 1); 0 means no average.
        """
        listed = [parameter for parameter in parameters if parameter.requires_grad]
        self._schedule, self._decay = schedule, decay
        self._parameters = torch.cat([p.detach().reshape(-1) for p in listed])
        self._gradient = torch.zeros_like(self._parameters)
        self._first_moment, self._second_moment = torch.zeros_like(self._parameters), torch.zeros_like(self._parameters)
        self._average = self._parameters.clone()
        top = 0
        for parameter in listed:
            here = slice(top, top + parameter.numel())
            parameter.data = self._parameters[here].view_as(parameter)
            parameter.grad = self._gradient[here].view_as(parameter)
            top = here.stop

    def minimise(self, loss: Tensor, step: int) -> None:
        """One step on the gradient of a scalar loss; `step` counts from 0."""
        self._gradient.zero_()
        loss.backward()
        self._step(step)

    def apply_gradients(self, gradients: Iterable[Tensor], step: int) -> None:
        """One step on given gradients, in the order and with the sizes of the parameters; `step` counts from 0."""
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=self._gradient)
        self._step(step)

    def _step(self, step: int) -> None:
        with torch.no_grad():
            norm = math.sqrt(float(torch.dot(self._gradient, self._gradient)))
            self._gradient.mul_(min(1.0, 1.0 / (norm + 1e-6)))
            self._first_moment.lerp_(self._gradient, 1 - MEAN_DECAY)
            self._second_moment.mul_(SQUARE_DECAY).addcmul_(self._gradient, self._gradient, value=1 - SQUARE_DECAY)
            deviation = self._second_moment.sqrt().div_((1 - SQUARE_DECAY ** (step + 1)) ** 0.5).add_(1e-8)
            rate = self._schedule.at(step) / (1 - MEAN_DECAY ** (step + 1))
            self._parameters.addcdiv_(self._first_moment, deviation, value=-rate)
            if self._decay:
                # The average follows faster in the first steps, so that it forgets the initial weights.
                self._average.lerp_(self._parameters, 1 - min(self._decay, (1 + step) / (10 + step)))
            else:
                self._average.copy_(self._parameters)

    def share_average(self, target: Iterable[nn.Parameter]) -> None:
        """Make the parameters of a network of the same shape views of the average: a target network."""
        top = 0
        for parameter in target:
            here = slice(top, top + parameter.numel())
            parameter.data = self._average[here].view_as(parameter)
            parameter.requires_grad_(False)
            top = here.stop

    def use_average(self) -> None:
        """Set the parameters to their average."""
        with torch.no_grad():
            self._parameters.copy_(self._average)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Context in which the parameters are their average."""
        before = self._parameters.clone()
        self.use_average()
        try:
            yield
        finally:
            with torch.no_grad():
                self._parameters.copy_(before)

    def averaged_values(self) -> FloatArray:
        """A copy of the averaged parameters (parameters,), float32, for `set_values`."""
        return self._average.cpu().numpy().copy()

    def set_values(self, values: FloatArray) -> None:
        """Set the parameters to values (parameters,) from `averaged_values`."""
        with torch.no_grad():
            self._parameters.copy_(torch.from_numpy(values))

    def tensors(self, prefix: str) -> TensorTable:
        """The whole state, parameters included: `<prefix>.<name>` -> (parameters,)."""
        return {f"{prefix}.{name}": row.cpu().numpy().copy() for name, row in self._state().items()}

    def restore(self, prefix: str, table: Mapping[str, FloatArray]) -> None:
        """Restore the state from `tensors`."""
        with torch.no_grad():
            for name, row in self._state().items():
                row.copy_(torch.from_numpy(np.array(table[f"{prefix}.{name}"])))

    def _state(self) -> dict[str, Tensor]:
        return {
            "value": self._parameters,
            "average": self._average,
            "mean": self._first_moment,
            "square": self._second_moment,
        }


def write_checkpoint(path: Path, table: Mapping[str, FloatArray], job: str, step: int) -> None:
    """Write a checkpoint durably and atomically; `job` is the digest of the job, `step` the steps done."""
    plain = {name: np.ascontiguousarray(value) for name, value in table.items()}
    durable.write(path, save(plain, metadata={"job": job, "step": str(step)}))


def read_checkpoint(path: Path, job: str) -> tuple[TensorTable, int] | None:
    """The checkpoint's tensors and its steps done; None if it is missing, damaged, or of a job with another digest."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            if about.get("job") != job:
                return None
            return {name: file.get_tensor(name) for name in file.keys()}, int(about["step"])  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError):
        # A damaged checkpoint is not an error: training starts again.
        return None
