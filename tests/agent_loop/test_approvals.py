"""Experiments of agents and candidates wait for a person, where the campaign file asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent_loop import tools
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import ApprovalPlan
from enpire.home import open_home
from enpire.queries.decision_audit import recompute
from enpire.steps.take_snapshot import snapshot
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.agent_loop.test_hypothesis_commands import command, proposed


def waiting(lab: Running, experiment_id: str) -> object:
    """What the agent reads of its experiment."""
    shown = tools.call(lab.client("one"), "get_experiment", {"experiment_id": experiment_id})
    return shown["waiting"]


def test_an_experiment_waits_for_an_approval_and_its_candidate_for_another(tmp_path: Path) -> None:
    plan = replace(CAMPAIGN, approvals=ApprovalPlan(experiments=True, promotions=True))
    with Running(open_home(tmp_path / "home"), campaign=plan) as lab:
        _, made = lab.beside(lambda: proposed(lab.client("one"), "more skill", skill=0.9))
        state, experiment = lab.lab.state, lab.lab.state.proposals.experiments[made]
        assert experiment not in state.proposals.queue()
        assert snapshot(lab.lab).quarantined[made].startswith("approval: ")
        assert waiting(lab, made)
        assert command(lab, "experiment clear", made, "a small change") == ""
        lab.until(lambda lab: made in lab.state.quarantine.held)
        assert state.quarantine.held[made][-1].tripwire == "promotion approval"
        assert experiment.policy_id
        assert not experiment.gate_id
        assert command(lab, "experiment clear", made, "it looks good") == ""
        lab.until(lambda _: experiment.over)
        assert experiment.decision == "keep"
        assert [check for check in recompute(lab.ledger) if not check.equal] == []


def test_a_rejected_candidate_ends_its_experiment_and_the_session_goes_on(tmp_path: Path) -> None:
    plan = replace(CAMPAIGN, approvals=ApprovalPlan(promotions=True))
    with Running(open_home(tmp_path / "home"), campaign=plan) as lab:
        _, made = lab.beside(lambda: proposed(lab.client("one"), "more skill", skill=0.9))
        lab.until(lambda lab: made in lab.state.quarantine.held)
        assert command(lab, "experiment quarantine", made, "the video shows a bump") == ""
        experiment = lab.lab.state.proposals.experiments[made]
        assert (experiment.phase, experiment.why) == ("cancelled", "rejected by ada: the video shows a bump")
        assert made not in snapshot(lab.lab).quarantined
        _, other = lab.beside(lambda: proposed(lab.client("one"), "a little more skill", skill=0.8))
        lab.until(lambda lab: other in lab.state.quarantine.held)
        assert [check for check in recompute(lab.ledger) if not check.equal] == []


def test_candidates_of_branches_wait_for_nobody() -> None:
    with pytest.raises(ValueError, match="candidates of branches cannot wait for approvals"):
        replace(CAMPAIGN, approvals=ApprovalPlan(promotions=True), branches=BranchPlan(recipes=("sft",)))


def test_a_rejected_experiment_ends_and_an_operator_need_not_ask(tmp_path: Path) -> None:
    plan = replace(CAMPAIGN, approvals=ApprovalPlan(experiments=True))
    with Running(open_home(tmp_path / "home"), campaign=plan, paused=True) as lab:
        _, made = lab.beside(lambda: proposed(lab.client("one"), "more skill", skill=0.9))
        assert command(lab, "experiment quarantine", made, "not before Friday") == ""
        assert lab.lab.state.quarantine.held[made][-1].by == "ada"
        assert lab.lab.state.proposals.experiments[made].phase == "cancelled"
        assert "in quarantine already" in command(lab, "experiment quarantine", made, "again")
        assert lab.lab.state.proposals.queue() == []
        assert command(lab, "hypothesis propose", "skill=0.7", "of an operator") == ""
        assert [one.lane for one in lab.lab.state.proposals.queue()] == ["human"]


def test_what_is_over_needs_no_approval(tmp_path: Path) -> None:
    plan = replace(CAMPAIGN, approvals=ApprovalPlan(experiments=True))
    with Running(open_home(tmp_path / "home"), campaign=plan, paused=True) as lab:
        hypothesis, made = lab.beside(lambda: proposed(lab.client("one"), "more skill", skill=0.9))
        assert made in snapshot(lab.lab).quarantined
        assert command(lab, "hypothesis reject", hypothesis, "no") == ""
        assert made not in snapshot(lab.lab).quarantined


def test_lockstep_waits_for_nobody() -> None:
    rounds = replace(CAMPAIGN.rounds, lockstep=True, hard_starts=0.0, supervised=0.0)
    with pytest.raises(ValueError, match="cannot wait for approvals"):
        replace(CAMPAIGN, approvals=ApprovalPlan(promotions=True), rounds=rounds)
