"""What a tracer shows of a campaign: one tree of spans for each episode, training run, gate and confirmation.

Computed from the ledger's events alone; the times are the wall clock of the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.gate_events import ConfirmationOpened, Confirmed, GateDecided, GateOpened
from enpire.campaign.order_events import OrdersEnded, OrdersIssued
from enpire.campaign.training_events import LearnerEnded, LearnerFailed, LearnerKilled, LearnerStarted
from enpire.types import COLLECTION, Order, OrderResult, never_began

KINDS = kinds_of(
    OrdersIssued, OrdersEnded, LearnerStarted, LearnerEnded, LearnerFailed, LearnerKilled, GateOpened, GateDecided,
    ConfirmationOpened, Confirmed,
)  # fmt: skip
"""The events from which spans are computed. Every event that ends a span also changes numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One piece of work with its begin and end."""

    name: str
    trace: str
    """What the tree is about, such as `gate ID`: equal texts are one tree."""
    part: str = ""
    """Name within the tree; empty for its root, which is the parent of all others."""
    began_ns: int
    """Wall clock, like `ended_ns`."""
    ended_ns: int
    failed: str = ""
    """Why the work failed; empty where it did not. A rollout without success has not failed."""
    attributes: Mapping[str, str | int | float] = field(default_factory=dict[str, str | int | float])
    belongs_to: str = ""
    """The tree that this one is a part of, such as the gate of an episode."""
    marks: tuple[int, ...] = ()
    """Wall clock of each restart."""


@dataclass(slots=True, kw_only=True)
class _Pair:
    began_ns: int
    ended_ns: int
    outcomes: dict[str, str]


class SpanReader:
    """Computes spans from the events of one campaign. It must read all of them, from the first, in order."""

    def __init__(self) -> None:
        self._orders: dict[str, tuple[Order, int]] = {}
        self._jobs: dict[str, tuple[LearnerStarted, int, int]] = {}
        """Job -> (event, its time, time of the first order to collect for it or 0)."""
        self._killed: dict[str, list[int]] = {}
        self._collecting_ns = 0
        """When the first order to collect for the next round was issued; 0: not yet."""
        self._gates: dict[str, tuple[GateOpened, int]] = {}
        self._pairs: dict[str, dict[int, _Pair]] = {}
        self._confirming_ns: dict[str, int] = {}

    def read(self, entry: LedgerEntry) -> tuple[Span, ...]:
        """The spans that end with an event."""
        now = entry.stamp_ns
        match entry.event:
            case OrdersEnded() as event:
                return tuple(span for result in event.results for span in self._episode(result, now))
            case LearnerEnded() as event:
                made = {"enpire.version": event.policy_id, "enpire.training_s": event.seconds}
                return self._training(event.job, now, "", made)
            case LearnerFailed() as event:
                return self._training(event.job, now, event.why, {})
            case GateDecided() as event:
                return self._gate(event, now)
            case Confirmed() as event:
                return self._confirmation(event, now)
            case _:
                self._begin(entry)
                return ()

    def _begin(self, entry: LedgerEntry) -> None:
        """Remember when work began."""
        now = entry.stamp_ns
        match entry.event:
            case OrdersIssued() as event:
                self._orders |= {order.order_id: (order, now) for order in event.orders}
                if any(order.purpose in (*COLLECTION, "demonstrate") for order in event.orders):
                    self._collecting_ns = self._collecting_ns or now
            case LearnerStarted() as event:
                own = not event.experiment_id
                self._jobs[event.job] = event, now, self._collecting_ns if own else 0
                self._collecting_ns = 0 if own else self._collecting_ns
            case LearnerKilled() as event:
                self._killed.setdefault(event.job, []).append(now)
            case GateOpened() as event:
                self._gates[event.gate_id] = event, now
            case ConfirmationOpened() as event:
                self._confirming_ns[event.policy_id] = now
            case _:
                pass

    def _episode(self, result: OrderResult, now: int) -> tuple[Span, ...]:
        """An order, and in it the time at the station."""
        order, issued_ns = self._orders.pop(result.order_id, (None, 0))
        if order is None or never_began(result.outcome, result.cause):
            return ()
        if order.purpose == "gate":
            pairs = self._pairs.setdefault(order.gate_id, {})
            pair = pairs.setdefault(order.pair, _Pair(began_ns=issued_ns, ended_ns=now, outcomes={}))
            pair.began_ns, pair.ended_ns = min(pair.began_ns, issued_ns), now
            pair.outcomes[order.side] = result.outcome
        trace = f"episode {result.order_id}"
        failed = result.cause or result.outcome
        root = Span(
            name=f"episode: {order.purpose}", trace=trace, began_ns=issued_ns, ended_ns=now,
            failed=failed if result.outcome in ("aborted", "invalid", "unknown", "unsafe") else "",
            belongs_to=f"gate {order.gate_id}" if order.purpose == "gate" else "",
            attributes={
                "enpire.order": result.order_id, "enpire.station": order.station, "enpire.purpose": order.purpose,
                "enpire.round": order.round, "enpire.version": result.ran_policy_id or order.policy_id,
                "enpire.outcome": result.outcome, "enpire.commands": result.ticks,
                "enpire.commands_limited": result.clipped, "enpire.confidence": result.confidence,
            },
        )  # fmt: skip
        robot_ns = round(max(0.0, result.ended_s - result.began_s) * 1e9)
        at_station = Span(
            name="at the station", trace=trace, part="station", began_ns=max(issued_ns, now - robot_ns), ended_ns=now,
            attributes={"enpire.reset_attempts": result.reset_attempts, "enpire.robot_s": robot_ns * 1e-9},
        )  # fmt: skip
        return root, at_station

    def _training(self, job: str, now: int, failed: str, made: Mapping[str, str | int | float]) -> tuple[Span, ...]:
        """A round: its collection and its training. A training run of an experiment has no collection."""
        event, began_ns, collecting_ns = self._jobs.pop(job, (None, 0, 0))
        if event is None:
            return ()
        trace = f"training {job}"
        name = f"training of experiment {event.experiment_id}" if event.experiment_id else f"round {event.round}"
        about = {
            "enpire.job": job, "enpire.round": event.round, "enpire.learner": event.learner,
            "enpire.parent": event.parent, "enpire.episodes": len(event.episodes),
        }  # fmt: skip
        root = Span(
            name=name, trace=trace, began_ns=collecting_ns or began_ns, ended_ns=now, failed=failed,
            attributes={**about, **made},
        )  # fmt: skip
        train = Span(
            name=f"train {event.learner}", trace=trace, part="train", began_ns=began_ns, ended_ns=now, failed=failed,
            marks=tuple(self._killed.pop(job, ())),
        )  # fmt: skip
        if not collecting_ns:
            return root, train
        return root, Span(name="collect", trace=trace, part="collect", began_ns=collecting_ns, ended_ns=began_ns), train

    def _gate(self, event: GateDecided, now: int) -> tuple[Span, ...]:
        """A gate and its complete pairs."""
        opened, began_ns = self._gates.pop(event.gate_id, (None, now))
        trace, pairs = f"gate {event.gate_id}", self._pairs.pop(event.gate_id, {})
        root = Span(
            name=f"gate {opened.k}" if opened else "gate", trace=trace, began_ns=began_ns, ended_ns=now,
            attributes={
                "enpire.gate": event.gate_id, "enpire.champion": event.champion, "enpire.candidate": event.candidate,
                "enpire.round": event.round, "enpire.decision": event.decision, "enpire.reason": event.reason,
                "enpire.pairs": event.pairs, "enpire.log_evidence": event.log_e, "enpire.threshold": event.log_need,
            },
        )  # fmt: skip
        parts = (
            Span(
                name=f"pair {number}", trace=trace, part=f"pair {number}", began_ns=pair.began_ns,
                ended_ns=pair.ended_ns,
                attributes={f"enpire.{side}": outcome for side, outcome in pair.outcomes.items()},
            )
            for number, pair in sorted(pairs.items())
            if len(pair.outcomes) == 2
        )  # fmt: skip
        return root, *parts

    def _confirmation(self, event: Confirmed, now: int) -> tuple[Span, ...]:
        began_ns = self._confirming_ns.pop(event.policy_id, now)
        about = {
            "enpire.version": event.policy_id, "enpire.successes": event.successes, "enpire.trials": event.n,
            "enpire.passed": int(event.passed),
        }  # fmt: skip
        trace = f"confirmation {event.policy_id} {began_ns}"
        return (Span(name="confirmation", trace=trace, began_ns=began_ns, ended_ns=now, attributes=about),)
