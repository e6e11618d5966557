"""The interface of the ledger: append events, read them in order. `enpire.store.ledger` implements it in SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from enpire.campaign.events import Event, LedgerEntry


class Ledger(Protocol):
    """The history of all campaigns: append-only and hash-chained. All other state is computed from it."""

    def append(self, events: Iterable[Event], campaign_id: str = "") -> Sequence[LedgerEntry]:
        """Append events of one campaign in one transaction; returns after fsync.

        The entries hold the events as read back from storage. Apply these, so that a resumed campaign reaches the same
        state.
        """
        ...

    def events(self, after: int = 0, kinds: Sequence[str] = (), limit: int = 0) -> Iterator[LedgerEntry]:
        """Entries with seq > `after`, in order; only of `kinds` if given (`enpire.campaign.events.kinds_of`)."""
        ...

    def verify(self) -> int:
        """Check the whole chain and return the number of events; LedgerProblem names the first bad one."""
        ...

    def close(self) -> None:
        """Close the file."""
