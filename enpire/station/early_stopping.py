"""Ends rollouts that the policy predicts to fail, where the order allows it, and keeps the viability to show it.

Only orders with `early_stop` are watched, and only policies that predict success (`enpire.interfaces.PredictsSuccess`).
In a supervised rollout of the first robot, the viability is read to show it to the operator.
A rollout of the control arm is flagged but runs to its end, so that the ledger shows the cost and gain of early stops.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from enpire.interfaces import PredictsSuccess
from enpire.policy_calls import PLUGIN_ERRORS, LoadedPolicy, rows_of
from enpire.types import EarlyStop, IntArray, Observation, Order

LOOK_TICKS, LOOKS = 4, 8
"""The viability is read every `LOOK_TICKS` commands; `LOOKS` low values in a row predict failure."""
SHOWN_LANE = 0
"""The robot that an operator can take over: its viability is read in supervised rollouts, to show it."""


class ViabilityMonitor:
    """The viability that the policies report for the rollouts of all lanes."""

    def __init__(self, lanes: int) -> None:
        self._policies: list[PredictsSuccess | None] = [None] * lanes
        self._rules: list[EarlyStop | None] = [None] * lanes
        self._looks = np.zeros(lanes, np.int64)
        self.predicted_failure_at: IntArray = np.full(lanes, -1, np.int64)
        """int64 (lanes,): tick at which failure was predicted; -1: never."""
        self.newest: float | None = None
        """Newest viability of the supervised rollout of `SHOWN_LANE`."""

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """A new episode in this lane."""
        shown = lane == SHOWN_LANE and order.supervised
        self.newest = None if lane == SHOWN_LANE else self.newest
        able = (order.early_stop is not None or shown) and isinstance(policy.policy, PredictsSuccess)
        self._policies[lane] = policy.policy if able and isinstance(policy.policy, PredictsSuccess) else None
        self._rules[lane], self._looks[lane], self.predicted_failure_at[lane] = order.early_stop, 0, -1

    def look(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> Mapping[int, str]:
        """Read the viability of the rollouts that are due; returns lane -> why it ends, for those that end.

        Args:
            observation: one row for every lane of the rig.
            lanes: int64 (n,), the lanes that roll out.
            ticks: int64 (n,), commands that each lane has sent.
        """
        due = lanes[(ticks % LOOK_TICKS == 0) & (self.predicted_failure_at[lanes] < 0)]
        groups: dict[int, list[int]] = {}
        for lane in map(int, due):
            policy = self._policies[lane]
            if policy is not None:
                groups.setdefault(id(policy), []).append(lane)
        ended: dict[int, str] = {}
        for group in groups.values():
            for lane, viability in zip(group, self._ask(observation, np.asarray(group, np.int64)), strict=True):
                self.newest = viability if lane == SHOWN_LANE and self._policies[lane] is not None else self.newest
                tick = int(ticks[lanes == lane][0])
                if why := self._weigh(lane, viability, tick):
                    ended[lane] = why
        return ended

    def _ask(self, observation: Observation, lanes: IntArray) -> list[float]:
        policy = self._policies[int(lanes[0])]
        try:
            values = policy.viability(rows_of(observation, lanes), lanes) if policy is not None else ()
            return [float(value) for value in values]
        except PLUGIN_ERRORS:
            # A critic that fails ends no rollout: these run to their own ends.
            for lane in lanes:
                self._policies[int(lane)] = None
            return [1.0] * len(lanes)

    def _weigh(self, lane: int, viability: float, tick: int) -> str:
        rule = self._rules[lane]
        if rule is None:
            return ""
        self._looks[lane] = self._looks[lane] + 1 if viability < rule.below else 0
        if self._looks[lane] < LOOKS:
            return ""
        self.predicted_failure_at[lane] = tick
        return f"predicted failure: its viability stayed under {rule.below:g}" if rule.armed else ""
