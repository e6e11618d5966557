"""Operators propose, reject, pin and try again: each is a command in the ledger, and the loop does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_loop import tools
from agent_loop.lab_client import LabClient, RequestRefused
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.order_events import OrdersIssued
from enpire.home import open_home
from enpire.queries import campaigns
from enpire.queries.decision_audit import recompute
from enpire.report.report import incidents
from enpire.requests import operator_commands
from tests.agent_loop.pretend_lab import Running

CLAIM = {"statement": "more skill", "falsifier": "the gate says no", "regime": "offline RL", "kind": "improve"}


def proposed(client: LabClient, statement: str, **changes: object) -> tuple[str, str]:
    made = str(tools.call(client, "propose_hypothesis", {**CLAIM, "statement": statement})["hypothesis_id"])
    sent = {"hypothesis_id": made, "changes": changes}
    return made, str(tools.call(client, "submit_candidate", sent)["experiment_id"])


def command(lab: Running, kind: str, target: str, reason: str = "") -> str:
    """Leave a command and turn the loop until it is answered; why it was refused, or an empty text."""
    seen = lab.ledger.head.seq
    sent = operator_commands.leave(lab.lab.home.inbox, kind, target, operator="ada", reason=reason, seen=seen)

    def answers() -> list[LedgerEntry]:
        found = lab.ledger.events(kinds=("command refused", "command effective"))
        return [one for one in found if one.body["command_id"] == sent]

    lab.until(lambda _: answers())
    return str(answers()[0].body.get("why", ""))


def hidden_starts(lab: Running, gate_id: str) -> set[int]:
    """The hidden starts of one gate, by the seed of each."""
    issued = (entry.event for entry in lab.ledger.events(kinds=kinds_of(OrdersIssued)))
    orders = [order for event in issued if isinstance(event, OrdersIssued) for order in event.orders]
    return {order.start.seed for order in orders if order.gate_id == gate_id}


def test_a_rejected_hypothesis_is_not_tried_and_a_pinned_one_is_tried_first(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        proposals = lab.lab.state.proposals
        (first, tried), (second, later), (third, last) = (
            lab.beside(lambda skill=skill: proposed(lab.client(f"lane-{skill}"), f"skill {skill}", skill=skill))
            for skill in (0.4, 0.5, 0.6)
        )
        assert [one.experiment_id for one in proposals.queue()] == [tried, later, last]
        assert "needs a reason" in command(lab, "hypothesis reject", first)
        assert command(lab, "hypothesis reject", first, "tried last week") == ""
        assert proposals.experiments[tried].phase == "cancelled"
        assert command(lab, "hypothesis pin", third) == ""
        assert [one.experiment_id for one in proposals.queue()] == [last, later]
        assert "restore it first" in command(lab, "hypothesis pin", first)
        assert "is not rejected" in command(lab, "hypothesis restore", second)
        again = {"hypothesis_id": first, "changes": {"skill": 0.45}}
        with pytest.raises(RequestRefused, match="ada rejected the hypothesis .*: tried last week"):
            lab.beside(lambda: tools.call(lab.client("other"), "submit_candidate", again))
        with pytest.raises(RequestRefused, match="ada rejected the hypothesis .*: tried last week"):
            lab.beside(lambda: tools.call(lab.client("other"), "adopt", {"experiment_id": tried}))
        assert not proposals.may_be_built_on(proposals.experiments[tried]), "the brief says so"
        assert command(lab, "hypothesis restore", first) == ""
        assert proposals.may_be_built_on(proposals.experiments[tried])
        assert lab.beside(lambda: tools.call(lab.client("other"), "submit_candidate", again))["experiment_id"]
        assert command(lab, "hypothesis unpin", third) == ""
        assert [one.experiment_id for one in proposals.queue()][:2] == [later, last]
        assert command(lab, "hypothesis pin", third) == ""
        command(lab, "continue campaign", "")
        lab.until(lambda _: proposals.experiments[last].phase == "gate")
        assert proposals.experiments[later].phase == "queued", "the pinned one went first"
        assert rebuilt(lab.ledger, lab.lab.state.campaign_id).proposals == proposals
    with campaigns.open_records(tmp_path / "home") as records:
        ideas = {one.id: one for one in campaigns.campaign_view(records, "C1").ideas}
        assert (ideas[third].mark, ideas[third].marked_by, ideas[first].mark) == ("pinned", "ada", "")
        sentences = [sentence for _, sentence in incidents(records, "C1")]
    assert f"ada rejected the hypothesis {first}: tried last week" in sentences


def test_an_operator_proposes_and_tries_again_and_the_gates_decide(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home")) as lab:
        proposals = lab.lab.state.proposals
        assert "SETTING=VALUE" in command(lab, "hypothesis propose", "skill", "more skill helps")
        assert "not in the search space" in command(lab, "hypothesis propose", "secret=1", "more skill helps")
        assert "needs a statement" in command(lab, "hypothesis propose", "skill=0.9")
        assert command(lab, "hypothesis propose", "skill=0.32 colour=green", "green is better") == ""
        [mine] = proposals.experiments.values()
        assert (mine.lane, mine.author, dict(mine.changes)) == ("human", "ada", {"skill": 0.32, "colour": "green"})
        assert "tried exactly this recipe" in command(lab, "hypothesis propose", "colour=green skill=0.32", "once more")
        assert "not decided yet" in command(lab, "experiment rerun", mine.experiment_id, "the light was off")
        lab.until(lambda _: mine.over)
        assert mine.decision, "it was trained and gated like one of an agent"
        assert command(lab, "experiment rerun", mine.experiment_id, "the light was off") == ""
        again = list(proposals.experiments.values())[-1]
        assert (again.rerun_of, again.hypothesis_id) == (mine.experiment_id, mine.hypothesis_id)
        assert again.recipe_hash == mine.recipe_hash
        lab.until(lambda _: again.over)
        first, second = (hidden_starts(lab, gate) for gate in (mine.gate_id, again.gate_id))
        assert first
        assert second
        assert not first & second, "other hidden starts"
        assert [check for check in recompute(lab.ledger) if not check.equal] == []
