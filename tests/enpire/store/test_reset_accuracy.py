"""The account of resets: tries that reached their start, how near, and that the morning report says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from enpire.codec import result_fields, result_of
from enpire.queries import campaigns
from enpire.report.report import render
from enpire.store.ledger import SqliteLedger
from enpire.store.reset_accuracy import account
from enpire.types import Episode
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign
from tests.fakes.sample_events import append


def test_tries_are_counted_and_distances_only_where_the_start_was_reached() -> None:
    found = account(
        [((1.0, 0.0), (1.1, 0.2), 1, True), ((2.0, 0.0), (1.7, 0.0), 2, True), ((0.0, 0.0), (9.0, 9.0), 3, False),
         ((1.0, 1.0), (1.1, None), 1, True)],
        12.0,
    )  # fmt: skip
    assert found is not None
    assert (found.reached.successes, found.reached.n) == (3, 7)
    assert found.off[0][0] == pytest.approx(0.1)
    assert found.off[1][0] == pytest.approx(0.1)
    said = found.sentence(("x_mm", "y_mm"))
    assert "3 of 7 resets (42.9 %, " in said
    assert "in 12 s of station time" in said
    assert "x_mm 0.1 (0.28), y_mm 0.1 (0.19)" in said
    assert "value 1 0.1" in found.sentence()
    assert account([], 0.0) is None


def test_the_report_says_how_the_robots_reset(tmp_path: Path) -> None:
    record = record_campaign(tmp_path)
    for achieved, cause in (((0.15,), ""), ((0.05,), ""), ((0.9,), "reset failed")):
        order = record.order("collect", "b" * 64, 1)
        record.flush()
        episode = Episode(
            order=order, outcome="aborted" if cause else "unknown", cause=cause, confidence=0.0, ran_policy_id="",
            ticks=0, began_s=0.0, ended_s=1.0, achieved_start=achieved, reset_attempts=3 if cause else 1,
        )  # fmt: skip
        ledger = SqliteLedger(tmp_path / "ledger.db")
        append(ledger, [("orders ended", {"campaign_id": CAMPAIGN, "episodes": [result_fields(result_of(episode))]})])
        ledger.close()
    with campaigns.open_records(tmp_path) as records:
        asked = records.reading.resets(CAMPAIGN)
        assert [(one[1], one[2], one[3]) for one in asked][-3:] == [
            ((0.15,), 1, True), ((0.05,), 1, True), ((0.9,), 3, False)
        ]  # fmt: skip
        page = render(records, CAMPAIGN)
    assert "resets (" in page
    assert "s of station time." in page
