"""An operator changes the goal and the budget of a running campaign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Campaign, Goal
from enpire.campaign.limits import limits_text, merged, read_limits, with_limits
from enpire.errors import UsageError
from enpire.home import open_home
from enpire.monitor.event_lines import line_of
from enpire.queries import campaigns
from enpire.requests.operator_commands import OperatorCommand
from enpire.steps.handle_commands import handle_commands, refusal_of
from tests.enpire.test_loop import open_lab

CAMPAIGN = Campaign(name="coin", task="coin", recipe="poor")


def test_a_line_of_changes_is_read_and_written() -> None:
    limits = read_limits("budget.wall_s=7200 goal.success=0.5 budget.rounds=3")
    assert limits == {"budget": {"wall_s": 7200.0, "rounds": 3}, "goal": {"success": 0.5}}
    assert limits_text(limits) == "budget.wall_s=7200 budget.rounds=3 goal.success=0.5"
    changed = with_limits(CAMPAIGN, limits)
    assert (changed.budget.wall_s, changed.budget.rounds, changed.goal.success) == (7200.0, 3, 0.5)
    newer = merged(limits, read_limits("budget.rounds=9"))
    assert newer == {"budget": {"wall_s": 7200.0, "rounds": 9}, "goal": {"success": 0.5}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "No limit is named"),
        ("budget.wall_s", "budget.wall_s takes a number, not ''"),
        ("budget.rounds=2.5", "takes a whole number"),
        ("goal.confirm_starts=3", "a running campaign takes KEY=NUMBER with goal.success"),
        ("seed=3", "'seed=3' changes no limit"),
    ],
)
def test_a_line_that_changes_no_limit_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_limits(text)


@pytest.mark.parametrize("text", ["goal.success=1.5", "budget.wall_s=-1", "goal.success=nan", "budget.wall_s=inf"])
def test_a_limit_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="The changed"):
        with_limits(CAMPAIGN, read_limits(text))


def test_a_goal_that_no_confirmation_reaches_is_refused_while_it_runs(tmp_path: Path) -> None:
    goal = Goal(success=0.9, by="bound", confirm_starts=200)
    with open_lab(open_home(tmp_path)) as lab:
        lab.campaign = replace(lab.campaign, goal=goal)
        out_of_reach = OperatorCommand(command_id="one", kind="change limits", target="goal.success=0.999")
        assert refusal_of(lab, out_of_reach) == (
            "A goal of 99.9% by the exact 95 % bound cannot be reached on 200 starts: 200 successes of them have the "
            "bound 98.513%. Choose a lower goal."
        )
        assert not refusal_of(lab, replace(out_of_reach, target="goal.success=0.985"))
        lab.campaign = replace(lab.campaign, goal=replace(goal, success=0.999))
        assert not refusal_of(lab, replace(out_of_reach, target="budget.rounds=3")), "it began with that goal"
        lab.campaign = replace(lab.campaign, goal=replace(goal, by="rate"))
        assert not refusal_of(lab, out_of_reach)


def test_a_changed_limit_holds_for_the_loop_the_next_session_and_the_records(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    command = OperatorCommand(
        command_id="one", kind="change limits", target="budget.rounds=3 goal.success=0.5", operator="ada",
        reason="one more night",
    )  # fmt: skip
    with open_lab(home) as lab:
        before = lab.campaign
        lab.inbox.leave(command)
        lab.last_done_s["inbox"] = -1e9
        handle_commands(lab)
        assert (lab.campaign.budget.rounds, lab.campaign.goal.success) == (3, 0.5)
        assert lab.campaign.budget.wall_s == before.budget.wall_s
        wrong = OperatorCommand(command_id="two", kind="change limits", target="goal.success=7")
        assert "goal success" in refusal_of(lab, wrong)
        campaign_id = lab.state.campaign_id
        resumed = with_limits(before, rebuilt(lab.ledger, campaign_id).limits)
        assert resumed == lab.campaign, "the next session has the same limits"
    with campaigns.open_records(home.root) as records:
        view = campaigns.campaign_view(records, campaign_id)
        [event] = records.ledger.events(kinds=("limits changed",))
    assert view.goal.success == 0.5
    assert line_of(event.event) == "ada changed the limits: budget.rounds=3 goal.success=0.5 (one more night)"
