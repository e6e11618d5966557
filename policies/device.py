"""The device and the number format that a network is trained with: the CPU in 32 bits, or a GPU in 16 bits."""

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
    """A torch device and its options. Weights, gradients and Adam's moments are float32 on every device."""

    torch_device: torch.device
    bfloat16: bool
    """Compute matrix products in bfloat16 (torch's autocast)."""
    compiled: bool
    """Compile losses with torch.compile."""

    @classmethod
    def of(cls, device: DeviceName, precision: Precision, compiled: bool) -> Device:
        """The device that a recipe asks for.

        Raises:
            LearningProblem: the recipe asks for a GPU and torch sees none.
        """
        gpu = torch.cuda.is_available() if device != "cpu" else False
        if device == "cuda" and not gpu:
            raise LearningProblem(
                "The recipe asks for device: cuda, but torch sees no GPU on this machine; set device: auto, or start "
                "the learner on a machine with a GPU."
            )
        # GPUs before Ampere emulate bfloat16, which is slower than float32.
        bfloat16 = precision == "bfloat16" or (gpu and precision == "auto" and torch.cuda.is_bf16_supported(False))
        return cls(torch_device=torch.device("cuda" if gpu else "cpu"), bfloat16=bfloat16, compiled=compiled and gpu)

    def autocast(self) -> AbstractContextManager[object]:
        """Context in which matrix products may be computed in bfloat16."""
        return torch.autocast(self.torch_device.type, torch.bfloat16) if self.bfloat16 else nullcontext()

    def compile[**P, R](self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, compiled if the recipe asks for it; only then is the compiler imported, which takes seconds."""
        return torch.compile(function) if self.compiled else function

    def metrics(self) -> dict[str, float]:
        """`on_gpu` and `bfloat16` (1 is yes) for the round's metrics; empty for float32 on the CPU."""
        found = {"on_gpu": float(self.torch_device.type == "cuda"), "bfloat16": float(self.bfloat16)}
        return found if any(found.values()) else {}
