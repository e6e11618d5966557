"""The levels of the gates of a whole campaign, counted again from its ledger."""

from __future__ import annotations

import math
from typing import cast

import pytest

from enpire.store.ledger import SqliteLedger


def check_levels(ledger: SqliteLedger, alpha: float) -> None:
    """Each gate was opened and decided at the level of its number and of the promotions before it."""
    opened, decided = (
        [event.body for event in ledger.events(kinds=(kind,))] for kind in ("gate opened", "gate decided")
    )
    promoted = 0
    for k, (start, end) in enumerate(zip(opened, decided, strict=True), start=1):
        level = alpha * 6 / math.pi**2 / k**2 * (promoted + 1)
        assert (start["k"], start["promoted"]) == (k, promoted)
        assert start["alpha"] == end["level"] == pytest.approx(level)
        assert end["log_need"] == pytest.approx(math.log(1 / level))
        if end["reason"] == "better":
            assert cast("float", end["log_e"]) >= math.log(1 / level)
        promoted += end["decision"] == "promote"
