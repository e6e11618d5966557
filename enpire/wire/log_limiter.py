"""What others can cause in the ledger without limit: a few rows a minute, and how many were left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enpire.wire.arrivals import Refused

PERIOD_S = 60.0
MOST = 50
"""Rows in a period, whoever causes them."""
_OTHERS = "others"


class LogLimiter:
    """Lets one row pass for each peer and reason, fifty in all, and says after a minute how many more there were.

    Args:
        clock: monotonic seconds.
        what: what is left out, for the sentence.
    """

    def __init__(self, clock: Callable[[], float], what: str) -> None:
        self._clock, self._what = clock, what
        self._began_s = clock()
        self._passed: set[tuple[str, str]] = set()
        self._left_out: dict[str, int] = {}

    def add(self, peer: str, why: str) -> Sequence[Refused]:
        """The refusal to report now; nothing when it is left out."""
        return (Refused(peer=peer, why=why),) if self.passes(peer, why) else ()

    def passes(self, peer: str, why: str) -> bool:
        """Whether this is to be written now; it is counted otherwise."""
        if (peer, why) not in self._passed and len(self._passed) < MOST:
            self._passed.add((peer, why))
            return True
        known = peer if peer in self._left_out or len(self._left_out) < MOST else _OTHERS
        self._left_out[known] = self._left_out.get(known, 0) + 1
        return False

    def left_out(self) -> Sequence[Refused]:
        """How many were left out, once their minute is over. Ask in every turn."""
        if self._clock() - self._began_s < PERIOD_S:
            return ()
        told = [
            Refused(peer=peer, why=f"{count} more {self._what} within {PERIOD_S:.0f} s were not written down.")
            for peer, count in self._left_out.items()
        ]
        self._began_s = self._clock()
        self._passed.clear()
        self._left_out.clear()
        return told
