"""Where a success rate is a goal or a confirmation, its time limit is named: within so many commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.gate_events import Confirmed
from enpire.gate.gate import confirm
from enpire.monitor.event_lines import line_of
from enpire.queries import texts
from enpire.queries.campaigns import campaign_view, open_records
from enpire.queries.decision_audit import recompute
from enpire.queries.models import CampaignView
from enpire.report import charts
from enpire.report.report import headline, render
from enpire.wording import within
from tests.fakes.sample_campaign import BASE, CAMPAIGN, CampaignWriter, begin, write_confirmation


def seen(record: CampaignWriter) -> tuple[CampaignView, str]:
    """The campaign and its report."""
    record.flush()
    with open_records(record.home) as records:
        return campaign_view(records, CAMPAIGN), render(records, CAMPAIGN)


def test_the_limit_in_words() -> None:
    assert [within(limit) for limit in (0, 1, 160)] == ["", " within 1 command", " within 160 commands"]


def test_goal_and_confirmation_name_the_time_limit_of_a_success(tmp_path: Path) -> None:
    record = begin(tmp_path, limit_ticks=160)
    write_confirmation(record, BASE, 60)
    view, page = seen(record)
    assert view.confirm is not None
    assert (view.goal.limit_ticks, view.confirm.limit_ticks) == (160, 160)
    shown, goal = "of 60 within 160 commands, at least", "90.0% within 160 commands on 60 fresh starts"
    assert f"  {goal}\n" in texts.campaign(view)
    assert shown in texts.campaign(view)
    assert shown in headline(view)
    assert shown in charts.learning_curve(view)
    assert f"the dashed line is the goal, {goal}" in page
    by_bound = replace(view.goal, by="bound", commands=50)
    assert texts.goal(by_bound) == (
        "at least 90.0% within 160 commands on 60 fresh starts by the exact 95 % lower bound "
        "with a median of at most 50 commands"
    )
    missed = headline(replace(view, confirm=None, goal=by_bound))
    assert missed.endswith("goal at least 90.0% within 160 commands with a median of at most 50 commands.")


def test_a_ledger_that_does_not_record_the_limit_shows_none(tmp_path: Path) -> None:
    record = begin(tmp_path)
    write_confirmation(record, BASE, 60)
    view, page = seen(record)
    assert "90.0% on 60 fresh starts" in texts.campaign(view)
    assert "within 0" not in page + texts.campaign(view)


@pytest.mark.parametrize(("limit", "equal"), [(0, True), (160, True), (480, False)])
def test_the_line_of_a_confirmation_names_the_limit_and_a_recomputation_checks_it(
    tmp_path: Path, limit: int, equal: bool
) -> None:
    record = begin(tmp_path, limit_ticks=160)
    record.tell("confirm opened", policy_id=BASE, n=60, goal=0.3)
    successes = [record.run("confirm", BASE, 1, 0.6) for _ in range(60)].count("success")
    result = confirm(successes, 60, 0.3)
    event = Confirmed(
        policy_id=BASE, successes=successes, n=60, low=result.interval.low, high=result.interval.high, passed=True,
        reissued=0, limit_ticks=limit,
    )  # fmt: skip
    record.tell("confirmed", **event.body())
    record.flush()
    assert f"{successes} of 60{within(limit)} [" in line_of(event)
    with open_records(tmp_path) as records:
        (check,) = (check for check in recompute(records.ledger) if check.kind == "confirmed")
    assert check.equal is equal
    assert "goal 30.0% within 160 commands" in check.sentence
    assert ("the ledger has limit_ticks = 480, the records give 160" in check.sentence) is not equal
