"""Rollouts that look hopeless: the policy is asked now and then, and an order may say that such a rollout ends.

Only orders with `early_stop` are watched, and only policies that predict success (`enpire.interfaces.PredictsSuccess`).
An order of the control arm is flagged and runs on, so that the ledger shows what the early stops cost and save.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from enpire.interfaces import PredictsSuccess
from enpire.policy_calls import LoadedPolicy, rows_of
from enpire.station.chunks import PLUGIN_ERRORS
from enpire.types import EarlyStop, IntArray, Observation, Order

LOOK_TICKS, LOOKS = 4, 8
"""A rollout is looked at every so many commands; so many hopeless looks in a row are enough."""


class ViabilityMonitor:
    """What the policies of all lanes said about their rollouts."""

    def __init__(self, lanes: int) -> None:
        self._policies: list[PredictsSuccess | None] = [None] * lanes
        self._rules: list[EarlyStop | None] = [None] * lanes
        self._looks = np.zeros(lanes, np.int64)
        self.hopeless_at: IntArray = np.full(lanes, -1, np.int64)
        """(lanes,): tick at which the rollout was called hopeless; -1: never."""

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """A new episode in this lane."""
        able = order.early_stop is not None and isinstance(policy.policy, PredictsSuccess)
        self._policies[lane] = policy.policy if able and isinstance(policy.policy, PredictsSuccess) else None
        self._rules[lane], self._looks[lane], self.hopeless_at[lane] = order.early_stop, 0, -1

    def look(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> Mapping[int, str]:
        """Ask about the rollouts that are due; lane -> why it ends, for those that may.

        Args:
            observation: one row for every lane of the rig.
            lanes: (n,), those that roll out.
            ticks: (n,), commands that each has sent.
        """
        due = lanes[(ticks % LOOK_TICKS == 0) & (self.hopeless_at[lanes] < 0)]
        groups: dict[int, list[int]] = {}
        for lane in map(int, due):
            policy = self._policies[lane]
            if policy is not None:
                groups.setdefault(id(policy), []).append(lane)
        ended: dict[int, str] = {}
        for group in groups.values():
            for lane, viability in zip(group, self._ask(observation, np.asarray(group, np.int64)), strict=True):
                tick = int(ticks[lanes == lane][0])
                if why := self._weigh(lane, viability, tick):
                    ended[lane] = why
        return ended

    def _ask(self, observation: Observation, lanes: IntArray) -> list[float]:
        policy = self._policies[int(lanes[0])]
        try:
            said = policy.viability(rows_of(observation, lanes), lanes) if policy is not None else ()
            return [float(value) for value in said]
        except PLUGIN_ERRORS:
            # A critic that fails stops nobody: the rollouts go on to their own ends.
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
        self.hopeless_at[lane] = tick
        return f"hopeless: its viability stayed under {rule.below:g}" if rule.armed else ""
