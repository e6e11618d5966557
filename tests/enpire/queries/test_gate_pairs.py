"""The pairs of a gate: both episodes of each, from the same hidden start."""

from __future__ import annotations

from pathlib import Path

from enpire.queries.campaigns import campaign_view, open_records
from enpire.queries.gate_pairs import gate_pairs
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign


def test_every_finished_pair_has_the_episodes_of_both_versions(tmp_path: Path) -> None:
    record_campaign(tmp_path / "home")
    with open_records(tmp_path / "home") as records:
        for gate in campaign_view(records, CAMPAIGN).gates:
            pairs = gate_pairs(records, gate.id)
            assert len(pairs) == gate.pairs
            won = [one for one in pairs if (one.candidate_outcome, one.champion_outcome) == ("success", "failure")]
            assert len(won) == gate.wins
            for one in pairs:
                rows = [records.reading.order(order_id) for order_id in (one.champion, one.candidate)]
                orders = [row.order for row in rows if row is not None]
                assert [order.policy_id for order in orders] == [gate.champion, gate.candidate]
                assert orders[0].start == orders[1].start
        assert gate_pairs(records, "nothing") == ()
