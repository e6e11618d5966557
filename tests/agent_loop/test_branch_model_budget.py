"""Tokens and money of one branch: what its session used to propose it, and while it was undecided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.agent_events import ModelCalled, TokensSpent
from enpire.campaign.branch_events import BranchEnded
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.branch_spending import Spent
from enpire.campaign.events import kinds_of
from enpire.campaign.training_events import LearnerStarted
from enpire.home import Home, open_home
from enpire.queries import campaigns
from enpire.queries.branch_texts import branches as texts
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_branches import PLAN, assert_recomputes, opened, running

CALL = ModelCalled(
    call_id="CALL-1", author="test", lane="one", provider="anthropic", endpoint="messages", model="a-model",
    outcome="answered", status=200, fresh=20, cache_read=400, cache_write=80, output=50, bound=3000, money=0.25,
    currency="USD", bound_money=0.5,
)  # fmt: skip
"""550 tokens and 0.25 USD."""
COPIED = TokensSpent(
    request_id="r", author="test", lane="one", fresh=1, cached=2, output=3, model="m", self_reported=False
)
LONG = replace(PLAN, robot_s=1e6)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def turns_of(lab: Running, experiment: str) -> int:
    started = [entry.event for entry in lab.ledger.events(kinds=kinds_of(LearnerStarted))]
    return sum(isinstance(one, LearnerStarted) and one.experiment_id == experiment for one in started)


def test_known_costs_count_and_of_a_lost_call_the_most_that_it_could_cost() -> None:
    spent = Spent()
    for event in (CALL, COPIED, replace(COPIED, self_reported=True), replace(CALL, outcome="lost", money=None)):
        spent.add(event)
    assert (spent.tokens, spent.unknown) == (550 + 6 + 3000, 1)
    assert (spent.money, spent.budgeted_money) == ({"USD": 0.25}, 0.25 + 0.5)


@pytest.mark.parametrize(
    ("plan", "reason", "detail"),
    [
        (replace(LONG, tokens=550), "no tokens left", "550 of 550 tokens used (branches: tokens)"),
        (replace(LONG, money=0.2), "no money left", "0.25 of 0.2 used (branches: money)"),
    ],
)
def test_a_branch_that_used_them_up_gets_no_further_turn_and_ends_for_them(
    home: Home, plan: BranchPlan, reason: str, detail: str
) -> None:
    with running(home, plan) as lab:
        bad = opened(lab, "one", "bad")
        lab.until(lambda _: bad.newest)
        lab.lab.write(replace(CALL, lane="two"), CALL)
        assert bad.spent.tokens == 550, "the calls of another session are not its own"
        experiment = lab.lab.state.proposals.experiments[bad.experiment_id]
        lab.until(lambda _: experiment.over)
        assert (experiment.decision, experiment.why) == ("revert", f"{reason}: {detail}")
        [ended] = [entry.event for entry in lab.ledger.events(kinds=kinds_of(BranchEnded))]
        assert isinstance(ended, BranchEnded)
        assert (ended.reason, ended.tokens, ended.money, ended.n >= 20) == (reason, 550, 0.25, True)
        assert turns_of(lab, bad.experiment_id) == len(bad.versions), "a run that has begun ends by itself"
        assert_recomputes(lab)
        with campaigns.open_records(home.root) as records:
            shown = campaigns.campaign_view(records, "C1").branches
        assert shown is not None
        assert (shown.branches[0].tokens, shown.branches[0].money) == (550, {"USD": 0.25})
        assert reason in texts(shown)


def test_a_branch_whose_proposal_took_them_all_does_not_train(home: Home) -> None:
    with running(home, replace(LONG, tokens=500)) as lab:
        lab.lab.write(CALL)
        good = opened(lab, "one", "good")
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda _: experiment.over)
        assert (experiment.phase, experiment.decision, good.turn) == ("cancelled", "", 0), "nothing was tried"
        assert experiment.why.startswith("no tokens left: 550 of 500")
        assert_recomputes(lab)
        again = opened(lab, "one", "good")
        assert again.spent.tokens == 0, "each call counts for one branch"
        lab.until(lambda _: again.newest)


def test_a_gain_that_suffices_still_enters_a_gate(home: Home) -> None:
    with running(home, replace(LONG, tokens=500)) as lab:
        good = opened(lab, "one", "good")
        lab.until(lambda _: good.newest)
        lab.lab.write(CALL)
        experiment = lab.lab.state.proposals.experiments[good.experiment_id]
        lab.until(lambda _: experiment.over)
        assert experiment.decision == "keep"


def test_without_a_limit_nothing_ends_for_them(home: Home) -> None:
    with running(home, LONG) as lab:
        bad = opened(lab, "one", "bad")
        lab.lab.write(replace(CALL, fresh=10**9, money=1e6))
        lab.until(lambda _: bad.turn > 1)
        assert bad.phase != "over"


def test_negative_limits_are_refused() -> None:
    for wrong in ({"tokens": -1}, {"money": -0.5}):
        with pytest.raises(ValueError, match="must be at least 0"):
            BranchPlan(**wrong)  # pyright: ignore[reportArgumentType]
