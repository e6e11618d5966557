"""A champion is compared with the one before it by rollouts of both as they are deployed."""

from __future__ import annotations

from enpire.campaign.apply_events import apply_event
from enpire.campaign.gate_events import Deployed
from enpire.campaign.state import CampaignState
from enpire.types import Episode, Order, Start

CAREFUL, NOISY = "a" * 64, "b" * 64


def deploy(state: CampaignState, policy_id: str) -> None:
    apply_event(state, Deployed(policy_id=policy_id, previous=state.champion, reason="better", round=1), 1)


def collect(state: CampaignState, policy_id: str, count: int, explores: int) -> None:
    """Rollouts that succeed only as the version is deployed; all but one in `explores` have more noise (0: none)."""
    for number in range(count):
        start = Start(split="train", index=2 * number, values=(), seed=number)
        order = Order(
            order_id=f"{policy_id[0]}{number}", campaign_id="C1", station="s", task="t", policy_id=policy_id,
            start=start, purpose="collect", round=1,
        )  # fmt: skip
        explored = bool(explores and number % explores)
        state.issue(order)
        ended = Episode(
            order=order, outcome="failure" if explored else "success", cause="", confidence=1.0,
            ran_policy_id=policy_id, ticks=3, began_s=0.0, ended_s=1.0, explored=explored,
        )  # fmt: skip
        state.end(ended)


def test_noise_of_data_collection_rolls_no_champion_back() -> None:
    state = CampaignState(campaign_id="C1")
    deploy(state, CAREFUL)
    collect(state, CAREFUL, 400, explores=0)
    deploy(state, NOISY)
    collect(state, NOISY, 400, explores=4)
    assert state.watch is not None
    assert not state.watch.found
    assert (state.watch.successes, state.watch.trials) == (100, 100)
    assert state.collected[CAREFUL].n == 400
    assert state.by_round[1].n == 800


def test_a_version_that_collects_as_it_is_deployed_counts_with_every_rollout() -> None:
    state = CampaignState(campaign_id="C1")
    deploy(state, CAREFUL)
    collect(state, CAREFUL, 10, explores=0)
    deploy(state, NOISY)
    collect(state, NOISY, 10, explores=0)
    assert state.watch is not None
    assert state.watch.trials == 10
