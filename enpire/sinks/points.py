"""What a tracker shows of a campaign: named numbers and spans, computed from the ledger's events alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from enpire.campaign.agent_events import ExperimentDecided, ModelCalled
from enpire.campaign.command_events import CommandAccepted
from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.gate_events import BaseMeasured, Confirmed, Deployed, GateDecided, RolledBack
from enpire.campaign.order_events import EpisodeLabelled, OrdersEnded, OrdersIssued
from enpire.campaign.quarantine_events import ExperimentQuarantined
from enpire.campaign.session_events import CampaignEnded, CampaignStarted
from enpire.campaign.station_events import OperatorNeeded, RobotTime, StationJoined
from enpire.campaign.training_events import LearnerEnded, LearnerFailed
from enpire.gate.intervals import lower_bound
from enpire.queries.models import weighed
from enpire.sinks import spans
from enpire.types import COLLECTION, JUDGED, WORKING, Order, OrderResult, never_began

NUMBER_KINDS = kinds_of(
    CampaignStarted, CampaignEnded, OrdersIssued, OrdersEnded, EpisodeLabelled, LearnerEnded, LearnerFailed,
    BaseMeasured, GateDecided, Confirmed, Deployed, RolledBack, RobotTime, StationJoined, OperatorNeeded,
    CommandAccepted, ModelCalled, ExperimentDecided, ExperimentQuarantined,
)  # fmt: skip
KINDS = (*NUMBER_KINDS, *(kind for kind in spans.KINDS if kind not in NUMBER_KINDS))
"""The events from which points are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The numbers that one event of the ledger changed, and the spans that ended with it."""

    seq: int
    """Number of the event; trackers have it as the step."""
    stamp_ns: int
    """Wall clock of the event."""
    values: Mapping[str, float]
    """Name such as `gate/log_evidence` -> value, finite."""
    spans: tuple[spans.Span, ...] = ()


class PointReader:
    """Computes points from the events of one campaign. It must read all of them, from the first, in order."""

    def __init__(self) -> None:
        self._open: dict[str, Order] = {}
        self._totals: Counter[str] = Counter()
        self._round = -1
        self._collected = self._succeeded = 0
        self._money = 0.0
        self._spans = spans.SpanReader()

    def read(self, entry: LedgerEntry) -> Point | None:
        """The point of an event; None where it changes no number. An event that ends a span changes a number, too."""
        values, ended = self._values(entry), self._spans.read(entry)
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        return Point(seq=entry.seq, stamp_ns=entry.stamp_ns, values=finite, spans=ended) if finite else None

    def _values(self, entry: LedgerEntry) -> Mapping[str, float]:
        match entry.event:
            case OrdersIssued() as event:
                self._open |= {order.order_id: order for order in event.orders}
                return {}
            case OrdersEnded() as event:
                names = [name for result in event.results for name in self._end(result)]
                return {name: self._number(name) for name in names}
            case RobotTime() as event:
                return _robot_values(event)
            case LearnerEnded() as event:
                metrics = {f"learner/{name}": value for name, value in event.metrics.items()}
                return metrics | {"learner/seconds": event.seconds, "round": event.round}
            case ModelCalled() as event:
                self._money += event.money or 0.0
                self._totals["agents/tokens"] += event.fresh + event.cache_read + event.cache_write + event.output
                return {"agents/tokens": self._totals["agents/tokens"], "agents/money": self._money}
            case BaseMeasured() | GateDecided() | Confirmed() | Deployed() | RolledBack() as event:
                return self._decision_values(event)
            case _:
                return self._counted(entry)

    def _end(self, result: OrderResult) -> tuple[str, ...]:
        """Count one ended order; the names of the numbers that it changed."""
        order = self._open.pop(result.order_id, None)
        if order is None or never_began(result.outcome, result.cause):
            return ()
        names = ("episodes/ended", f"episodes/{result.outcome}")
        self._totals.update([*names, f"episodes/to_{order.purpose}"])
        self._totals["episodes/commands_limited"] += result.clipped
        changed = (*names, f"episodes/to_{order.purpose}", "episodes/commands_limited")
        if order.purpose not in COLLECTION or result.outcome not in JUDGED:
            return changed
        if order.round != self._round:
            self._round, self._collected, self._succeeded = order.round, 0, 0
        self._collected, self._succeeded = self._collected + 1, self._succeeded + (result.outcome == "success")
        return (*changed, "collection/success_rate", "collection/rollouts", "round")

    def _number(self, name: str) -> float:
        match name:
            case "collection/success_rate":
                return self._succeeded / self._collected
            case "collection/rollouts":
                return self._collected
            case "round":
                return self._round
            case _:
                return self._totals[name]

    def _decision_values(
        self, event: BaseMeasured | GateDecided | Confirmed | Deployed | RolledBack
    ) -> Mapping[str, float]:
        match event:
            case BaseMeasured():
                return {"base/success_rate": event.successes / event.n, "base/low": event.low, "base/high": event.high}
            case GateDecided():
                evidence = {"log_e_faster": event.log_e_faster, "log_e_worse": event.log_e_worse}
                return {
                    "gate/promoted": event.decision == "promote", "gate/pairs": event.pairs, "gate/wins": event.wins,
                    "gate/losses": event.losses, "gate/difference_low": event.low, "gate/difference_high": event.high,
                    "gate/log_evidence": evidence.get(weighed(event.reason), event.log_e),
                    "gate/threshold": event.log_need, "round": event.round,
                }  # fmt: skip
            case Confirmed():
                rate = {"confirmation/success_rate": event.successes / event.n, "confirmation/passed": event.passed}
                median = {} if event.median is None else {"confirmation/median_commands": event.median}
                interval = {"confirmation/low": event.low, "confirmation/high": event.high}
                return rate | interval | {"confirmation/bound": lower_bound(event.successes, event.n)} | median
            case Deployed():
                self._totals["champion/promotions"] += bool(event.previous)
                return {"champion/promotions": self._totals["champion/promotions"], "round": event.round}
            case RolledBack():
                self._totals["champion/rollbacks"] += 1
                return {"champion/rollbacks": self._totals["champion/rollbacks"]}

    def _counted(self, entry: LedgerEntry) -> Mapping[str, float]:
        """Numbers that only count events."""
        match entry.event:
            case EpisodeLabelled():
                name = "operators/labels"
            case OperatorNeeded():
                name = "operators/alarms"
            case CommandAccepted():
                name = "operators/commands"
            case LearnerFailed(branch_over=False, over_budget=False):
                name = "learner/failed"
            case ExperimentDecided():
                name = "experiments/decided"
            case ExperimentQuarantined():
                name = "experiments/quarantined"
            case CampaignEnded() as event:
                return {"campaign/reached": event.reached}
            case _:
                return {}
        self._totals[name] += 1
        return {name: self._totals[name]}


def _robot_values(event: RobotTime) -> Mapping[str, float]:
    """Robot utilisation since the campaign began or was resumed."""
    working_s = sum(value for one in event.stations.values() for phase, value in one.items() if phase in WORKING)
    possible_s = event.wall_s * len(event.stations)
    return {"robots/utilisation": min(1.0, working_s / possible_s)} if possible_s > 0 else {}
