"""Which order a free station gets next: the most valuable robot-seconds first.

Order of value: the confirmation of a frozen champion, then the trials of an open gate (paired, both trials at the same
station, in random order), then the measurement of a promising champion, then that of the base policy, then data
collection and branches by their shares (enpire/scheduling/branch_shares.py). A round learns from a fixed number of
rollouts (enpire/campaign/learner_data.py). Further ones (purpose `extra`) keep every robot moving while a learner, a
gate or an agent works; they measure the champion, and count for the next round if the champion stays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

from enpire.campaign.branch import Branch
from enpire.campaign.campaign import Campaign
from enpire.campaign.confirmation_forecast import most_measurements
from enpire.campaign.state import CampaignState, Count, OpenGate
from enpire.gate.trials import Side
from enpire.ids import mint
from enpire.scheduling.branch_shares import CHAMPION, COLLECT, robot_time_shares
from enpire.scheduling.gate_stations import gate_stations
from enpire.types import COLLECTION, PEOPLE, EarlyStop, Order, Purpose, Split, Start

EXPERT = "scripted:expert"
UNREAD = 20
"""Most pairs of a gate that may wait for a slow earlier pair, in addition to the orders in flight. Beyond that, robots
collect data, so that the gate is not used up before its first pairs are read."""

WHILE_LOADING = 2
"""Most search orders of a version at a station that has not run it yet: loading a version may take a minute."""
MEASURED = 0.5
"""Share of the orders that measure the champion while a round needs rollouts; all of them while none does."""


class Starts(Protocol):
    """Gives the starts of a task, with the lab's secret already bound."""

    def __call__(self, split: Split, index: int, scope: str = "") -> Start:
        """The index-th start of a split. Each `scope` (a gate, a frozen policy) has its own sequence."""
        ...


@dataclass(frozen=True, slots=True)
class FreeStation:
    """A station with free lanes, and the versions that stations refuse."""

    name: str
    lease: int
    room: int
    """Orders that it can take now."""
    refuses: frozenset[str] = frozenset()
    """Versions that it cannot run now."""
    unable: frozenset[tuple[str, str]] = frozenset()
    """(station, version) for all stations: versions that they refused at the last try."""
    fleet: Mapping[str, int] = field(default_factory=dict[str, int])
    """All stations that take orders now, with their lanes; empty if it is the only one."""
    waits_for_person: frozenset[str] = frozenset()
    """Demonstrations by people, at all stations, that no person has begun."""


class DrawsOrders(Protocol):
    """Draws the orders of free stations: a `Scheduler`, or the one of a study."""

    def next_orders(self, state: CampaignState, station: FreeStation, others: Sequence[Order] = ()) -> list[Order]:
        """Orders for one station; `others` are drawn for other stations and not in the state yet."""
        ...


@dataclass(slots=True)
class Scheduler:
    """Draws orders from the state of a campaign. Its only own state is the random stream."""

    campaign: Campaign
    starts: Starts
    random: random.Random
    limit_ticks: int = 1
    """Of the task; branches are compared by success and time."""
    search_starts: list[int] = field(default_factory=list[int])
    _shares: dict[bool, Mapping[str, float]] = field(default_factory=dict[bool, Mapping[str, float]], repr=False)
    """Whether a round needs rollouts -> shares of robot time, the same for all stations of one turn of the loop."""
    _collecting: int | None = field(default=None, repr=False)
    """Open orders that collect for the next round; the same for all orders of one draw."""

    def next_orders(self, state: CampaignState, station: FreeStation, others: Sequence[Order] = ()) -> list[Order]:
        """Orders for one station: usually `station.room`, one more where a pair would be split.

        `others` are orders already drawn for other stations that are not in the state yet.
        """
        orders = list(others)
        if not others:
            self._shares.clear()
        self._collecting = None
        for source in self._sources(state):
            while len(orders) - len(others) < station.room and (drawn := source(state, station, orders)):
                if not station.refuses.isdisjoint(order.policy_id for order in drawn):
                    break
                orders.extend(drawn)
        return orders[len(others) :]

    def _sources(self, state: CampaignState) -> list[Callable[..., list[Order]]]:
        if not state.champion:
            return [self._demonstration]
        enough = self._is_enough(state)
        waits = state.training or state.free_candidates or state.gates or state.branches.active
        searches = state.branches.active or state.branches.champion_is_behind(self.campaign.branches.least_starts)
        rest = self._search_or_collect if searches else self._collect
        tail = [rest] if state.base_measured else [self._base, rest]
        if not waits and not enough and not state.base_measured:
            tail = [self._collect_until_enough, *tail]  # a learner waits for data; nothing waits for the base
        if measures_champion(state, self.campaign):
            tail = [self._measure_or(rest)]
        return [self._confirm, self._reissue, self._pair, *tail]

    def _demonstration(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        people = self.campaign.base.demonstrators == "people"
        if people and not self._waits_for_people(state, station, drawn):
            return []
        start = self.starts("train", self.random.randrange(self.campaign.rounds.train_starts))
        shows = PEOPLE if people else EXPERT
        return [self._order(state, station, "demonstrate", start, shows, supervised=people)]

    def _waits_for_people(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> bool:
        """Whether a person may demonstrate at this station: one order at a time, while demonstrations are missing.

        A robot that waits for a person keeps no other person from demonstrating. `dispatch` ends the waits that are
        left over.
        """
        under_way = [one for one in chain(drawn, state.open.values()) if one.purpose == "demonstrate"]
        busy = any(one.station == station.name for one in under_way)
        begun = sum(one.order_id not in station.waits_for_person for one in under_way)
        return not busy and not has_demonstrations(state, self.campaign, begun)

    def _confirm(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        confirmation = state.confirmation
        if confirmation is None:
            return []
        version, issued = confirmation.policy_id, sum(order.purpose == "confirm" for order in drawn)
        if confirmation.ended.n + in_flight(state, "confirm") + issued >= confirmation.n:
            return []
        again = interrupted_start(state, "confirm", version, drawn)
        start = again or self.starts("confirm", next_start(state, "confirm", version, drawn), version)
        return [self._order(state, station, "confirm", start, version)]

    def _gate(self, state: CampaignState, station: FreeStation) -> OpenGate | None:
        """The gate that a station serves now; None if there is none for it."""
        if len(state.gates) < 2:
            return next(iter(state.gates.values()), None)
        return gate_stations(state.gates, station.fleet or {station.name: 1}, station.unable).get(station.name)

    def _pair(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        gate = self._gate(state, station)
        if gate is None:
            return []
        pair = next_pair(gate, drawn)
        unread = pair - (gate.decision.tally.pairs if gate.decision else 0)
        under_way = sum(order.gate_id == gate.gate_id for order in chain(drawn, state.open.values()))
        if pair >= self.campaign.gate.pairs or unread > under_way + UNREAD:
            return []
        return self._sides(state, station, gate, pair, ["champion", "candidate"])

    def _reissue(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        """Reissue the released trials of the first incomplete pair, from the same start, at any station of the gate.

        A station that refuses one of the two versions gets neither: it would run all trials of the other version.
        """
        gate = self._gate(state, station)
        if gate is None or not station.refuses.isdisjoint(gate.policies.values()):
            return []
        reissued = {(order.pair, order.side) for order in drawn if order.gate_id == gate.gate_id}
        missing = sorted(one for one in gate.again if one not in reissued)
        if not missing:
            return []
        pair = missing[0][0]
        return self._sides(state, station, gate, pair, [side for number, side in missing if number == pair])

    def _sides(
        self, state: CampaignState, station: FreeStation, gate: OpenGate, pair: int, sides: list[Side]
    ) -> list[Order]:
        """Orders for these sides of a pair, in random order."""
        start = self.starts("holdout", pair, self._scope(gate))
        self.random.shuffle(sides)
        return [
            self._order(state, station, "gate", start, gate.policies[side], gate_id=gate.gate_id, pair=pair, side=side)
            for side in sides
        ]

    def _scope(self, gate: OpenGate) -> str:
        """The scope of a gate's hidden starts: the gate itself."""
        return gate.gate_id

    def _base(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        version, issued = state.base_policy, sum(order.purpose == "base" for order in drawn)
        if state.base.n + in_flight(state, "base") + issued >= self.campaign.base.evaluate_starts:
            return []
        again = interrupted_start(state, "base", version, drawn)
        start = again or self.starts("holdout", next_start(state, "base", version, drawn), f"base {version}")
        return [self._order(state, station, "base", start, version)]

    def _measure_or(self, rest: Callable[..., list[Order]]) -> Callable[..., list[Order]]:
        """Measurements of the champion; while a round needs rollouts, every other order is one of `rest`."""

        def draw(state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
            first = not self._is_due(state, drawn) or self.random.random() < MEASURED
            return (self._measure(state, station, drawn) if first else []) or rest(state, station, drawn)

        return draw

    def _measure(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        version = state.champion
        number = state.forecast.measured[version] + sum(order.purpose == "measure" for order in drawn)
        if number >= most_measurements(self.campaign.goal) or version in station.refuses:
            return []
        return [self._order(state, station, "measure", self.starts("holdout", number, f"measure {version}"), version)]

    def _collect_until_enough(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        return self._collect(state, station, drawn) if self._is_due(state, drawn) else []

    def _collect(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        index = self.random.randrange(self.campaign.rounds.train_starts)
        if self.random.random() < self.campaign.rounds.hard_starts:
            index = self._uncertain(state, index)
        share = self.campaign.rounds.supervised
        supervised = share > 0 and self.random.random() < share
        start, rule = self.starts("train", index), None if supervised else self._early_stop(state)
        due = self._is_due(state, drawn)
        acts = state.parent if due and state.parent not in station.refuses else state.champion
        purpose: Purpose = "collect" if due else "extra"
        return [self._order(state, station, purpose, start, acts, supervised=supervised, early_stop=rule)]

    def _search_or_collect(self, state: CampaignState, station: FreeStation, drawn: list[Order]) -> list[Order]:
        """A rollout of a branch, of the champion on the same starts, or of data collection, drawn by their shares."""
        if (shares := self._shares.get(due := self._is_due(state, drawn))) is None:
            shares = robot_time_shares(state, self.campaign, self.limit_ticks, due=due)
            self._shares[due] = shares
        branch, version = self._searched(state, station, drawn, dict(shares))
        if not version:
            return self._collect(state, station, drawn)
        number = state.branches.next_start(version) + _searches(drawn, version)
        start = self.starts("train", self._search_start(number))
        experiment_id = branch.experiment_id if branch else CHAMPION
        order = self._order(state, station, "search", start, version, branch=experiment_id)
        return [replace(order, round=branch.newest_round) if branch else order]

    def _searched(
        self, state: CampaignState, station: FreeStation, drawn: list[Order], shares: dict[str, float]
    ) -> tuple[Branch | None, str]:
        """The branch (None: the champion) and the version that acts next at a station; without a version, collect.

        Where a station cannot run the version that was drawn, or may still load it, another one is drawn.
        """
        least = self.campaign.branches.least_starts
        while sum(shares.values()) > 0:
            experiment_id = self.random.choices(list(shares), list(shares.values()))[0]
            if experiment_id == COLLECT:
                break
            branch = state.branches.by_experiment.get(experiment_id)
            version = branch.newest if branch else state.champion
            needed = branch or state.branches.champion_is_behind(least, _searches(drawn, version))
            if needed and version not in station.refuses and not _still_loads(state, station, version, drawn):
                return branch, version
            del shares[experiment_id]
        return None, ""

    def _search_start(self, number: int) -> int:
        """Index of a train start in the sequence of search starts, which is the same for all versions."""
        if not self.search_starts:
            self.search_starts = list(range(self.campaign.rounds.train_starts))
            random.Random(f"{self.campaign.seed} search").shuffle(self.search_starts)
        return self.search_starts[number % len(self.search_starts)]

    def _is_due(self, state: CampaignState, drawn: Sequence[Order]) -> bool:
        """Whether the next round needs more rollouts. While a learner, a gate or a confirmation runs, none is due."""
        waits = state.training or state.free_candidates or state.gates or state.confirmation
        return not waits and not self._is_enough(state, drawn)

    def _is_enough(self, state: CampaignState, drawn: Sequence[Order] = ()) -> bool:
        """Whether the rollouts that the next round may use suffice, with those that are ordered."""
        if self._collecting is None:
            self._collecting = _collecting(state.open.values(), state.parent)
        needed = self.campaign.rounds.episodes - state.fresh
        return self._collecting + _collecting(drawn, state.parent) >= needed

    def _early_stop(self, state: CampaignState) -> EarlyStop | None:
        """The early-stop rule of a rollout. All are in the control arm once it shows that stops cost successes."""
        rounds = self.campaign.rounds
        if not rounds.early_stop:
            return None
        control = 1.0 if state.early_stops.refuted else rounds.early_stop_control
        return EarlyStop(below=rounds.early_stop, control=control, armed=self.random.random() >= control)

    def _uncertain(self, state: CampaignState, otherwise: int) -> int:
        """Hard-start sampling: of eight known starts, the one whose success rate has the highest variance.

        It uses odd indices only. Even ones stay uniformly drawn, so that a version's success on them is an unbiased
        estimate, from which `deploy` detects a regression.
        """
        known = [index for index in state.start_results if index % 2]
        if len(known) < 20:
            return otherwise
        candidates = self.random.sample(known, min(8, len(known)))
        return max(candidates, key=lambda index: _variance(state.start_results[index]))

    def _order(
        self, state: CampaignState, station: FreeStation, purpose: Purpose, start: Start, policy: str, **more: object
    ) -> Order:
        fields: dict[str, object] = {
            "order_id": mint(), "campaign_id": state.campaign_id, "station": station.name, "task": self.campaign.task,
            "policy_id": policy, "start": start, "purpose": purpose, "round": state.round, "lease": station.lease,
        }  # fmt: skip
        return Order(**fields, **more)  # pyright: ignore[reportArgumentType]


def measures_champion(state: CampaignState, campaign: Campaign) -> bool:
    """Whether the champion needs trials on hidden starts, because no gate gives any.

    Never in lockstep: how many trials are ordered before one decides would depend on the speed of the stations.
    """
    if not state.awaits_confirmation or state.gates or state.free_candidates or campaign.rounds.lockstep:
        return False
    return state.forecast.is_open(state.champion, campaign.goal)


def _collecting(orders: Iterable[Order], parent: str) -> int:
    """Number of orders that collect rollouts of the next round's parent."""
    return sum(order.purpose in COLLECTION and order.policy_id == parent for order in orders)


def _searches(drawn: Sequence[Order], version: str) -> int:
    return sum(order.purpose == "search" and order.policy_id == version for order in drawn)


def _still_loads(state: CampaignState, station: FreeStation, version: str, drawn: Sequence[Order]) -> bool:
    """Whether a station may still load a version and has enough orders for it, so that its other lanes keep working."""
    if (station.name, version) in state.branches.ran:
        return False
    mine = (one for one in chain(drawn, state.branches.open.values()) if one.station == station.name)
    return sum(one.purpose == "search" and one.policy_id == version for one in mine) >= WHILE_LOADING


def has_demonstrations(state: CampaignState, campaign: Campaign, begun: int) -> bool:
    """Whether the successful demonstrations suffice, if those that are begun succeed."""
    shown = sum(row.success for row in state.data.demonstrations(campaign))
    return shown + begun >= campaign.base.demonstrations


def next_pair(gate: OpenGate, drawn: Sequence[Order]) -> int:
    """The number of the first pair of a gate that is not ordered yet."""
    return max(gate.issued, 1 + max((order.pair for order in drawn if order.gate_id == gate.gate_id), default=-1))


def interrupted_start(state: CampaignState, purpose: Purpose, version: str, drawn: Sequence[Order]) -> Start | None:
    """The oldest start of a base measurement or a confirmation whose trial must be reissued; None if there is none."""
    taken = [order.start for order in drawn if order.purpose == purpose]
    waiting = state.reissues.waiting.get((purpose, version), ())
    return next((start for start in waiting if start not in taken), None)


def next_start(state: CampaignState, purpose: Purpose, version: str, drawn: Sequence[Order]) -> int:
    """The index of the next new start of a base measurement or a confirmation."""
    again = state.reissues.waiting.get((purpose, version), ())
    issued = state.confirm_issued[version] if purpose == "confirm" else state.base_issued
    return issued + sum(order.purpose == purpose and order.start not in again for order in drawn)


def in_flight(state: CampaignState, purpose: Purpose) -> int:
    """Number of orders of a purpose without an outcome."""
    return sum(order.purpose == purpose for order in state.open.values())


def _variance(count: Count) -> float:
    mean = (count.successes + 1) / (count.n + 2)
    return mean * (1 - mean)
