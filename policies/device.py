"""Where and how finely a network is trained: the CPU, or an accelerator in 16 bits when there is one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from enpire.errors import LearningProblem

DeviceName = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device, and what is done differently there. Weights, gradients and Adam's moments are 32 bits everywhere."""

    torch_device: torch.device
    bfloat16: bool
    """Matrix products in bfloat16 (torch's autocast)."""
    compiled: bool
    """Losses go through torch.compile first."""

    @classmethod
    def of(cls, device: DeviceName, precision: Precision, compiled: bool) -> Device:
        """The place that a recipe asks for; LearningProblem when it asks for a GPU that is not there."""
        there = torch.cuda.is_available() if device != "cpu" else False
        if device == "cuda" and not there:
            raise LearningProblem(
                "The recipe asks for device: cuda, but torch sees no GPU here; say auto, or start the learner where "
                "there is one."
            )
        # What a GPU before Ampere does with bfloat16 is an emulation, slower than 32 bits.
        bfloat16 = precision == "bfloat16" or (there and precision == "auto" and torch.cuda.is_bf16_supported(False))
        return cls(
            torch_device=torch.device("cuda" if there else "cpu"), bfloat16=bfloat16, compiled=compiled and there
        )

    def autocast(self) -> AbstractContextManager[object]:
        """Around what may be computed in 16 bits."""
        return torch.autocast(self.torch_device.type, torch.bfloat16) if self.bfloat16 else nullcontext()

    def compile[**P, R](self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, compiled where that is asked for; the compiler (seconds to import) is loaded only then."""
        return torch.compile(function) if self.compiled else function

    def metrics(self) -> dict[str, float]:
        """For the round's record; nothing for 32 bits on the CPU."""
        said = {"on_gpu": float(self.torch_device.type == "cuda"), "bfloat16": float(self.bfloat16)}
        return said if any(said.values()) else {}
