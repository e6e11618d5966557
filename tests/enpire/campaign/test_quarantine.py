"""The quarantine: what it ends, what it keeps from gates and promotion, and that the audit finds a breach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enpire.campaign.apply_events import apply_event
from enpire.campaign.quarantine_events import EpisodeSuspected, ExperimentCleared, ExperimentQuarantined
from enpire.campaign.state import CampaignState
from enpire.errors import UsageError
from enpire.steps.experiment_checks import MAX_OPEN_EXPERIMENTS, require_few_open
from tests.fakes.sample_events import event

RECIPE = {"name": "code+1", "learner": "code"}


def story() -> CampaignState:
    """A campaign with the champion `base`, a branch whose version `v1` is in a gate, and a round's candidate `v2`."""
    state = CampaignState(campaign_id="c")
    for number, one in enumerate(
        (
            event("deployed", policy_id="base"),
            event("experiment submitted", experiment_id="e1", lane="one", recipe=RECIPE, turn_rollouts=8),
            event("experiment checked", experiment_id="e1"),
            event("learner started", job="j1", parent="base", round=2, experiment_id="e1", turn=1, recipe=RECIPE),
            event("learner ended", job="j1", policy_id="v1"),
            event("branch entered gate", experiment_id="e1", policy_id="v1", n=32, gain=0.2),
            event("gate opened", gate_id="g1", champion="base", candidate="v1", k=1, rule={}),
            event("learner started", job="j2", parent="base", round=1, recipe=RECIPE),
            event("learner ended", job="j2", policy_id="v2", round=1),
        ),
        start=1,
    ):
        apply_event(state, one, number)
    return state


def held(experiment: str, version: str, tripwire: str = "probe") -> ExperimentQuarantined:
    return ExperimentQuarantined(experiment_id=experiment, policy_id=version, tripwire=tripwire, why="it reads")  # type: ignore[arg-type]


def test_a_quarantine_ends_the_gate_and_the_branch_searches_again_when_it_is_cleared() -> None:
    state = story()
    apply_event(state, held("e1", "v1"), 20)
    branch, experiment = state.branches.by_experiment["e1"], state.proposals.experiments["e1"]
    assert state.gates == {}
    assert state.quarantine.holds("v1")
    assert not state.quarantine.holds("v2")
    assert state.free_candidates == [("v2", 1)]
    assert not branch.active
    assert "v1" in state.quarantine.why("v1")
    assert (branch.phase, experiment.phase, experiment.gate_id, experiment.over) == ("search", "search", "", False)
    assert state.may_be_parents(["v1", "base"]) == ["base"]
    apply_event(
        state, ExperimentCleared(experiment_id="e1", policy_id="v1", by="ada", reason="ok", tripwires=("probe",)), 21
    )
    assert branch.active
    assert not state.quarantine.holds("v1")
    assert not experiment.quarantined
    assert state.quarantine.was_cleared("e1", "probe")
    assert not state.quarantine.may_trip("e1", "probe")
    assert state.quarantine.may_trip("e1", "speed"), "only what a person saw is cleared"


def test_a_candidate_of_a_round_waits_and_keeps_its_place() -> None:
    state = story()
    apply_event(state, event("gate opened", gate_id="g2", champion="base", candidate="v2", k=2, rule={}, round=1), 20)
    assert state.candidates == []
    apply_event(state, held("", "v2"), 21)
    assert list(state.gates) == ["g1"]
    assert state.candidates == [("v2", 1)]
    assert state.free_candidates == []
    apply_event(
        state, ExperimentCleared(experiment_id="", policy_id="v2", by="ada", reason="ok", tripwires=("speed",)), 22
    )
    assert state.free_candidates == [("v2", 1)]


def test_three_suspected_successes_demand_one_quarantine() -> None:
    state = story()
    for number in range(3):
        assert not state.quarantine.due()
        suspected = EpisodeSuspected(
            experiment_id="e1", policy_id="v1", order_id=f"o{number}", tripwire="displacement", why="nothing moved"
        )
        apply_event(state, suspected, 20 + number)
    [due] = state.quarantine.due()
    assert (due.subject, due.tripwire, due.episodes) == ("e1", "displacement", ("o0", "o1", "o2"))
    apply_event(state, due, 30)
    assert not state.quarantine.due()


def suspected(number: int) -> EpisodeSuspected:
    return EpisodeSuspected(
        experiment_id="e1", policy_id="v1", order_id=f"o{number}", tripwire="displacement", why="nothing moved"
    )


def test_a_clearance_keeps_the_suspected_successes_of_what_the_operator_did_not_see() -> None:
    state = story()
    apply_event(state, held("e1", "v1", "approval"), 20)
    for number in range(2):
        apply_event(state, suspected(number), 21 + number)
    approved = ExperimentCleared(experiment_id="e1", policy_id="v1", by="ada", reason="ok", tripwires=("approval",))
    apply_event(state, approved, 24)
    assert not state.quarantine.due()
    apply_event(state, suspected(2), 25)
    [due] = state.quarantine.due()
    assert (due.tripwire, due.episodes) == ("displacement", ("o0", "o1", "o2"))
    apply_event(state, due, 26)
    looked = ExperimentCleared(experiment_id="e1", policy_id="v1", by="ada", reason="ok", tripwires=("displacement",))
    apply_event(state, looked, 27)
    apply_event(state, suspected(3), 28)
    assert not state.quarantine.due(), "a person looked at this tripwire and cleared it"


def in_the_way(state: CampaignState) -> list[str]:
    return [one.experiment_id for one in state.proposals.in_the_way("one")]


def test_what_waits_only_because_its_successes_are_not_believed_does_not_block_its_session_until_it_is_cleared() -> (
    None
):
    for tripwire in ("displacement", "speed", "critic", "gate gap"):
        state = story()
        assert in_the_way(state) == ["e1"]
        apply_event(state, held("e1", "v1", tripwire), 20)
        assert in_the_way(state) == []
        apply_event(state, held("e1", "v1", "flood"), 21)
        assert in_the_way(state) == ["e1"]
        seen = ExperimentCleared(
            experiment_id="e1", policy_id="v1", by="ada", reason="ok", tripwires=("flood",), still=(tripwire,)
        )  # type: ignore[arg-type]
        apply_event(state, seen, 22)
        assert in_the_way(state) == []
        assert not state.proposals.may_be_built_on(state.proposals.experiments["e1"])
        apply_event(state, replace(seen, tripwires=(tripwire,), still=()), 23)
        assert in_the_way(state) == ["e1"], "it is at work again"
        assert state.proposals.may_be_built_on(state.proposals.experiments["e1"])
    for tripwire in ("canary", "probe", "flood", "forged lane", "operator", "approval", "promotion approval"):
        state = story()
        apply_event(state, held("e1", "v1", tripwire), 20)
        assert in_the_way(state) == ["e1"], tripwire


def test_held_experiments_of_a_session_take_no_place_of_the_other_sessions() -> None:
    state = story()
    for number in range(MAX_OPEN_EXPERIMENTS - 1):
        other = event("experiment submitted", experiment_id=f"o{number}", lane=f"l{number}", recipe=RECIPE)
        apply_event(state, other, 10 + number)
    with pytest.raises(UsageError, match="8 experiments are open"):
        require_few_open(state.proposals)
    apply_event(state, held("e1", "v1", "critic"), 20)
    require_few_open(state.proposals)
    apply_event(state, held("o0", "", "operator"), 21)
    apply_event(state, event("experiment submitted", experiment_id="more", lane="one", recipe=RECIPE), 22)
    with pytest.raises(UsageError, match="8 experiments are open"):
        require_few_open(state.proposals)
