"""What people's labels say about a verifier, and when a campaign pauses because of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.errors import UsageError
from enpire.gate.intervals import lower_bound, upper_bound
from enpire.gate.verifier_audit import DriftRule, drift
from enpire.home import open_home
from enpire.lab import Lab, StationStatus
from enpire.loop import turn
from enpire.monitor.event_lines import line_of
from enpire.queries.campaigns import campaign_view, open_records, unchecked
from enpire.report.report import render
from enpire.requests import operator_commands
from enpire.steps.begin import require_same_verifier
from enpire.steps.take_snapshot import snapshot
from sim.tasks.push_t import PushT
from tests.enpire.test_loop import open_lab
from tests.fakes.lab_inbox import handled
from tests.fakes.waiting import until

GOOD, FALSE, MISSED = ("success", "success"), ("success", "failure"), ("failure", "success")


def test_the_exact_bound_is_the_one_of_the_books() -> None:
    """The rule of three: no event in n trials, so at most 1 - 0.05^(1/n) at 95 %."""
    assert upper_bound(0, 30) == pytest.approx(1 - 0.05 ** (1 / 30))
    assert upper_bound(0, 0) == 1.0
    assert upper_bound(2, 20) == pytest.approx(1 - lower_bound(18, 20))
    assert upper_bound(2, 20) == pytest.approx(0.2826, abs=1e-4)


def test_few_good_labels_never_pass_the_limit() -> None:
    rule = DriftRule(false_successes=0.1)
    assert rule.least == 29
    for count in range(200):
        assert not drift([GOOD] * count, rule).passed
    assert not drift([MISSED] * 50, rule).passed
    assert drift([MISSED] * 50, rule).missed == 50


def test_many_false_successes_pass_it_at_once_and_some_when_there_are_enough_labels() -> None:
    rule = DriftRule(false_successes=0.1)
    assert drift([FALSE] * 2, rule).passed, "two of two: even the lower bound is over the limit"
    assert not drift([FALSE] + [GOOD] * 20, rule).passed, "nobody can know yet"
    assert drift([FALSE] * 2 + [GOOD] * 27, rule).passed
    assert not drift([FALSE] * 2 + [GOOD] * 100, rule).passed
    assert not drift([FALSE] * 50, DriftRule(false_successes=1.0)).passed, "switched off"


def test_the_sentence_says_what_to_do() -> None:
    rule = DriftRule()
    assert "enpire episodes audit" in drift([], rule).sentence
    assert "29 labels are needed" in drift([GOOD], rule).sentence
    told = drift([FALSE] * 3, rule).sentence
    assert "Labels contradict 3 of 3 labelled successes of the verifier" in told
    assert "Labels contradict 1 of 1 labelled success of the verifier" in drift([FALSE], rule).sentence
    assert "enpire campaign resume" in told


def test_a_rule_that_cannot_be_is_refused() -> None:
    for wrong in ({"false_successes": 0.0}, {"false_successes": 1.5}, {"confidence": 1.0}):
        with pytest.raises(ValueError, match="drift"):
            DriftRule(**wrong)


def judged(lab: Lab, verdict: str, outcome: str, count: int) -> None:
    """A person says of so many episodes with this verdict what they were."""
    found = [key for key, said in lab.state.ended.items() if said == verdict and key not in lab.state.labels][:count]
    assert len(found) == count
    for order_id in found:
        operator_commands.leave(lab.home.inbox, f"judge {outcome}", order_id, "anna")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A running campaign with some successes."""
    with open_lab(open_home(tmp_path / "home")) as lab:
        until(
            lambda: lab.state.outcomes["success"] >= 24 and lab.state.outcomes["failure"] >= 2, "verdicts",
            turn=lambda: turn(lab),
        )  # fmt: skip
        yield lab


def test_labels_stand_beside_verdicts_and_too_many_wrong_ones_pause_the_campaign(lab: Lab) -> None:
    judged(lab, "success", "success", 3)
    judged(lab, "failure", "success", 1)
    operator_commands.leave(lab.home.inbox, "judge failure", "no such episode", "anna")
    before = dict(lab.state.ended)
    handled(lab)
    assert not lab.state.paused
    assert list(lab.state.labels.values()).count(("success", "success")) == 3
    judged(lab, "success", "failure", 3)
    handled(lab)
    assert lab.state.paused
    assert "3 of 6 labelled successes" in lab.state.paused_why
    assert lab.state.ended == before, "a label changes no verdict"
    now = snapshot(lab)
    assert "3 of 6 labelled successes" in now.phase_text
    assert now.labels == now.paused_why
    events = list(lab.ledger.events(kinds=("campaign paused", "command refused")))
    assert [event.kind for event in events] == ["command refused", "campaign paused"]
    assert "this campaign has no episode" in str(events[0].body["why"])
    assert "the check of the verifier: Labels contradict 3 of 6" in line_of(events[1].event)


def test_a_person_may_go_on_until_more_is_known_and_the_report_says_it(lab: Lab) -> None:
    judged(lab, "success", "failure", 3)
    handled(lab)
    assert lab.state.paused
    with open_records(lab.home.root) as records:
        view = campaign_view(records, lab.state.campaign_id)
        assert view.labels is not None
        assert (view.labels.checked, view.labels.wrong, view.labels.passed) == (3, 3, True)
        assert view.paused_why == view.labels.sentence
        assert "Labels contradict 3 of 3 labelled successes" in render(records, lab.state.campaign_id)
        assert lab.state.labels.keys().isdisjoint(
            {row.order_id for row in unchecked(records, lab.state.campaign_id, 5)}
        )
    operator_commands.leave(lab.home.inbox, "continue campaign", operator="anna")
    handled(lab)
    assert lab.state.paused, "this command was sent before its operator could see why the campaign paused itself"
    operator_commands.leave(lab.home.inbox, "continue campaign", operator="anna", seen=lab.state.newest_event)
    handled(lab)
    handled(lab)
    assert not lab.state.paused
    assert rebuilt(lab.ledger, lab.state.campaign_id).wrong_accepted == 3
    judged(lab, "success", "success", 1)
    handled(lab)
    assert not lab.state.paused, "nothing worse is known"
    judged(lab, "success", "unsafe", 1)
    handled(lab)
    assert lab.state.paused


def test_a_campaign_goes_on_with_its_own_verifier_only(lab: Lab) -> None:
    campaign = replace(lab.campaign, task="push_t")
    own = PushT().verifier().digest
    require_same_verifier(campaign, own)
    require_same_verifier(campaign, "")
    with pytest.raises(UsageError, match="cannot be compared"):
        require_same_verifier(campaign, "another")
    station = StationStatus(name="one", lanes=1, lease=1, facts={"verifier": own})
    assert station.has_verifier_of(own)
    assert not station.has_verifier_of("another")
    silent = StationStatus(name="silent", lanes=1, lease=1, facts={})
    assert not silent.has_verifier_of(own), "it reports no verifier"
    assert silent.has_verifier_of(""), "the ledger of an old campaign has none"
