"""One lane of a station and its order; and the optional parts of a rig beyond `enpire.interfaces.Rig`."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from enpire.types import SOURCE_POLICY, MaskArray, Order, Verdict


@runtime_checkable
class Guarded(Protocol):
    """A rig inside a safety envelope: which lanes left the envelope since they were placed, and why."""

    violated: MaskArray
    offences: list[str]


@runtime_checkable
class MonitorsSensors(Protocol):
    """A rig that checks whether its sensors still deliver new values."""

    @property
    def stale(self) -> str:
        """One sentence when a sensor has repeated its value since the last `place`; empty otherwise."""
        ...


@runtime_checkable
class Simulated(Protocol):
    """A simulated rig, whose scene no operator can tidy."""

    def lay_out(self, lane: int) -> None:
        """Put the objects of a lane in order, ready for a reset, as an operator does at a real robot."""
        ...


@dataclass(slots=True)
class Lane:
    """One robot of the rig and the order that it works on."""

    index: int
    stage: Literal["free", "resetting", "rolling", "judging", "stuck"] = "free"
    order: Order | None = None
    policy_id: str = ""
    source: int = SOURCE_POLICY
    began_s: float = 0.0
    explores: bool = False
    """Whether the version's collector acts."""
    checked: bool = False
    """Whether the start check was passed."""
    reset_ticks: int = 0
    reset_attempts: int = 0
    failed_resets: int = 0
    """Failed resets in a row, over all orders."""
    achieved: tuple[float, ...] = ()
    clipped: int = 0
    verdict: Future[Verdict] | None = None
    """Pending verdict of a slow verifier, while the lane is `judging`: its robot holds, the other lanes continue."""
