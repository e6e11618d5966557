from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from enpire.gate.gate import judge
from enpire.gate.independence import Independence
from enpire.gate.rule import GateRule
from enpire.gate.trials import Side, Trial, pairs_in_order
from enpire.queries import campaigns, texts
from enpire.queries.independence import sentence
from enpire.report.report import write_report
from tests.fakes.sample_campaign import BASE, CAMPAIGN, SECOND, begin

SIDES: tuple[Side, ...] = ("champion", "candidate")


def record_gate(home: Path, winners: str, block: int = 1) -> None:
    """One held gate; `winners` has a letter for each pair: w (candidate), l (champion), t (tie)."""
    record = begin(home)
    rule = GateRule(pairs=len(winners), early_hold=False, block=block)
    sides = {"gate_id": "01JGATE", "champion": BASE, "candidate": SECOND, "round": 1}
    record.tell("gate opened", **sides, k=1, alpha=0.001, promoted=0, rule=asdict(rule))
    trials: list[Trial] = []
    for number, winner in enumerate(winners):
        for side in SIDES:
            policy, won = (BASE, winner == "l") if side == "champion" else (SECOND, winner == "w")
            outcome = record.run("gate", policy, 1, float(won), gate_id="01JGATE", pair=number, side=side)
            trials.append(Trial(pair=number, side=side, outcome=outcome, ticks=40))
    decision = judge(pairs_in_order(trials), rule, 0.001)
    record.tell("gate decided", **sides, **decision.body())
    record.flush()


def test_blocks_of_winners_are_named_with_what_to_do(tmp_path: Path) -> None:
    record_gate(tmp_path, ("w" * 8 + "t" * 8 + "l" * 8 + "t" * 8) * 5)
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    assert view.independence is not None
    assert view.independence.found
    assert (view.independence.gates, view.independence.votes, view.independence.block) == (1, 80, 1)
    told = view.independence.sentence
    assert "The pairs of the gates are not independent" in told
    assert "set `gate: {block: 16}`" in told
    assert told in texts.campaign(view)
    assert told.split("`")[0] in write_report(tmp_path).read_text(encoding="utf-8").replace("&#39;", "'")


def test_alternating_winners_are_no_sign_of_dependence(tmp_path: Path) -> None:
    record_gate(tmp_path, "wl" * 30)
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    assert view.independence is not None
    assert not view.independence.found
    assert view.independence.sentence.startswith("No sign that pairs depend on each other")


def test_few_pairs_say_so(tmp_path: Path) -> None:
    record_gate(tmp_path, "wlwlw" + "t" * 30)
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    assert view.independence is not None
    assert "Too few pairs with one winner" in view.independence.sentence
    assert "5 of 20" in view.independence.sentence


def test_a_campaign_without_a_decided_gate_has_no_test(tmp_path: Path) -> None:
    begin(tmp_path).flush()
    with campaigns.open_records(tmp_path) as records:
        assert campaigns.campaign_view(records, CAMPAIGN).independence is None


def test_blocks_that_depend_on_each_other_need_larger_ones() -> None:
    found = Independence(gates=3, votes=60, compared=50, same=0.8, expected=0.5, p=0.0005)
    assert "The blocks of 16 pairs of the gates are not independent" in sentence(found, 16)
    assert "set `gate: {block: 32}`" in sentence(found, 16)
