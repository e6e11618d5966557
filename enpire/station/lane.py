"""One lane of a station: the order that it works on; and what a rig may have beyond `enpire.interfaces.Rig`."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from enpire.types import SOURCE_POLICY, MaskArray, Order, Verdict


@runtime_checkable
class Guarded(Protocol):
    """What a rig inside a safety envelope also has: which lanes left it since they were placed, and why."""

    violated: MaskArray
    offences: list[str]


@runtime_checkable
class MonitorsSensors(Protocol):
    """What a rig that watches its sensors also has."""

    @property
    def stale(self) -> str:
        """One sentence when a sensor stood still since the last `place`; empty otherwise."""
        ...


@runtime_checkable
class Simulated(Protocol):
    """What a rig also has where nobody can walk up to the robot."""

    def lay_out(self, lane: int) -> None:
        """Do what a called person does at a real one: put a lane's things in order, ready for a reset."""
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
    checked: bool = False
    """Whether the reset check was passed."""
    reset_ticks: int = 0
    reset_attempts: int = 0
    failed_resets: int = 0
    """One after the other, over all orders."""
    achieved: tuple[float, ...] = ()
    clipped: int = 0
    verdict: Future[Verdict] | None = None
    """Of a slow verifier, while the lane is `judging`: its robot holds still, the others go on."""
