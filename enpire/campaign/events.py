"""Every kind of event in the ledger, and the reader of stored events.

To add a kind, write a class in the file of its subject and add it to the union there. The type checker then names
every function that must handle it, because the functions that apply events end in `assert_never`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import get_args

from enpire.campaign.agent_events import AgentEvent, ExperimentEvent
from enpire.campaign.branch_events import BranchEvent
from enpire.campaign.command_events import CommandEvent
from enpire.campaign.event_forms import EventBase
from enpire.campaign.event_upgrades import UPGRADES
from enpire.campaign.gate_events import GateEvent
from enpire.campaign.order_events import OrderEvent
from enpire.campaign.quarantine_events import QuarantineEvent
from enpire.campaign.session_events import SessionEvent
from enpire.campaign.station_events import StationEvent
from enpire.campaign.study_events import StudyEvent
from enpire.campaign.training_events import TrainingEvent
from enpire.errors import FileProblem
from enpire.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent:
    """An event of a kind that this version does not know. It can be shown and verified; it changes no state."""

    kind: str
    content: Mapping[str, Json]

    def body(self) -> dict[str, Json]:
        """The stored form, without the campaign's id."""
        return dict(self.content)


KnownEvent = (
    SessionEvent | OrderEvent | StationEvent | CommandEvent | TrainingEvent | GateEvent | ExperimentEvent | BranchEvent
    | AgentEvent | QuarantineEvent | StudyEvent
)  # fmt: skip
Event = KnownEvent | UnknownEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line of the ledger. `hash` covers all other fields and the previous hash."""

    seq: int
    """From 1, without gaps."""
    stamp_ns: int
    """Wall clock, for display only; `seq` gives the order of events."""
    campaign_id: str
    """Empty for an event of no campaign."""
    kind: str
    text: str
    """The stored body: JSON, with the campaign's id."""
    event: Event
    previous: str
    hash: str

    @property
    def body(self) -> dict[str, Json]:
        """The stored body, unchanged, for display; `event` is the typed form."""
        return json.loads(self.text)

    def document(self) -> dict[str, Json]:
        """The entry as JSON, for display and other programs."""
        return {
            "seq": self.seq, "stamp_ns": self.stamp_ns, "kind": self.kind, "body": self.body,
            "previous": self.previous, "hash": self.hash,
        }  # fmt: skip


@cache
def classes() -> Mapping[str, type[EventBase]]:
    """Kind -> its class, for every known event."""
    found: dict[str, type[EventBase]] = {cls.KIND: cls for cls in get_args(KnownEvent)}
    return found


def kind_of(event: Event) -> str:
    """The kind under which an event is stored."""
    return event.kind if isinstance(event, UnknownEvent) else event.KIND


def kinds_of(*subjects: type[EventBase] | UnionType) -> tuple[str, ...]:
    """The kinds of event classes or of unions of them, as the filter of a ledger query."""
    found: list[str] = []
    for subject in subjects:
        members: tuple[type[EventBase], ...] = (subject,) if isinstance(subject, type) else get_args(subject)
        found += [cls.KIND for cls in members]
    return tuple(found)


def read_event(kind: str, body: Mapping[str, Json]) -> Event:
    """The event of a stored body of this or an older version; an unknown kind gives an `UnknownEvent`.

    Raises:
        FileProblem: the body does not fit its kind; the message names the key.
    """
    own = {key: value for key, value in body.items() if key != "campaign_id"}
    cls = classes().get(kind)
    if cls is None:
        return UnknownEvent(kind=kind, content=own)
    upgrade = UPGRADES.get(kind)
    try:
        return cls.read(upgrade(own) if upgrade is not None else own)  # pyright: ignore[reportReturnType]
    except FileProblem as problem:
        raise FileProblem(f"The event {kind!r} cannot be read: {problem}") from problem
