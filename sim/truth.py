"""Ground truth: what a simulator knows and nobody else may see. It grades verifiers and experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the simulator knows of one lane. It grades verifiers; no policy, verifier or agent ever sees it."""

    success: bool
    metrics: Mapping[str, float]


@runtime_checkable
class KnowsTruth(Protocol):
    """What a simulated rig also has."""

    def truth(self, lane: int) -> Truth:
        """Ground truth of one lane."""
        ...
