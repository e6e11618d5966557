"""Ground truth of a simulation. It grades verifiers and experts; no policy, verifier or agent may read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Ground truth of one lane."""

    success: bool
    metrics: Mapping[str, float]


@runtime_checkable
class KnowsTruth(Protocol):
    """A simulated rig that gives its ground truth."""

    def truth(self, lane: int) -> Truth:
        """Ground truth of one lane."""
        ...
