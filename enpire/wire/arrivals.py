"""What the fleet reports to the lab: a station joined, left, sent a heartbeat or an episode. And the Fleet Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from enpire.types import Episode, Order, Phase

MOST_LANES = 1024
"""Largest number of lanes of one station."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A station said hello. Its open orders that are in neither list are lost; end them as aborted."""

    station: str
    lanes: int
    lease: int
    """The fence token given to this hello; every new one is higher."""
    running: tuple[str, ...]
    """Ids of orders that it still works on, after a reconnect."""
    spooled: tuple[str, ...]
    """Ids of episodes in its spool, which it will deliver."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Task, driver, pace, versions of its software."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A station said goodbye, or sent nothing for the time-out."""

    station: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """State of a station, sent about twice a second."""

    station: str
    lease: int
    phase: Phase
    """The phase that most lanes are in."""
    seconds: Mapping[Phase, float]
    """Wall seconds by phase since the station's process began, mean over its lanes. Each lane is in exactly one phase
    at any time, so the values add up to the age of the process."""
    queued: int
    """Orders that it holds and has not begun."""
    running: int
    deployed: str
    """Hash of the champion that it has loaded."""
    stopped: bool = False
    paused: bool = False
    alarm: str = ""
    """One sentence when the station needs an operator; empty otherwise."""
    stop_id: str = ""
    """Id (letters and digits) of a stop that holds the station; if possible, of one that was requested at the station.
    Empty without one."""
    stop_by: str = ""
    """Who requested that stop."""
    stop_ids: tuple[str, ...] = ()
    """Ids of all stops that hold the station, requested at it or by operators."""
    own_stop_id: str = ""
    """Id of the stop that the robot holds by itself (its button, its guard); empty without one."""
    overdue: tuple[str, ...] = ()
    """Ids of orders that run longer than any order may take; the lab need not wait for them."""
    rate_hz: float = 0.0
    """Control periods per second, of the newest ones; 0 where it is not known, or the simulation has no rate."""
    jitter_ms: float = 0.0
    """95th percentile of how far the length of a period differs from the task's."""
    reading: tuple[float, ...] = ()
    """Newest state of the first robot, in the order and units of the task's spec; empty where there is none."""
    moved_by: str = ""
    """What commands the first robot now: a policy version, `scripted:expert`, operator, reset, home; `people`:
    it holds until a person demonstrates; empty: nothing."""
    viability: float | None = None
    """p_v of the supervised rollout of the first robot, in [0, 1]; None where there is none."""
    motion_id: str = ""
    """Id of the command whose motion (`reset` or `home`) ended last."""
    motion_problem: str = ""
    """Why that motion ended before the robots were there; empty if they were."""
    waits_for_person: tuple[str, ...] = ()
    """Ids of its demonstrations by people that no person has begun; a release ends them."""
    person_moves: tuple[str, ...] = ()
    """Ids of its demonstrations that a person has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """An episode with camera images is ready at its station. `Fleet.fetch` gets it."""

    station: str
    lease: int
    episode: Episode
    """Without arrays; these are in `arrays_file`."""
    arrays_file: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """An episode arrived. The station keeps its copy until `Fleet.acknowledge`."""

    station: str
    lease: int
    episode: Episode
    """Without arrays; these are in `arrays_file`."""
    arrays_file: bytes
    """The bytes whose sha256 is `episode.sha256`; empty when nothing was recorded."""
    pictures: Path | None = None
    """The complete, durable file whose sha256 is `episode.pictures_sha256`; the episode store takes it from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A peer or a message that was refused: wrong key, unreadable bytes, old schema."""

    peer: str
    why: str


Arrival = Joined | Left | Heartbeat | Announced | Delivered | Refused


class Incoming(Protocol):
    """Messages from stations, and what happens to the episodes that they deliver."""

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        """Everything that arrived, waiting at most `timeout_s` for the first."""
        ...

    def fetch(self, announced: Announced) -> None:
        """Get the images of an episode; it is delivered when they are complete. A second call changes nothing."""

    def acknowledge(self, station: str, order_ids: Sequence[str]) -> None:
        """Tell the station that these episodes are durable here, so that it may delete them."""

    def refuse(self, station: str, order_ids: Sequence[str], why: str) -> None:
        """Tell the station that these episodes are not kept here; it offers them again after its next start."""


class Fleet(Incoming, Protocol):
    """All stations, as the lab sees them. Implemented over ZeroMQ, and in one process for tests."""

    def send(self, station: str, orders: Sequence[Order]) -> None:
        """Send orders, which must be in the ledger already."""

    def release(self, station: str, order_ids: Sequence[str]) -> None:
        """Release orders that have not begun; each comes back as an aborted episode with the cause `released`."""

    def control(self, station: str, control: str, argument: str = "", stop_ids: Sequence[str] = ()) -> None:
        """Send `pause`, `resume`, `stop` (argument: by whom), `deploy` (argument: policy id) or `leave`.

        Args:
            station: its name.
            control: what to do.
            argument: see above.
            stop_ids: the id of this `stop`, or the ids of the stops that this `resume` ends.
        """
