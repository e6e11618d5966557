"""Which trial of a study runs next: blocks in order, the arms of a block in random order at one station."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from enpire.campaign.state import CampaignState
from enpire.ids import mint
from enpire.scheduling.scheduler import FreeStation, Starts
from enpire.study.trials import Key, StudyTrials
from enpire.types import Order


@dataclass(slots=True)
class StudyScheduler:
    """Draws the orders of a study. It keeps nothing: the order of a block's arms depends on its key alone."""

    trials: StudyTrials
    starts: Starts
    block_key: Callable[[int], bytes]
    """Block -> the key of what is random in it."""
    is_connected: Callable[[str], bool]
    """Whether a station is connected; the blocks of another one move to the next free station."""
    ended: bool = False
    """Whether every test has ended, so that no trial is needed."""

    def next_orders(self, state: CampaignState, station: FreeStation, others: Sequence[Order] = ()) -> list[Order]:
        """At most `station.room` trials. With one lane, the arms of a block run one after the other in its order."""
        drawn = list(others)
        while not self.ended and len(drawn) - len(others) < station.room:
            found = self._next(station, drawn)
            if found is None or self._version(found[1]) in station.refuses:
                break
            drawn.append(self._order(state, station, *found))
        return drawn[len(others) :]

    def _next(self, station: FreeStation, drawn: Sequence[Order]) -> Key | None:
        trials = self.trials
        taken = {(order.pair, trials.arms[order.policy_id]) for order in drawn}
        places = {order.pair: order.station for order in drawn} | trials.stations
        for block in range(trials.complete, trials.plan.blocks):
            place = places.get(block, station.name)
            if place != station.name and self.is_connected(place):
                continue
            for arm in self.order_of(block):
                key = block, arm
                if key not in taken and key not in trials.open and key not in trials.settled:
                    return key
        return None

    def order_of(self, block: int) -> list[str]:
        """The arms of a block in the order in which they run."""
        arms = list(self.trials.plan.names)
        random.Random(self.block_key(block)).shuffle(arms)
        return arms

    def _version(self, arm: str) -> str:
        return next(version for version, name in self.trials.arms.items() if name == arm)

    def _order(self, state: CampaignState, station: FreeStation, block: int, arm: str) -> Order:
        plan = self.trials.plan
        index = block if plan.starts == "matched" else block * len(plan.arms) + plan.names.index(arm)
        return Order(
            order_id=mint(), campaign_id=state.campaign_id, station=station.name, task=plan.task,
            policy_id=self._version(arm), start=self.starts("holdout", index, "study"), purpose="gate", round=0,
            gate_id=state.campaign_id, pair=block, lease=station.lease,
        )  # fmt: skip
