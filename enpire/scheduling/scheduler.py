"""Which order a free station gets next: the most valuable robot-seconds first, and never none.

Order of value: the confirmation of a frozen champion, then the trials of an open gate (paired, both sides on the same
station, in random order), then the base policy's measurement, then data collection, which is the filler that keeps
every robot moving while others think.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from enpire.campaign.campaign import Campaign
from enpire.campaign.state import CampaignState, Count, OpenGate
from enpire.gate.gate import Side
from enpire.ids import mint
from enpire.types import EarlyStop, Order, Purpose, Split, Start

EXPERT = "scripted:expert"
UNREAD = 20
"""Pairs that may wait behind one that is slow, beyond as many as there are orders under way: then robots collect data,
and do not use up the gate's pairs before the first of them are read."""


class Starts(Protocol):
    """Where starts come from: a task, with the laboratory's secret already given."""

    def __call__(self, split: Split, index: int, scope: str = "") -> Start:
        """The index-th start of a split; `scope` makes a sequence of its own (a gate, a frozen policy)."""
        ...


@dataclass(frozen=True, slots=True)
class FreeStation:
    """The station that asks."""

    name: str
    lease: int
    room: int
    """Orders it can take now."""
    refuses: frozenset[str] = frozenset()
    """Versions that it cannot run now."""
    unable: frozenset[tuple[str, str]] = frozenset()
    """(station, version) of all stations and the versions that they refused when they were asked last."""


@dataclass(slots=True)
class Scheduler:
    """Draws orders from the state of a campaign. Holds no state of its own but the random stream."""

    campaign: Campaign
    starts: Starts
    random: random.Random

    def next_orders(self, state: CampaignState, seat: FreeStation, others: Sequence[Order] = ()) -> list[Order]:
        """Orders for one station: as a rule `seat.room`, one more where a gate's pair would be parted.

        `others` are drawn already for other stations, and not yet in the state.
        """
        orders = list(others)
        for source in self._sources(state):
            while len(orders) - len(others) < seat.room and (drawn := source(state, seat, orders)):
                if not seat.refuses.isdisjoint(order.policy_id for order in drawn):
                    break
                orders.extend(drawn)
        return orders[len(others) :]

    def _sources(self, state: CampaignState) -> list[Callable[..., list[Order]]]:
        if not state.champion:
            return [self._demonstration]
        enough = state.fresh + in_flight(state, "collect") >= self.campaign.rounds.episodes
        data_first = state.training is None and not state.candidates and state.gate is None and not enough
        tail = [self._collect] if state.base_measured else [self._base, self._collect]
        if data_first and not state.base_measured:
            tail = [self._collect_until_enough, *tail]
        return [self._confirm, self._again, self._pair, *tail]

    def _demonstration(self, state: CampaignState, seat: FreeStation, drawn: list[Order]) -> list[Order]:
        start = self.starts("train", self.random.randrange(self.campaign.rounds.train_starts))
        return [self._order(state, seat, "demonstrate", start, EXPERT)]

    def _confirm(self, state: CampaignState, seat: FreeStation, drawn: list[Order]) -> list[Order]:
        confirmation = state.confirmation
        if confirmation is None:
            return []
        waiting = sum(order.purpose == "confirm" for order in drawn)
        if confirmation.ended.n + in_flight(state, "confirm") + waiting >= confirmation.n:
            return []
        index = state.confirm_issued[confirmation.policy_id] + waiting
        start = self.starts("confirm", index, confirmation.policy_id)
        return [self._order(state, seat, "confirm", start, confirmation.policy_id)]

    def _pair(self, state: CampaignState, seat: FreeStation, drawn: list[Order]) -> list[Order]:
        gate = state.gate
        if gate is None:
            return []
        pair = next_pair(gate, drawn)
        unread = pair - (gate.decision.tally.pairs if gate.decision else 0)
        under_way = in_flight(state, "gate") + sum(order.purpose == "gate" for order in drawn)
        if pair >= self.campaign.gate.pairs or unread > under_way + UNREAD:
            return []
        return self._sides(state, seat, gate, pair, ["champion", "candidate"])

    def _again(self, state: CampaignState, seat: FreeStation, drawn: list[Order]) -> list[Order]:
        """What was taken back of the first pair that misses a side: from its own start, here if need be.

        A station that refuses one of the two versions gets neither: it would run all of the other one's trials.
        """
        gate = state.gate
        if gate is None or not seat.refuses.isdisjoint(gate.policies.values()):
            return []
        drawn_again = {(order.pair, order.side) for order in drawn if order.purpose == "gate"}
        missing = sorted(one for one in gate.again if one not in drawn_again)
        if not missing:
            return []
        pair = missing[0][0]
        return self._sides(state, seat, gate, pair, [side for number, side in missing if number == pair])

    def _sides(
        self, state: CampaignState, seat: FreeStation, gate: OpenGate, pair: int, sides: list[Side]
    ) -> list[Order]:
        """Orders for these sides of a pair, in random order."""
        start = self.starts("holdout", pair, self._scope(gate))
        self.random.shuffle(sides)
        return [
            self._order(state, seat, "gate", start, gate.policies[side], gate_id=gate.gate_id, pair=pair, side=side)
            for side in sides
        ]

    def _scope(self, gate: OpenGate) -> str:
        """Whose hidden starts a gate's are: its own."""
        return gate.gate_id

    def _base(self, state: CampaignState, seat: FreeStation, drawn: list[Order]) -> list[Order]:
        waiting = sum(order.purpose == "base" for order in drawn)
        if state.base.n + in_flight(state, "base") + waiting >= self.campaign.base.evaluate_starts:
            return []
        index = state.base_issued + waiting
        start = self.starts("holdout", index, f"base {state.base_policy}")
        return [self._order(state, seat, "base", start, state.base_policy)]

    def _collect_until_enough(self, state: CampaignState, seat: FreeStation, drawn: list[Order]) -> list[Order]:
        ordered = in_flight(state, "collect") + sum(order.purpose == "collect" for order in drawn)
        return self._collect(state, seat, drawn) if state.fresh + ordered < self.campaign.rounds.episodes else []

    def _collect(self, state: CampaignState, seat: FreeStation, drawn: list[Order]) -> list[Order]:
        index = self.random.randrange(self.campaign.rounds.train_starts)
        if self.random.random() < self.campaign.rounds.practised:
            index = self._uncertain(state, index)
        share = self.campaign.rounds.supervised
        supervised = share > 0 and self.random.random() < share
        start, rule = self.starts("train", index), None if supervised else self._early_stop(state)
        return [self._order(state, seat, "collect", start, state.champion, supervised=supervised, early_stop=rule)]

    def _early_stop(self, state: CampaignState) -> EarlyStop | None:
        """Whether the rollout may end early. Once the control arm shows that it costs successes, nothing does."""
        rounds = self.campaign.rounds
        if not rounds.early_stop:
            return None
        armed = self.random.random() >= rounds.early_stop_control and not state.early_stops.refuted
        return EarlyStop(below=rounds.early_stop, control=rounds.early_stop_control, armed=armed)

    def _uncertain(self, state: CampaignState, otherwise: int) -> int:
        """A start that is near a coin's flip, by the variance of its success rate.

        Only odd indices are practised: the even ones stay uniformly drawn, so that a version's success on them is an
        honest estimate (what `deploy` watches for a regression).
        """
        known = [index for index in state.practice if index % 2]
        if len(known) < 20:
            return otherwise
        looked = self.random.sample(known, min(8, len(known)))
        return max(looked, key=lambda index: _variance(state.practice[index]))

    def _order(
        self, state: CampaignState, seat: FreeStation, purpose: Purpose, start: Start, policy: str, **more: object
    ) -> Order:
        fields: dict[str, object] = {
            "order_id": mint(), "campaign_id": state.campaign_id, "station": seat.name, "task": self.campaign.task,
            "policy_id": policy, "start": start, "purpose": purpose, "round": state.round, "lease": seat.lease,
        }  # fmt: skip
        return Order(**fields, **more)  # pyright: ignore[reportArgumentType]


def next_pair(gate: OpenGate, drawn: Sequence[Order]) -> int:
    """The number of the first pair of a gate that was not ordered yet."""
    return max(gate.issued, 1 + max((order.pair for order in drawn if order.gate_id == gate.gate_id), default=-1))


def in_flight(state: CampaignState, purpose: Purpose) -> int:
    """How many orders of a purpose have no outcome yet."""
    return sum(order.purpose == purpose for order in state.open.values())


def _variance(count: Count) -> float:
    mean = (count.successes + 1) / (count.n + 2)
    return mean * (1 - mean)
