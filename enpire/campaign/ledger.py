"""The ledger as the loop needs it: events in, events out, in one order. `enpire.store.ledger` keeps it in SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from enpire.campaign.events import Event, LedgerEntry


class Ledger(Protocol):
    """The one history: append-only, hash-chained. Everything else is computed from it."""

    def append(self, events: Iterable[Event], campaign_id: str = "") -> Sequence[LedgerEntry]:
        """Append events of one campaign durably, in one transaction; returns when fsync has.

        The entries hold the events as they are read back from what was stored: apply these, so that a campaign that is
        resumed stands where the one that ran stood.
        """
        ...

    def events(self, after: int = 0, kinds: Sequence[str] = (), limit: int = 0) -> Iterator[LedgerEntry]:
        """Entries with seq > after, in order; of some kinds only (`enpire.campaign.events.kinds_of`)."""
        ...

    def verify(self) -> int:
        """Check the whole chain; the number of events, or LedgerProblem naming the first bad one."""
        ...

    def close(self) -> None:
        """Close the file."""
