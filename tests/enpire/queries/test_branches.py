"""The view of branches: the same numbers as the engine's, from the orders table; rounds without runs of branches."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.branch import CODE
from enpire.queries import campaigns
from enpire.queries.branch_models import DataSources
from enpire.queries.branch_sources import learns_from, rollouts_alone
from enpire.queries.branch_texts import branches, learned_from, lineage
from enpire.queries.branches import add_rollouts, limit_ticks, searches
from enpire.queries.models import CampaignView
from enpire.queries.texts import campaign
from enpire.queries.texts import version as version_text
from enpire.store.ledger import open_to_read
from enpire.store.search_rows import search_rows
from tests.fakes.sample_branches import BAD, GOOD, LIMIT, MORE, RECIPE, record_branches, version
from tests.fakes.sample_campaign import BASE, CAMPAIGN, record_campaign


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    record_branches(folder)
    return folder


@pytest.fixture(scope="module")
def view(home: Path) -> CampaignView:
    with campaigns.open_records(home) as records:
        return campaigns.campaign_view(records, CAMPAIGN)


def test_the_orders_table_gives_the_same_branches_as_all_events(home: Path) -> None:
    with closing(open_to_read(home / "ledger.db")) as ledger:
        replayed = rebuilt(ledger, CAMPAIGN).branches
    with campaigns.open_records(home) as records:
        past = campaigns.history(records, CAMPAIGN)
        rows = searches(records.reading, past)
        add_rollouts(past.branches, rows)
    assert set(replayed.searched) == {
        BASE,
        *(version(GOOD, turn) for turn in (1, 2)),
        version(BAD, 1),
        version(MORE, 1),
    }
    for one, found in replayed.searched.items():
        again = past.branches.searched[one]
        assert (again.results, again.issued) == (found.results, found.issued)
        assert again.robot_s == pytest.approx(found.robot_s)
    for name, branch in replayed.by_experiment.items():
        again = past.branches.by_experiment[name]
        assert again.robot_s == pytest.approx(branch.robot_s) != 0
        assert (again.phase, again.turn, again.versions) == (branch.phase, branch.turn, branch.versions)
        assert again.last_gain == branch.last_gain
    assert past.branches.champion == replayed.champion == version(GOOD, 2)
    assert limit_ticks(past, rows) == LIMIT


def test_rollouts_that_the_code_of_a_branch_ended_are_failures_in_the_view_as_in_the_engine(tmp_path: Path) -> None:
    record = record_branches(tmp_path, regime=CODE)
    for index, why in ((0, "policy failed: ValueError: no"), (1, "policy returned chunks of shape (2,)"), (2, "stop")):
        ended = record.order("search", version(MORE, 1), 1, index=30 + 2 * index, branch=MORE)
        record.end(ended, "aborted", why, ticks=7)
    record.flush()
    with closing(open_to_read(tmp_path / "ledger.db")) as ledger:
        counted = rebuilt(ledger, CAMPAIGN).branches.searched[version(MORE, 1)]
    with campaigns.open_records(tmp_path) as records:
        past = campaigns.history(records, CAMPAIGN)
        add_rollouts(past.branches, searches(records.reading, past))
        shown = campaigns.campaign_view(records, CAMPAIGN).branches
    again = past.branches.searched[version(MORE, 1)]
    assert (again.results, again.robot_s) == (counted.results, pytest.approx(counted.robot_s))
    assert shown is not None
    assert (shown.branches[2].search.successes, shown.branches[2].search.n) == (8, 15 + 2), "an operator's stop is none"
    assert shown.branches[2].gain is not None
    assert shown.branches[2].gain.n == 15 + 2


def test_a_kept_branch_shows_search_beside_gate(view: CampaignView) -> None:
    assert view.branches is not None
    kept = view.branches.branches[0]
    assert (kept.id, kept.number, kept.phase, kept.decision, kept.why) == (GOOD, 1, "over", "keep", "better")
    assert (kept.turns, kept.versions, kept.newest, kept.parent) == (2, 2, version(GOOD, 2), BASE)
    assert (kept.search.successes, kept.search.n, kept.median) == (24, 24, 40)
    assert kept.gain is not None
    assert (kept.gain.n, kept.gain.success) == (24, pytest.approx(2 / 3))
    assert 0 < kept.gain.low < kept.gain.mean < kept.gain.high
    assert kept.gate is not None
    assert (kept.gate.decision, kept.gate.reason) == ("promote", "better")
    assert kept.gate.difference is not None
    assert kept.gate.success.n == view.gates[0].pairs
    assert kept.gate.difference == pytest.approx((view.gates[0].wins - view.gates[0].losses) / view.gates[0].pairs)
    assert kept.robot_s == pytest.approx(36 * 2.5)
    assert kept.gate_s == pytest.approx(2 * view.gates[0].pairs * 2.5), "both sides of each pair"
    hours = (36 * 2.5 + kept.gate_s) / 3600
    found, gate = kept.gain_per_robot_h, kept.gate
    assert found is not None
    assert (gate.low, gate.high) != (None, None)
    wanted = [value / hours for value in (gate.difference, gate.low, gate.high) if value is not None]
    assert [found.success, found.low, found.high] == pytest.approx(wanted)
    assert (found.at, found.low < found.success < found.high) == ("gate", True)
    assert kept.learner_s == 24.0
    assert kept.episodes == 4 + 12, "four demonstrations and the rollouts of its first version"
    assert kept.sources == DataSources(demonstrations=4, own=12, ancestors=0, others=0)
    assert kept.curve[-1].mean == kept.gain.mean
    assert [point.robot_s for point in kept.curve] == [pytest.approx(12 * 2.5), pytest.approx(36 * 2.5)]


def test_the_sources_of_a_training_run_are_counted(tmp_path: Path) -> None:
    record = record_branches(tmp_path)
    with campaigns.open_records(tmp_path) as records:
        rows = search_rows(records.reading, CAMPAIGN)
    taken = {version(MORE, 1): 5, version(GOOD, 2): 4, BASE: 3, version(BAD, 1): 2}
    learned = [one for made_by, n in taken.items() for one in [r.order_id for r in rows if r.policy_id == made_by][:n]]
    record.tell(
        "learner started", job="again", learner="hil_serl", parent=version(MORE, 1), round=3,
        episodes=[*learned, "gone"], recipe=RECIPE, experiment_id=MORE, turn=2, recipe_hash="r", data_hash="d",
    )  # fmt: skip
    record.flush()
    with campaigns.open_records(tmp_path) as records:
        shown = campaigns.campaign_view(records, CAMPAIGN).branches
    assert shown is not None
    assert shown.branches[2].sources == DataSources(demonstrations=0, own=5, ancestors=4 + 3, others=2 + 1)
    assert learned_from(shown.branches[2]) == "learned from 15 episodes: 5 of its own, 7 of its ancestors, 3 of others"


def test_an_isolated_session_learns_from_its_own_data_whatever_the_file_says(tmp_path: Path) -> None:
    record_branches(tmp_path, learns_from="pool", isolated=["search-2"])
    with campaigns.open_records(tmp_path) as records:
        found = campaigns.campaign_view(records, CAMPAIGN).branches
    assert found is not None
    assert [one.learns_from for one in found.branches] == ["pool", "own", "pool"]
    plan = {"learns_from": "pool", "sharing": "isolated"}
    assert (learns_from(plan, "a"), learns_from({"learns_from": "pool"}, "a"), learns_from({}, "a")) == (
        "own", "pool", "own",
    )  # fmt: skip


def test_an_ended_branch_says_why_and_an_acting_one_has_a_share(view: CampaignView) -> None:
    assert view.branches is not None
    _, bad, more = view.branches.branches
    assert (bad.phase, bad.decision, bad.why, bad.gate, bad.share) == ("over", "revert", "no gain", None, 0)
    assert bad.gain is not None
    assert bad.gain.success == pytest.approx(-1 / 3)
    found, hours = bad.gain_per_robot_h, (24 * 2.5 + 2.5) / 3600
    assert found is not None
    assert (found.success, found.at, bad.gate_s) == (pytest.approx(-1 / 3 / hours), "search", 0)
    assert (found.low, found.high) == (bad.gain.success_low / hours, bad.gain.success_high / hours)
    assert bad.gain.success_low < -1 / 3 < bad.gain.success_high < 0
    assert (more.continues, more.parent, more.phase) == (GOOD, version(GOOD, 2), "search")
    assert (more.share, view.branches.acting) == (1.0, 1)
    assert more.gain is not None
    assert (more.gain.n, more.gain.success) == (15, pytest.approx(8 / 15 - 1))
    assert view.branches.robot_time["branches"] == pytest.approx(sum(one.robot_s for one in view.branches.branches))
    assert view.branches.robot_time["champion"] == pytest.approx(48 * 2.5)
    assert view.branches.robot_time["gates"] > 0


def test_rounds_have_no_training_run_gate_or_version_of_a_branch(view: CampaignView) -> None:
    assert [(one.round, one.candidate) for one in view.rounds] == [(0, BASE)]
    assert view.rounds[0].learner is not None
    assert view.rounds[0].learner.learner == "habc"
    assert len(view.gates) == 1
    assert view.rounds[0].gate is None


def test_search_rollouts_that_a_branch_learned_from_or_that_decided_it_are_used(home: Path, view: CampaignView) -> None:
    decided_by_search = 24 + 24 + 24  # the champion, and the newest versions of the two decided branches
    learned = 1 + 4 + 12  # the base's episode, demonstrations, the rollouts of the kept branch's first version
    hidden = 40 + 2 * view.gates[0].pairs
    assert view.rollouts_used.used == decided_by_search + learned + hidden


def test_an_experiment_without_a_gate_has_no_difference(view: CampaignView) -> None:
    by_id = {one.id: one for idea in view.ideas for one in idea.experiments}
    assert (by_id[BAD].delta, by_id[BAD].decision) == (None, "revert")
    assert by_id[GOOD].delta == 0.6


def test_the_document_is_json(view: CampaignView) -> None:
    json.dumps(asdict(view), allow_nan=False)


def test_a_campaign_without_branches_has_none(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    with campaigns.open_records(tmp_path) as records:
        assert campaigns.campaign_view(records, CAMPAIGN).branches is None


def test_the_terminal_shows_each_branch_in_short_lines(view: CampaignView) -> None:
    assert view.branches is not None
    lines = branches(view.branches).splitlines()
    assert lines[0] == "branches: robots act for 1 of 3; robot time of the campaign:"
    assert "     branches 3.2 min" in lines
    assert "  1  hil_serl, search-1: keep (better)" in lines
    assert "     starts from bbbbbbbbbbbb; 2 turns" in lines
    assert "     learned from 16 episodes: 4 demonstrations, 12 of its own" in lines
    assert sum("points of success per robot-hour of search and gates" in line for line in lines) == 3
    assert "  2  hil_serl, search-2: revert (no gain)" in lines
    assert "     continues branch 1; 1 turn" in lines
    assert "     learned from 4 episodes: 4 demonstrations" in lines
    assert "  3  hil_serl, search-3: search, share 100%" in lines
    assert max(map(len, lines)) <= 90
    assert "\n".join(lines) in campaign(view)


def test_a_version_names_the_branch_that_made_it(home: Path) -> None:
    with campaigns.open_records(home) as records:
        made = {one.id: one.branch for one in campaigns.versions(records, CAMPAIGN)}
        shown = version_text(campaigns.find_version(records, CAMPAIGN, version(MORE, 1)))
    assert made == {BASE: 0, version(GOOD, 1): 1, version(GOOD, 2): 1, version(BAD, 1): 2, version(MORE, 1): 3}
    assert "branch 3" in shown


def test_a_branch_with_a_version_waits_until_the_rounds_hand_over(tmp_path: Path) -> None:
    record_branches(tmp_path, hand_over_after=1)
    with campaigns.open_records(tmp_path) as records:
        found = campaigns.campaign_view(records, CAMPAIGN).branches
    assert found is not None
    assert (found.acting, found.branches[-1].phase, found.branches[-1].share) == (0, "ready", 0.0)
    assert "robots act for 0 of 3" in branches(found)


def test_a_branch_that_takes_no_weights_of_its_parent_learns_from_the_rollouts_alone(view: CampaignView) -> None:
    assert rollouts_alone("lerobot_sac", "flow")
    assert not any(rollouts_alone(*one) for one in (("lerobot_sac", "lerobot"), ("clone", "flow"), ("lerobot_sac", "")))
    assert view.branches is not None
    first = view.branches.branches[0]
    alone = replace(first, rollouts_alone=True)
    assert lineage(first, {}) == f"starts from {BASE[:12]}"
    assert lineage(alone, {}) == f"learns from the rollouts of {BASE[:12]}"
    assert lineage(replace(alone, continues="E1"), {"E1": 4}) == "learns from the rollouts of branch 4"


def test_each_arm_shows_its_best_version_over_the_base_per_robot_hour(tmp_path: Path, view: CampaignView) -> None:
    assert view.branches is not None
    assert view.branches.arms == (), "all sessions share"
    record_branches(tmp_path, isolated=["search-1"])
    with campaigns.open_records(tmp_path) as records:
        shown = campaigns.campaign_view(records, CAMPAIGN).branches
    assert shown is not None
    sharing, alone = shown.arms
    assert (sharing.lanes, alone.lanes) == (("search-2", "search-3"), ("search-1",))
    assert (alone.version, alone.n, alone.success) == (version(GOOD, 2), 24, pytest.approx(2 / 3))
    first = shown.branches[0]
    assert alone.robot_s == pytest.approx(first.robot_s + first.gate_s)
    assert alone.per_robot_h == pytest.approx(2 / 3 / (alone.robot_s / 3600))
    assert (alone.low, sharing.success) != (None, None)
    text = branches(shown)
    assert f"arm search-1 (1 branch, robot {alone.robot_s / 60:.1f} min): best {version(GOOD, 2)[:12]}, +66.7 [" in text
    assert " points over the base on 24 train starts, " in text
    assert "arm search-2, search-3 (2 branches, " in text
