"""Limits the rows that peers can cause in the ledger: a few per minute, and a count of the rows left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enpire.wire.arrivals import Refused

PERIOD_S = 60.0
MOST = 50
"""Rows in one period, from all peers together."""
_OTHERS = "others"


class LogLimiter:
    """Lets one row per peer and reason pass, at most fifty per minute, and counts the others.

    Args:
        clock: monotonic seconds.
        what: noun for the rows, used in the sentence about those left out.
    """

    def __init__(self, clock: Callable[[], float], what: str) -> None:
        self._clock, self._what = clock, what
        self._began_s = clock()
        self._passed: set[tuple[str, str]] = set()
        self._left_out: dict[str, int] = {}

    def add(self, peer: str, why: str) -> Sequence[Refused]:
        """The refusal to report now; empty if it is left out."""
        return (Refused(peer=peer, why=why),) if self.passes(peer, why) else ()

    def passes(self, peer: str, why: str) -> bool:
        """Whether to write this row now; otherwise it is counted."""
        if (peer, why) not in self._passed and len(self._passed) < MOST:
            self._passed.add((peer, why))
            return True
        known = peer if peer in self._left_out or len(self._left_out) < MOST else _OTHERS
        self._left_out[known] = self._left_out.get(known, 0) + 1
        return False

    def left_out(self) -> Sequence[Refused]:
        """One refusal per peer with the number of rows left out, once their minute is over. Call it in every turn."""
        if self._clock() - self._began_s < PERIOD_S:
            return ()
        reports = [
            Refused(peer=peer, why=f"{count} more {self._what} within {PERIOD_S:.0f} s were not written down.")
            for peer, count in self._left_out.items()
        ]
        self._began_s = self._clock()
        self._passed.clear()
        self._left_out.clear()
        return reports
