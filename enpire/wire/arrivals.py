"""What the fleet tells the lab: a station joined, left, beats, delivered an episode; and the Fleet Protocol itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from enpire.types import Episode, Order, Phase

MOST_LANES = 1024
"""Lanes of one station; each is given orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A station said hello. Its open orders that are in neither list are lost and must be ended as aborted."""

    station: str
    lanes: int
    lease: int
    """The fence token that this hello was given; it only rises."""
    running: tuple[str, ...]
    """Ids of orders that it still works on (after a reconnect)."""
    spooled: tuple[str, ...]
    """Ids of episodes that lie in its spool and will be delivered."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Task, driver, pace, versions of its software."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A station said goodbye, or was not heard for the time-out."""

    station: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life, about twice a second."""

    station: str
    lease: int
    phase: Phase
    """What most lanes do."""
    seconds: Mapping[Phase, float]
    """Robot-time stack since the station's process began: wall seconds by phase, mean over its lanes. Every moment of
    every lane is in exactly one phase, so the values add up to the station's age."""
    queued: int
    """Orders it holds that have not begun."""
    running: int
    deployed: str
    """Hash of the champion that it has loaded and answers to run."""
    stopped: bool = False
    paused: bool = False
    alarm: str = ""
    """One sentence when it needs a person."""
    stop_id: str = ""
    """Letters and digits: of the stop that somebody asked of the station itself and that holds; empty without one."""
    stop_by: str = ""
    """Who asked."""
    overdue: tuple[str, ...] = ()
    """Ids of orders that are at work for longer than any may take, so that nobody should wait for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """An episode with pictures lies at its station. It is delivered, with them, after `Fleet.fetch`."""

    station: str
    lease: int
    episode: Episode
    """Without arrays; they are in the file."""
    arrays_file: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """An episode arrived. It is durable at the station, which deletes it only after `Fleet.acknowledge`."""

    station: str
    lease: int
    episode: Episode
    """Without arrays; they are in the file."""
    arrays_file: bytes
    """The bytes whose sha256 is `episode.sha256`; empty when nothing was recorded."""
    pictures: Path | None = None
    """The file whose sha256 is `episode.pictures_sha256`, whole and durable here, for the episode store to take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A peer or a message that was not let in: wrong key, garbage, old schema."""

    peer: str
    why: str


Arrival = Joined | Left | Heartbeat | Announced | Delivered | Refused


class Incoming(Protocol):
    """What stations say, and what becomes of the episodes that they deliver."""

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        """Everything that arrived, waiting at most `timeout_s` for the first."""
        ...

    def fetch(self, announced: Announced) -> None:
        """Get the pictures of an episode; it is delivered when they are here. Asking twice changes nothing."""

    def acknowledge(self, station: str, order_ids: Sequence[str]) -> None:
        """The episodes are durable here: the station may delete them."""

    def refuse(self, station: str, order_ids: Sequence[str], why: str) -> None:
        """The episodes are not kept here: the station keeps them, and offers them again when it starts anew."""


class Fleet(Incoming, Protocol):
    """All stations, as the lab sees them. Implemented over ZeroMQ, and in one process for the tests."""

    def send(self, station: str, orders: Sequence[Order]) -> None:
        """Give orders. They are in the ledger already."""

    def release(self, station: str, order_ids: Sequence[str]) -> None:
        """Drop these orders if they have not begun; each is delivered back as aborted, cause `released`."""

    def control(self, station: str, control: str, argument: str = "") -> None:
        """`pause`, `resume`, `stop`, `deploy` (argument: policy id), `leave`."""
