"""Gates of several branches at one time: on disjoint stations, each with its own level, and ended by a promotion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self, cast

import pytest

from agent_loop import tools
from agent_loop.lab_client import RequestRefused
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.branch import Branch
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.events import kinds_of
from enpire.campaign.gate_events import GateDecided, GateOpened
from enpire.campaign.order_events import OrdersIssued
from enpire.gate.rule import GateRule, level
from enpire.home import Home, open_home
from enpire.queries.campaigns import campaign_view, open_records
from enpire.queries.decision_audit import recompute
from enpire.steps import tripwires
from enpire.steps.deploy import roll_back, swap
from enpire.steps.improve import suitable_parent
from enpire.steps.take_snapshot import snapshot
from enpire.types import Order
from enpire.wire.arrivals import Arrival, Delivered
from tests.agent_loop.pretend_lab import Running, with_skill
from tests.agent_loop.test_branches import BRANCHED, PLAN, REGIMES, opened
from tests.fakes.fake_fleet import FakeFleet, delivered

FAIR = replace(with_skill(0.6), name="fair", turn_rollouts=500)
BOTH = {"good": replace(REGIMES["good"], turn_rollouts=500), "fair": FAIR}
TWO = replace(PLAN, recipes=tuple(BOTH), robot_s=10_000.0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture(autouse=True)
def without_the_gap_of_a_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate whose sides tie is far below the search, and would put the experiment into quarantine."""
    monkeypatch.setattr(tripwires, "gap_doubt", lambda *_: "")


class TiedFleet(FakeFleet):
    """Both sides of gates succeed alike while `tied`, except in `free`. While `slow`, their first pairs do not end.

    So no gate decides, and a gate that waits for its first pair leaves robots for the search of the other branch.
    """

    tied = slow = True
    free = ""
    """A gate that decides in any case."""

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        waits = {
            key: order
            for key, order in self.held.items()
            if self.slow and order.pair == 0 and order.gate_id != self.free
        }
        self.held = {key: order for key, order in self.held.items() if key not in waits}
        try:
            return super().poll(timeout_s)
        finally:
            self.held |= waits

    def finish(self, order: Order) -> Delivered:
        if self.tied and order.purpose == "gate" and order.gate_id != self.free:
            return delivered(order, "success", 20, "")
        return super().finish(order)


class Tied(Running):
    """A loop with such a fleet."""

    fleet: TiedFleet

    def __enter__(self) -> Self:
        super().__enter__()
        self.lab.fleet = self.fleet = TiedFleet(self.home.versions, lease=self.lab.state.lease + 1)
        return self

    def both_at_gate(self) -> tuple[Branch, Branch]:
        """Two branches, each with a version at a gate."""
        first, second = opened(self, "one", "good"), opened(self, "two", "fair")
        self.until(lambda lab: (first.phase, second.phase) == ("gate", "gate"))
        return first, second


def tied(home: Home, plan: BranchPlan = TWO) -> Tied:
    return Tied(home, campaign=replace(BRANCHED, branches=plan, gate=GateRule(pairs=2000)), regimes=BOTH)


def gate_orders(lab: Running, after: int) -> dict[str, list[Order]]:
    """Gate -> its orders after an event."""
    found: dict[str, list[Order]] = defaultdict(list)
    for entry in lab.ledger.events(after=after, kinds=kinds_of(OrdersIssued)):
        for order in cast("OrdersIssued", entry.event).orders:
            if order.purpose == "gate":
                found[order.gate_id].append(order)
    return found


def opened_gates(lab: Running) -> dict[int, GateOpened]:
    """Number of the event -> gate."""
    entries = lab.ledger.events(kinds=kinds_of(GateOpened))
    return {entry.seq: cast("GateOpened", entry.event) for entry in entries}


def assert_recomputes(lab: Running) -> None:
    assert [check for check in recompute(lab.ledger) if not check.equal] == []


def test_gates_of_two_branches_run_side_by_side_on_disjoint_stations(home: Home) -> None:
    with tied(home) as lab:
        lab.both_at_gate()
        lab.until(lambda lab: len(lab.state.gates) == 2)
        second = max(opened_gates(lab))
        lab.fleet.slow = False
        lab.until(lambda lab: all(gate.issued >= 40 for gate in lab.state.gates.values()))
        found = gate_orders(lab, second)
        assert set(found) == set(lab.lab.state.gates)
        stations = [{order.station for order in orders} for orders in found.values()]
        assert [len(names) for names in stations] == [2, 2]
        assert not stations[0] & stations[1]
        for orders in found.values():
            places = {order.pair: {one.station for one in orders if one.pair == order.pair} for order in orders}
            assert all(len(names) == 1 for names in places.values()), "both sides of a pair run at one station"
        assert [(gate.k, gate.level) for gate in opened_gates(lab).values()] == [
            (k, level(lab.campaign.gate.alpha, k, 0)) for k in (1, 2)
        ]
        shown = snapshot(lab.lab)
        assert [gate.k for gate in shown.gates] == [1, 2]
        assert shown.phase_text == "gates 1, 2: champion against candidates on hidden starts"
        with open_records(home.root) as records:
            assert [gate.decision for gate in campaign_view(records, "C1").gates] == ["open", "open"]
        assert_recomputes(lab)


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_promotion_ends_the_other_gate_and_its_branch_searches_against_the_new_champion(
    home: Home, killed: bool
) -> None:
    with tied(home) as lab:
        better, fair = (branch.experiment_id for branch in lab.both_at_gate())
        lab.until(lambda lab: len(lab.state.gates) == 2)
        [of_fair] = [one.gate_id for one in lab.lab.state.gates.values()
                     if one.candidate == lab.lab.state.branches.by_experiment[fair].newest]  # fmt: skip
        if not killed:
            lab.fleet.free = of_fair
            lab.until(lambda lab: lab.state.promoted)
    with tied(home) as lab:
        assert len(lab.lab.state.gates) == (2 if killed else 0)
        lab.fleet.free = of_fair
        lab.until(lambda lab: lab.state.promoted)
        state = lab.lab.state
        winner, other = (state.branches.by_experiment[one] for one in (fair, better))
        experiment = state.proposals.experiments[better]
        assert state.champion == winner.newest
        assert (winner.phase, other.phase, experiment.phase) == ("over", "search", "search")
        assert (state.gates, state.candidates) == ({}, [])
        lab.until(lambda lab: lab.state.gates_opened == 3)
        third = list(opened_gates(lab).values())[2]
        assert (third.champion, third.candidate) == (winner.newest, other.newest)
        assert (third.promoted, third.level) == (1, level(lab.campaign.gate.alpha, 3, 1))
        with open_records(home.root) as records:
            gates = campaign_view(records, "C1").gates
        assert sorted(gate.decision for gate in gates[:2]) == ["dropped", "promote"]
        assert_recomputes(lab)
        decided = [cast("GateDecided", entry.event) for entry in lab.ledger.events(kinds=kinds_of(GateDecided))]
        assert len({one.gate_id for one in decided}) == len(decided)


def test_a_candidate_that_waits_for_a_gate_searches_again_after_a_promotion(home: Home) -> None:
    with tied(home, replace(TWO, gates=1)) as lab:
        branches = lab.both_at_gate()
        state = lab.lab.state
        lab.until(lambda lab: lab.state.gates)
        [gate] = state.gates.values()
        [(waits, _)] = state.candidates
        assert {gate.candidate, waits} == {one.newest for one in branches}
        [waiting] = [one for one in branches if one.newest == waits]
        lab.fleet.tied = lab.fleet.slow = False
        lab.until(lambda lab: lab.state.champion == gate.candidate)
        assert waiting.phase == "search"
        assert (state.candidates, state.gates) == ([], {})
        assert state.proposals.experiments[waiting.experiment_id].phase == "search"
        with open_records(home.root) as records:
            shown = campaign_view(records, "C1").branches
        assert shown is not None
        [view] = [one for one in shown.branches if one.id == waiting.experiment_id]
        assert (view.phase, view.gate) == ("search", None)
        assert view.gain is None or view.gain.n == state.branches.gain(waiting.newest, 100).n
        compared = state.branches.searched[state.champion]
        before = len(compared.results)
        lab.until(lambda lab: waiting.phase != "search" or len(compared.results) > before)
        assert_recomputes(lab)
        assert rebuilt(lab.ledger, "C1").branches == state.branches


@pytest.mark.parametrize("how", ["promote", "roll back"])
def test_an_operator_who_replaces_the_champion_ends_all_gates(home: Home, how: str) -> None:
    with tied(home) as lab:
        first, second = lab.both_at_gate()
        lab.until(lambda lab: len(lab.state.gates) == 2)
        state, base = lab.lab.state, lab.lab.state.champion
        if how == "promote":
            swap(lab.lab, first.newest, "the operator promotes it")
            assert (first.phase, second.phase) == ("over", "search")
            assert state.proposals.experiments[first.experiment_id].phase == "cancelled"
        else:
            roll_back(lab.lab, base, "the robot shakes")
            assert (first.phase, second.phase) == ("over", "over")
        assert (state.gates, state.candidates) == ({}, [])
        lab.until(lambda lab: not any(order.purpose == "gate" for order in lab.state.open.values()))
        assert rebuilt(lab.ledger, "C1").branches == state.branches


def test_no_training_run_starts_from_a_champion_that_was_rolled_back(home: Home) -> None:
    with tied(home) as lab:
        state, base = lab.lab.state, lab.lab.state.champion
        good = opened(lab, "one", "good")
        lab.until(lambda lab: good.newest)
        swap(lab.lab, good.newest, "the operator promotes it")
        roll_back(lab.lab, base, "the robot shakes")
        assert state.rolled_back == {good.newest}
        lab.beside(lambda: tools.call(lab.client("one"), "give_up", {"reason": "rolled back"}))
        with pytest.raises(RequestRefused, match="was the champion and was rolled back"):
            opened(lab, "two", "fair", parent_experiment=good.experiment_id)
        other = opened(lab, "two", "fair")
        lab.until(lambda lab: other.turn)
        assert other.parent == base
        assert suitable_parent(lab.lab, FAIR, [], state.may_be_parents(state.champions)) == base
        swap(lab.lab, good.newest, "it was the cable")
        assert state.rolled_back == set()
        assert rebuilt(lab.ledger, "C1").rolled_back == set()


def test_an_older_ledger_whose_waiting_candidate_kept_its_place_reads_as_it_was(home: Home) -> None:
    """There, a candidate that waited got the next gate after a promotion without another search."""
    with tied(home, replace(TWO, gates=1)) as lab:
        branches = lab.both_at_gate()
        lab.until(lambda lab: lab.state.gates)
        [(waits, round_number)] = lab.lab.state.candidates
        [gate] = lab.lab.state.gates.values()
        swap(lab.lab, gate.candidate, "as a gate would")
        k = lab.lab.state.gates_opened + 1
        rule = {"alpha": 0.05, "pairs": 2000, "version": 2}
        lab.lab.write(
            GateOpened(
                gate_id="G2", champion=gate.candidate, candidate=waits, round=round_number, k=k, promoted=0,
                level=level(0.05, k, 0), rule=rule,
            )
        )  # fmt: skip
        [waiting] = [one for one in branches if one.newest == waits]
        assert waiting.phase == "gate"
        experiment = lab.lab.state.proposals.experiments[waiting.experiment_id]
        assert (experiment.phase, experiment.gate_id) == ("gate", "G2")
        lab.fleet.tied = lab.fleet.slow = False
        lab.until(lambda lab: experiment.over)
        assert waiting.phase == "over"
