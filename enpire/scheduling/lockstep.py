"""Orders of a campaign in lockstep: starts and stations do not depend on the speed of stations, learners or agents.

Every order has a number: the i-th demonstration, the i-th episode of a collection, the i-th pair of a gate. The start
is drawn from that number. Blocks of numbers go to the stations in turn, because stations differ. Numbers are issued in
order. A station that refused a version gets no orders for it until the refusal expires, as long as another station may
be able to run it.
"""

from __future__ import annotations

import random

from enpire.campaign.campaign import Campaign
from enpire.campaign.state import CampaignState, OpenGate
from enpire.scheduling.scheduler import (
    EXPERT,
    FreeStation,
    Scheduler,
    in_flight,
    interrupted_start,
    next_pair,
    next_start,
)
from enpire.types import Order, Purpose, Start

BLOCK = 8
"""Consecutive numbers that one station gets."""


def experiment_first(state: CampaignState, campaign: Campaign) -> bool:
    """Whether a campaign in lockstep waits until the agent's next experiment has begun.

    It does not wait for a person: for an experiment in quarantine, or for a session that such an experiment blocks.
    """
    proposals = state.proposals
    if not (campaign.rounds.lockstep and proposals.experiment_turn):
        return False
    gone = proposals.away | {one.lane for one in proposals.in_the_way() if one.quarantined}
    at_work = [lane for plan in campaign.agents for lane in plan.lane_names if lane not in gone]
    return bool(at_work) or any(not one.quarantined for one in proposals.undecided())


def demonstrated(state: CampaignState, campaign: Campaign) -> int:
    """Demonstrations that count for the base: successful ones that it may use now; in lockstep each one that ended."""
    if campaign.rounds.lockstep:
        return sum(row.purpose == "demonstrate" for row in state.data.rows)
    return sum(row.success for row in state.data.demonstrations(campaign, state.open.values()))


class Lockstep(Scheduler):
    """Draws numbered orders for the stations in turn. Robots are idle while a learner or an agent works."""

    def _demonstration(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        number = demonstrated(state, self.campaign) + in_flight(state, "demonstrate") + len(drawn)
        if number >= self.campaign.base.demonstrations or not self._turn_of(station, number):
            return []
        start = self._train_start("demonstrate", 0, number)
        return [self._order(state, station, "demonstrate", start, EXPERT)]

    def _confirm(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        frozen = state.confirmation.policy_id if state.confirmation else ""
        return super()._confirm(state, station, drawn) if self._mine(state, station, "confirm", frozen, drawn) else []

    def _pair(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        gate = self._gate(state, station)
        mine = gate is not None and self._turn_of(station, next_pair(gate, drawn), *gate.policies.values())
        return super()._pair(state, station, drawn) if mine else []

    def _scope(self, gate: OpenGate) -> str:
        return f"gate {gate.k}"

    def _base(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        mine = self._mine(state, station, "base", state.base_policy, drawn)
        return super()._base(state, station, drawn) if mine else []

    def _mine(
        self, state: CampaignState, station: FreeStation, purpose: Purpose, version: str, drawn: list[Order]
    ) -> bool:
        """Whether the next new start of a measurement is this station's; any station reissues an interrupted trial."""
        again = interrupted_start(state, purpose, version, drawn)
        return again is not None or self._turn_of(station, next_start(state, purpose, version, drawn), version)

    def _collect(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        """The next of exactly `rounds.episodes` orders, unless a learner, a gate or an agent is at work."""
        number = state.fresh + in_flight(state, "collect") + _count(drawn, "collect")
        busy = state.training or state.free_candidates or state.gates or experiment_first(state, self.campaign)
        if busy or number >= self.campaign.rounds.episodes or not self._turn_of(station, number, state.parent):
            return []
        start = self._train_start("collect", state.round, number)
        return [self._order(state, station, "collect", start, state.parent)]

    def _train_start(self, purpose: Purpose, round_: int, number: int) -> Start:
        draw = random.Random(f"{self.campaign.seed} {purpose} {round_} {number}")
        return self.starts("train", draw.randrange(self.campaign.rounds.train_starts))

    def _turn_of(self, station: FreeStation, number: int, *versions: str) -> bool:
        """Whether a number belongs to this station, among the stations that can run these versions."""
        names = self.campaign.stations.names
        able = [name for name in names if all((name, version) not in station.unable for version in versions)] or names
        return able[number // BLOCK % len(able)] == station.name


def _count(drawn: list[Order], purpose: Purpose) -> int:
    return sum(order.purpose == purpose for order in drawn)
