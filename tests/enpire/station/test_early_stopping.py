"""Rollouts that are predicted to fail: which end, which run on as the control arm, and what is counted."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from enpire.campaign.campaign import Campaign, Rounds
from enpire.campaign.state import CampaignState, Count
from enpire.codec import early_stop_fields, episode_fields, read_early_stop, read_episode
from enpire.policy_calls import LoadedPolicy
from enpire.scheduling.scheduler import FreeStation, Scheduler
from enpire.station.early_stopping import LOOK_TICKS, LOOKS, ViabilityMonitor
from enpire.station.lanes import Lanes
from enpire.types import SOURCE_POLICY, EarlyStop, Episode, FloatArray, IntArray, Observation, Order
from tests.enpire.station.test_lanes import run_all
from tests.fakes.point_task import LIMIT, PointPolicy, PointRig, PointTask, point_order

ARMED, CONTROL = (EarlyStop(below=0.1, control=0.2, armed=armed) for armed in (True, False))


class Lost(PointPolicy):
    """A policy that does not move and reports a low viability."""

    fault_of_the_critic = False

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return np.zeros((len(lanes), self.horizon, 2), np.float32)

    def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
        if self.fault_of_the_critic:
            raise ValueError("no idea")
        assert observation.state.shape == (len(lanes), 2)
        return np.full(len(lanes), 0.02, np.float32)


def loaded(policy: PointPolicy) -> LoadedPolicy:
    return LoadedPolicy(policy_id="p" * 64, policy=policy, source=SOURCE_POLICY)


def ordered(rule: EarlyStop | None, index: int = 0) -> Order:
    return dataclasses.replace(point_order("p" * 64, index), early_stop=rule)


def ran(policy: PointPolicy, rule: EarlyStop | None) -> Episode:
    [parcel] = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 1)), [ordered(rule)], loaded(policy)).values()
    assert read_episode(episode_fields(parcel.episode)) == parcel.episode, "it crosses the wire as it is"
    return parcel.episode


def test_an_armed_rollout_with_low_viability_ends_and_the_control_arm_runs_to_its_end() -> None:
    stopped, control, free = ran(Lost(), ARMED), ran(Lost(), CONTROL), ran(Lost(), None)
    assert (stopped.outcome, stopped.cause) == ("aborted", "predicted failure: its viability stayed under 0.1")
    assert stopped.ticks == stopped.predicted_failure_at == control.predicted_failure_at == (LOOKS - 1) * LOOK_TICKS
    assert (control.outcome, control.ticks) == (free.outcome, free.ticks) == ("failure", LIMIT)
    assert free.predicted_failure_at == -1


def test_a_failing_critic_stops_no_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lost, "fault_of_the_critic", True)
    episode = ran(Lost(), ARMED)
    assert (episode.outcome, episode.predicted_failure_at) == ("failure", -1)


def test_one_high_viability_restarts_the_count() -> None:
    class Moody(Lost):
        said = iter([0.02] * (LOOKS - 1) + [0.5] + [0.02] * LOOKS)

        def viability(self, observation: Observation, lanes: IntArray) -> FloatArray:
            return np.full(len(lanes), next(self.said), np.float32)

    foresight = ViabilityMonitor(1)
    foresight.begin(0, ordered(ARMED), loaded(Moody()))
    seen, lane = Observation(stamp_ns=0, state=np.zeros((1, 2), np.float32)), np.zeros(1, np.int64)
    for look in range(2 * LOOKS):
        ended = foresight.look(seen, lane, np.asarray([look * LOOK_TICKS]))
        assert bool(ended) == (look == 2 * LOOKS - 1)
        assert not foresight.look(seen, lane, np.asarray([look * LOOK_TICKS + 1])), "only every few commands"


def ended(rule: EarlyStop, outcome: str, predicted_failure_at: int = 20, ticks: int = 60, index: int = 0) -> Episode:
    return Episode(
        order=ordered(rule, index), outcome=outcome, cause="", confidence=1.0, ran_policy_id="p" * 64,  # pyright: ignore[reportArgumentType]
        ticks=ticks, began_s=0.0, ended_s=1.0, predicted_failure_at=predicted_failure_at, sha256="s",
    )  # fmt: skip


def test_saved_time_comes_from_the_control_arm_and_stopped_rollouts_count_as_failures() -> None:
    state = CampaignState()
    for _ in range(3):
        state.end(ended(ARMED, "aborted", ticks=20))
    assert state.by_round[1] == Count(0, 3), "for a rate they are failures"
    assert [row.stopped for row in state.data.rows] == [True] * 3, "critics may learn from them"
    assert state.data.fresh("p" * 64) == state.usable("p" * 64) == 0, "but they count for no round"
    assert state.fresh == 0
    for outcome in ("failure", "failure", "success"):
        state.end(ended(CONTROL, outcome))
    assert state.early_stops.flagged == Count(1, 3)
    assert len(state.data.rows) == 6
    state.end(ended(ARMED, "success", predicted_failure_at=-1))
    assert state.early_stops.stopped == 3


def test_the_scheduler_draws_both_arms_and_stops_none_after_the_control_arm_refutes_it() -> None:
    campaign = Campaign(
        name="coin", task="coin", recipe="r", rounds=Rounds(early_stop=0.05, early_stop_control=0.25, hard_starts=0.0)
    )
    starts = lambda split, index, scope="": PointTask().start(split, index, b"")  # noqa: E731
    scheduler = Scheduler(campaign, starts, random.Random(1))
    state = CampaignState(campaign_id="C", champion="p" * 64, base_measured=True, confirmed={"p" * 64: False})
    rules = [order.early_stop for order in scheduler.next_orders(state, FreeStation("a", 1, 400))]
    assert all(rule is not None and (rule.below, rule.control) == (0.05, 0.25) for rule in rules)
    assert 0.65 < sum(rule is not None and rule.armed for rule in rules) / 400 < 0.85
    state.early_stops.flagged = Count(10, 20)
    withdrawn = [order.early_stop for order in scheduler.next_orders(state, FreeStation("a", 1, 50))]
    # Every rollout now runs to its end, so each represents itself alone: 1 / control is 1, also after the wire.
    assert set(withdrawn) == {EarlyStop(below=0.05, control=1.0, armed=False)}
    assert {read_early_stop(early_stop_fields(rule)) for rule in withdrawn} == set(withdrawn)
    with pytest.raises(ValueError, match="early_stop"):
        Rounds(early_stop=1.0)
