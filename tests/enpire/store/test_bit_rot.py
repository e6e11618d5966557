"""One flipped bit anywhere in the ledger's file: found with a sentence, or provably harmless."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enpire.campaign.events import LedgerEntry
from enpire.errors import LedgerProblem
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Page, Reading
from enpire.store.rows import OrderRow
from tests.enpire.store.store_samples import a_closed_ledger, an_episode, an_order, ended, issued


def _content(path: Path) -> tuple[list[LedgerEntry], list[OrderRow], object]:
    """Everything that the ledger says, checked as `enpire` checks it."""
    with closing(SqliteLedger(path, read_only=True)) as ledger:
        ledger.verify()
        ledger.verify_orders()
        reading = Reading(ledger.database)
        counts = reading.successes("c1", "collect"), reading.ends("c1"), reading.training_episodes("c1")
        return list(ledger.events()), reading.episodes(Page(campaign_id="c1")), counts


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rot") / "ledger.db"
    orders = [an_order() for _ in range(12)]
    a_closed_ledger(path, *(issued(order) for order in orders), *(ended(an_episode(order)) for order in orders[:9]))
    return path


@cache
def _content_before(path: Path) -> object:
    return _content(path)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_is_found_or_harmless(written: Path, data: st.DataObject) -> None:
    whole = written.read_bytes()
    # Pages of SQLite are full of free space: draw a byte that says something, so that most draws matter.
    places = [place for place, byte in enumerate(whole) if byte]
    place, bit = data.draw(st.sampled_from(places)), data.draw(st.integers(0, 7))
    damaged = bytearray(whole)
    damaged[place] ^= 1 << bit
    copy = written.with_name("damaged.db")
    copy.write_bytes(damaged)
    try:
        after = _content(copy)
    except LedgerProblem as problem:
        after = str(problem)
    assert after == _content_before(written) or (isinstance(after, str) and after.endswith("."))
