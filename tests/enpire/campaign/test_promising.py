"""A round starts from a promising candidate of the round before it, so that small gains add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enpire.campaign.apply_events import apply_event
from enpire.campaign.events import Event
from enpire.campaign.gate_events import Deployed, GateDecided, RolledBack
from enpire.campaign.quarantine_events import ExperimentQuarantined
from enpire.campaign.state import CampaignState

BASE, CANDIDATE, NEXT = "a" * 64, "b" * 64, "c" * 64
HELD = GateDecided(
    gate_id="G1", champion=BASE, candidate=CANDIDATE, round=1, decision="hold", reason="exhausted", pairs=100, wins=8,
    losses=3, both=80, neither=9, faster=40, slower=40, champion_unsafe=1, candidate_unsafe=1, level=0.05, log_need=3.0,
    log_e=1.0, log_e_worse=0.0, log_e_faster=0.0, low=-0.1, high=0.2, more=0,
)  # fmt: skip


def deployed(policy_id: str, previous: str = "") -> Deployed:
    return Deployed(policy_id=policy_id, previous=previous, reason="better", round=1)


def after(*events: Event) -> CampaignState:
    state = CampaignState(campaign_id="C1")
    for number, event in enumerate((deployed(BASE), *events), start=1):
        apply_event(state, event, number)
    return state


def test_a_held_candidate_that_won_more_pairs_is_the_parent_of_the_next_round() -> None:
    state = after(HELD)
    assert (state.champion, state.parent, state.rounds_since_promotion) == (BASE, CANDIDATE, 1)


def test_a_held_candidate_in_quarantine_is_no_parent() -> None:
    quarantined = ExperimentQuarantined(
        experiment_id="", policy_id=CANDIDATE, tripwire="operator", why="seen", by="anna"
    )
    assert after(HELD, quarantined).parent == BASE


@pytest.mark.parametrize(
    "gate",
    [
        replace(HELD, decision="reject"),
        replace(HELD, losses=8),
        replace(HELD, candidate_unsafe=2),
    ],
)
def test_any_other_candidate_is_not(gate: GateDecided) -> None:
    assert after(gate).parent == BASE
    assert after(HELD, replace(gate, candidate=NEXT)).parent == BASE, "only the candidate of the last round counts"


@pytest.mark.parametrize(
    "event",
    [deployed(NEXT, BASE), RolledBack(policy_id=BASE, to=NEXT, reason="worse")],
    ids=["promoted", "rolled back"],
)
def test_a_new_champion_is_the_parent(event: Event) -> None:
    state = after(HELD, event)
    assert (state.champion, state.parent) == (NEXT, NEXT)
