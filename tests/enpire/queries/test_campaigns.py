from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from enpire.campaign.gate_events import GateDecided, GateOpened, GateSides
from enpire.codec import result_fields, result_of
from enpire.errors import LedgerProblem, UnknownName, UsageError
from enpire.gate.gate import decide
from enpire.gate.intervals import wilson
from enpire.gate.rule import GateRule, level
from enpire.gate.trials import Tally
from enpire.queries import campaigns, texts
from enpire.queries.campaign_history import History
from enpire.queries.gates import gate_view
from enpire.queries.history_records import GateRecord
from enpire.report.report import write_report
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Page
from enpire.types import EarlyStop, Episode, OutcomeKind
from tests.fakes.sample_campaign import BASE, CAMPAIGN, SECOND, THIRD, begin, record_campaign
from tests.fakes.sample_events import append


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    record_campaign(folder)
    return folder


def test_a_campaign_says_where_it_stands(home: Path) -> None:
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
    assert (view.name, view.task, view.state, view.seed) == ("pin_insertion", "pin_insertion", "reached", 7)
    assert view.base is not None
    assert view.base.id == BASE
    expected = wilson(view.base.successes, 40)
    assert (view.base.success, view.base.low, view.base.high) == (expected.rate, expected.low, expected.high)
    assert view.champion is not None
    assert view.champion.id == SECOND
    assert view.confirm is not None
    assert view.confirm.passed is True
    assert view.confirm.n == view.confirm.announced == 60
    assert view.mru == pytest.approx(0.9)
    assert view.robot_time["rollout"] == pytest.approx(2 * 48.0)
    assert view.wall_s == 60.0
    assert view.robot_h == pytest.approx(32 * 60 / 3600)
    assert view.time_to_goal_s is not None
    assert view.robot_h_to_goal == pytest.approx(view.robot_h)
    assert view.refused == 1


def test_the_document_is_json_with_the_promised_keys(home: Path) -> None:
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, "pin_insertion"))
    document = json.loads(json.dumps(asdict(view), allow_nan=False))
    promised = (
        "id state goal rounds base champion confirm episodes mru robot_time wall_s time_to_goal_s robot_h_to_goal "
        "tokens search_gate_gap"
    )
    assert set(promised.split()) <= set(document)
    for figure in ("base", "champion", "confirm"):
        assert {"id", "success", "low", "high", "n"} <= set(document[figure])
    assert set(document["tokens"]) == {"fresh", "cached", "output", "to_goal"}


def test_started_is_the_sum_of_the_ends(home: Path) -> None:
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
        issued = list(records.ledger.events(kinds=("order issued",)))
    ends = dict(view.episodes)
    total = ends.pop("total")
    assert sum(ends.values()) == total == len(issued)
    assert ends["aborted"] == 3


def test_rounds_carry_collection_learner_and_gate(home: Path) -> None:
    with campaigns.open_records(home) as records:
        rounds = campaigns.campaign_view(records, campaigns.find_campaign(records, "")).rounds
    assert [item.round for item in rounds] == [0, 1, 2]
    assert rounds[0].gate is None
    assert rounds[0].collection.n == 30
    assert rounds[0].candidate == BASE
    promoted, kept = rounds[1].gate, rounds[2].gate
    assert promoted is not None
    assert promoted.decision == "promote"
    assert promoted.champion == BASE
    assert promoted.pairs == promoted.wins + promoted.losses + promoted.both + promoted.neither > 0
    assert promoted.log_e >= promoted.log_need > 0
    assert kept is not None
    assert kept.decision in {"hold", "reject"}
    assert kept.candidate == THIRD
    assert rounds[1].learner is not None
    assert rounds[1].learner.figures == {"loss": 0.25}


def test_released_orders_weigh_nothing_and_aborted_ones_weigh_in_the_worst_case(home: Path) -> None:
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
    assert view.champion is not None
    assert view.worst_case is not None
    assert view.worst_case.n == view.champion.n, "the only order of the champion without a verdict was released"
    assert view.worst_case.successes == view.champion.successes


def test_an_order_without_a_verdict_lowers_the_worst_case(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.end(record.order("base", BASE, 0), "aborted", "the station died")
    record.order("base", BASE, 0)
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, record.campaign_id)
    assert view.champion is not None
    assert view.worst_case is not None
    assert (view.champion.n, view.worst_case.n) == (40, 42)
    assert view.episodes["open"] == 1


def test_versions_have_their_lineage_and_standing(home: Path) -> None:
    with campaigns.open_records(home) as records:
        versions = campaigns.versions(records, campaigns.find_campaign(records, ""))
    assert [(item.id, item.parent) for item in versions] == [(BASE, ""), (SECOND, BASE), (THIRD, SECOND)]
    assert versions[0].state == "former champion"
    assert versions[1].state == "champion"
    assert versions[2].state in {"rejected", "held"}
    assert versions[0].hidden.n > 40, "the base measure and its gate together"


def test_a_version_is_found_by_the_beginning_of_its_id(home: Path) -> None:
    with campaigns.open_records(home) as records:
        campaign_id = campaigns.find_campaign(records, "")
        assert campaigns.find_version(records, campaign_id, "ccc").id == SECOND
        with pytest.raises(UnknownName, match="no version begins with 'ab'"):
            campaigns.find_version(records, campaign_id, "ab")


def test_pages_of_episodes_join_without_gap_or_overlap(home: Path) -> None:
    with campaigns.open_records(home) as records:
        campaign_id = campaigns.find_campaign(records, "")
        seen: list[str] = []
        before: str | None = ""
        while before is not None:
            page = campaigns.episodes(records, Page(campaign_id=campaign_id, before=before, limit=50))
            seen += [row.order_id for row in page.rows]
            before = page.next
        total = campaigns.campaign_view(records, campaign_id).episodes["total"]
    assert len(seen) == len(set(seen)) == total
    assert seen == sorted(seen, reverse=True)


def test_a_filter_that_cannot_be_is_refused(home: Path) -> None:
    with campaigns.open_records(home) as records, pytest.raises(UsageError, match="allowed are: success, failure"):
        campaigns.episodes(records, Page(campaign_id=campaigns.find_campaign(records, ""), outcome="won"))


def test_an_unknown_campaign_is_named_with_those_there_are(home: Path) -> None:
    with campaigns.open_records(home) as records, pytest.raises(UnknownName, match="CAMP"):
        campaigns.find_campaign(records, "other")


def test_a_campaign_that_nobody_drives_is_interrupted_and_one_that_is_driven_runs(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        assert campaigns.campaigns(records)[0].state == "interrupted"
    driver = SqliteLedger(tmp_path / "ledger.db")
    try:
        with campaigns.open_records(tmp_path) as records:
            assert campaigns.campaigns(records)[0].state == "running"
        append(driver, [("campaign paused", {"campaign_id": record.campaign_id, "by": "ada"})])
        with campaigns.open_records(tmp_path) as records:
            assert campaigns.campaigns(records)[0].state == "paused"
    finally:
        driver.close()


def test_a_resumed_campaign_adds_its_sessions(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.robot_time(20.0)
    record.tell("campaign resumed")
    record.robot_time(5.0)
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, record.campaign_id)
    assert view.wall_s == 25.0
    assert view.mru == pytest.approx(0.9)
    assert (view.time_to_goal_s, view.robot_h_to_goal) == (None, None), "censored until a confirmation passes"


def test_early_stops_saved_what_the_control_arm_took_after_the_same_moment(tmp_path: Path) -> None:
    record = begin(tmp_path)
    before = EarlyStop(below=0.1, control=0.2, armed=False)
    ends: tuple[tuple[bool, OutcomeKind], ...]
    ends = (True, "aborted"), (True, "aborted"), (True, "aborted"), (False, "failure"), (False, "success")
    for armed, outcome in ends:
        order = record.order("collect", BASE, 1, early_stop=replace(before, armed=armed))
        ended = Episode(
            order=order, outcome=outcome, cause="", confidence=1.0, ran_policy_id=BASE, ticks=60, began_s=0.0,
            ended_s=6.0, predicted_failure_at=20,
        )  # fmt: skip
        record.tell("orders ended", episodes=[result_fields(result_of(ended))])
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        stops = campaigns.campaign_view(records, record.campaign_id).early_stops
    assert stops is not None
    assert stops.stopped == 3
    assert (stops.false_alarms.successes, stops.false_alarms.n) == (1, 2)
    assert stops.saved_robot_s == pytest.approx(3 * 4.0)


def test_two_campaigns_of_one_home_stay_apart(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    other = begin(tmp_path, "other", "01J0000000000000000000OTHR", orders=5000)
    other.run("collect", BASE, 0, 1.0)
    other.flush()
    with campaigns.open_records(tmp_path) as records:
        assert [line.name for line in campaigns.campaigns(records)] == ["other", "pin_insertion"]
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, "other"))
    assert view.episodes["total"] == 45
    assert view.champion is not None
    assert view.champion.n == 40


def test_a_home_without_a_ledger_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerProblem, match="no ledger"), campaigns.open_records(tmp_path):
        pass


def test_a_rejection_names_the_threshold_as_that_of_a_promotion() -> None:
    rule, first = GateRule(pairs=60), level(0.05, 1, 0)
    rejected = texts.decision(decide(Tally(wins=1, losses=12, both=0, neither=0), rule, first))
    assert re.search(r"log evidence +\d\.\d\d \(threshold to promote 3\.49\)", rejected)
    promoted = texts.decision(decide(Tally(wins=12, losses=0, both=0, neither=0), rule, first))
    assert re.search(r"log evidence +\d\.\d\d \(threshold 3\.49\)", promoted)


def test_the_rates_of_a_gate_are_those_of_its_pairs(home: Path) -> None:
    rule, sides = GateRule(), GateSides(gate_id="G", champion=BASE, candidate=SECOND, round=1)
    opened = GateOpened(
        gate_id="G", champion=BASE, candidate=SECOND, round=1, k=1, promoted=0, level=0.03, rule=asdict(rule)
    )
    decided = GateDecided.of(sides, decide(Tally(wins=30, losses=5, both=11, neither=7), rule, 0.03))
    with campaigns.open_records(home) as records:
        view = gate_view(records.reading, History(CAMPAIGN), GateRecord(opened=opened, decided=decided))
    for rate, policy_id, successes in ((view.champion_success, BASE, 16), (view.candidate_success, SECOND, 41)):
        expected = wilson(successes, 53)
        assert (rate.id, rate.successes, rate.n, rate.success) == (policy_id, successes, 53, expected.rate)
        assert (rate.low, rate.high) == (expected.low, expected.high)
    assert (view.pairs, view.wins, view.losses, view.both, view.neither) == (53, 30, 5, 11, 7)
    assert (view.difference_low, view.difference_high) == (decided.low, decided.high)


def test_a_gate_that_a_rollback_ended_is_dropped_with_its_pairs(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.learn(1, BASE, SECOND)
    record.gate(1, 0, (BASE, 0.0), (SECOND, 1.0))
    record.learn(2, SECOND, THIRD)
    sides = {"gate_id": "01JGATE", "champion": SECOND, "candidate": THIRD, "round": 2}
    record.tell("gate opened", **sides, k=2, alpha=0.01, promoted=1, rule=asdict(GateRule()))
    for side, policy, success in (("champion", SECOND, 0.0), ("candidate", THIRD, 1.0)):
        record.run("gate", policy, 2, success, gate_id="01JGATE", pair=0, side=side)
    record.order("gate", THIRD, 2, gate_id="01JGATE", pair=1, side="candidate")
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        before = campaigns.campaign_view(records, CAMPAIGN).gates[-1]
    assert (before.decision, before.pairs, before.wins) == ("open", 1, 1)
    record.tell("rolled back", policy_id=SECOND, to=BASE, reason="it shakes")
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
        third = campaigns.find_version(records, CAMPAIGN, THIRD)
    dropped = view.gates[-1]
    assert (dropped.decision, dropped.pairs, dropped.wins) == ("dropped", 1, 1)
    assert dropped.reason == f"rolled back to {BASE[:12]}: it shakes"
    assert dropped.decided_s is not None
    assert third.state == "candidate"
    assert f"dropped after 1 pair (rolled back to {BASE[:12]}: it shakes)" in texts.campaign(view)
    assert "dropped" in write_report(tmp_path).read_text(encoding="utf-8")


def test_a_gate_that_the_end_of_the_campaign_cut_off_is_dropped(tmp_path: Path) -> None:
    record = begin(tmp_path)
    sides = {"gate_id": "01JGATE", "champion": BASE, "candidate": SECOND, "round": 1}
    record.tell("gate opened", **sides, k=1, alpha=0.01, promoted=0, rule=asdict(GateRule()))
    record.tell("campaign ended", reached=False, reason="ended by ada")
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        [gate] = campaigns.campaign_view(records, CAMPAIGN).gates
    assert (gate.decision, gate.reason) == ("dropped", "the campaign ended first")


def test_what_raised_success_has_intervals_and_names_rolled_back_versions(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.learn(1, BASE, SECOND)
    assert record.gate(1, 0, (BASE, 0.1), (SECOND, 1.0)) == "promote"
    record.learn(2, SECOND, THIRD)
    sides = {"gate_id": "01JFASTER", "champion": SECOND, "candidate": THIRD, "round": 2}
    record.tell("gate opened", **sides, k=2, alpha=0.01, promoted=1, rule=asdict(GateRule()))
    faster = replace(decide(Tally(both=60, faster=60), GateRule(), 0.01), kind="promote", reason="faster")
    record.tell("gate decided", **sides, **faster.body())
    record.tell("deployed", policy_id=THIRD, previous=SECOND, reason="faster", round=2)
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        [gain] = campaigns.campaign_view(records, CAMPAIGN).raised
    assert (gain.id, gain.over, gain.rolled_back) == (SECOND, BASE, "")
    assert -1 <= gain.low < gain.gain <= gain.high <= 1
    record.tell("rolled back", policy_id=THIRD, to=SECOND, reason="it shakes")
    record.tell("rolled back", policy_id=SECOND, to=BASE, reason="the gripper slips")
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    assert [one.rolled_back for one in view.raised] == ["the gripper slips"]
    assert [(one.state, one.why) for one in view.versions] == [
        ("champion", ""), ("rolled back", "the gripper slips"), ("rolled back", "it shakes")
    ]  # fmt: skip
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert f"<s><code>{SECOND[:12]}</code></s>" in page
    assert "rolled back: the gripper slips" in page


def test_released_orders_are_no_episodes_but_are_counted(home: Path) -> None:
    with campaigns.open_records(home) as records:
        campaign_id = campaigns.find_campaign(records, "")
        view = campaigns.campaign_view(records, campaign_id)
        ran = campaigns.episodes(records, Page(campaign_id=campaign_id, outcome="ran", limit=1000)).rows
        released = campaigns.episodes(records, Page(campaign_id=campaign_id, outcome="released", limit=1000)).rows
    assert {row.cause for row in released} == {"released"}
    assert len(released) == view.released == 2
    assert "stopped by ada" in {row.cause for row in ran}, "an aborted rollout is an episode"
    assert len(ran) == view.episodes["total"] - view.released - view.episodes["open"]
