"""Every decision of the ledger once more, from the records of orders and episodes alone.

The ledger says what was decided; here the same arithmetic is done again on what the robots delivered. A decision that
comes out different means that the ledger, the gate or this file is wrong; each is worth a morning.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from enpire.campaign.experiments import Ideas, verdict
from enpire.campaign.load_backoff import TRIES
from enpire.files import parse
from enpire.gate.gate import (
    Decision,
    GateRule,
    Trial,
    confirm,
    given_again,
    judge,
    level,
    pairs_in_order,
    unloadable,
)
from enpire.gate.intervals import wilson
from enpire.interfaces import Ledger
from enpire.queries.models import weighed
from enpire.store.records import episode_from, order_from
from enpire.types import Episode, Event, Order, never_began, refused

KINDS = (
    "campaign started", "order issued", "orders ended", "orders found", "base measured", "gate opened", "gate decided",
    "confirm opened", "confirmed", "deployed", "rolled back", "command accepted", "experiment submitted",
    "experiment checked", "experiment decided", "learner started", "learner ended",
)  # fmt: skip
BEGAN = frozenset({"success", "failure", "unsafe"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One decision, as it was written and as it comes out again."""

    seq: int
    """The event that wrote it."""
    kind: str
    subject: str
    """Which gate, version or campaign."""
    sentence: str
    """The numbers: what came out again, and where the ledger differs."""
    equal: bool


def recompute(ledger: Ledger, say: Callable[[int], None] = lambda seq: None) -> list[Check]:
    """Replay all decisions of all campaigns, oldest first, and one sum for each campaign's orders at the end.

    `say` hears the number of every event that was read.
    """
    records: dict[str, _Records] = {}
    checks: list[Check] = []
    last = 0
    for event in ledger.events(kinds=KINDS):
        campaign_id = str(event.body.get("campaign_id", ""))
        last = event.seq
        checks += records.setdefault(campaign_id, _Records()).read(event)
        say(event.seq)
    return checks + [one.sums(campaign_id, last) for campaign_id, one in records.items()]


@dataclass(slots=True)
class _Gate:
    opened: Mapping[str, object]
    orders: dict[tuple[int, str], Order] = field(default_factory=dict[tuple[int, str], Order])
    again: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Sides of pairs that were taken back and not given again yet."""
    trials: list[Trial] = field(default_factory=list[Trial])
    decision: Decision | None = None
    strange: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Confirmation:
    opened: Mapping[str, object]
    starts: set[int] = field(default_factory=set[int])
    ended: int = 0
    successes: int = 0
    strange: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Records:
    """What one campaign's robots were ordered to do and did, up to the event that is read."""

    open: dict[str, Order] = field(default_factory=dict[str, Order])
    issued: int = 0
    ended: int = 0
    doubled: int = 0
    unknown: dict[str, Order] = field(default_factory=dict[str, Order])
    found: int = 0
    counted: int = 0
    """Found after a gate had counted them as unknown."""
    replaced: Counter[str] = field(default_factory=Counter[str])
    """Version -> interrupted trials that were given again."""
    base: list[bool] = field(default_factory=list[bool])
    gates: dict[str, _Gate] = field(default_factory=dict[str, _Gate])
    opened: int = 0
    promoted: int = 0
    confirmations: list[_Confirmation] = field(default_factory=list[_Confirmation])
    granted: str = ""
    """The candidate that the last decided gate promoted and that is not deployed yet."""
    champions: list[str] = field(default_factory=list[str])
    wished: set[str] = field(default_factory=set[str])
    """Versions that a person asked for by an accepted command."""
    ideas: Ideas = field(default_factory=Ideas)
    """What agents submitted and what was trained from it."""

    def read(self, event: Event) -> list[Check]:
        """Fold one event in; the checks that it calls for."""
        self.ideas.apply(event.kind, event.body)
        return self.READERS.get(event.kind, _Records._nothing)(self, event)

    def sums(self, campaign_id: str, seq: int) -> Check:
        """Started = ended + open, every order ended once at most."""
        sentence = f"{self.issued} orders issued = {self.ended} ended + {len(self.open)} open"
        if self.found:
            sentence += (
                f"; {self.found} were unknown and found later, {self.counted} of them stay as their gate counted"
            )
        equal = self.issued == self.ended + len(self.open) and not self.doubled
        if not equal:
            sentence += f" does not hold; {self.doubled} ends belong to no open order"
        return Check(seq=seq, kind="sum of orders", subject=campaign_id, sentence=sentence, equal=equal)

    def _nothing(self, event: Event) -> list[Check]:
        return []

    def _issued(self, event: Event) -> list[Check]:
        orders = [order_from(item) for item in _rows(event, "orders")]
        for order in orders:
            self.issued += 1
            self.open[order.order_id] = order
            gate = self.gates.get(order.gate_id)
            if order.purpose == "gate" and gate is not None:
                _enter(gate, order, orders)
            elif order.purpose == "confirm" and self.confirmations:
                _enrol(self.confirmations[-1], order)
        return []

    def _ended(self, event: Event) -> list[Check]:
        for item in _rows(event, "episodes"):
            order = self.open.pop(str(item.get("order_id")), None)
            if order is None:
                self.doubled += 1
                continue
            self.ended += 1
            if item.get("outcome") == "unknown":
                self.unknown[order.order_id] = order
            if order.purpose in {"gate", "base", "confirm"}:
                self._count(order, item)
        return []

    def _found(self, event: Event) -> list[Check]:
        """Orders that had ended as unknown: what is read once may still count them, a gate does not (docs/fleet.md)."""
        for item in _rows(event, "episodes"):
            order = self.unknown.pop(str(item.get("order_id")), None)
            if order is None:
                self.doubled += 1
                continue
            self.found += 1
            self.counted += order.purpose == "gate"
            episode = episode_from(item, order)
            if order.purpose == "base":
                self.base.remove(False)
                self.base += [] if never_began(episode.outcome, episode.cause) else [episode.outcome == "success"]
            elif order.purpose == "confirm" and self.confirmations:
                _correct(self.confirmations[-1], episode)
        return []

    def _count(self, order: Order, item: Mapping[str, object]) -> None:
        episode = episode_from(item, order)
        success = episode.outcome == "success"
        other = episode.outcome in BEGAN and episode.ran_policy_id != order.policy_id
        strange = [f"order {order.order_id} ran another version than ordered"] if other else []
        gate = self.gates.get(order.gate_id)
        if order.purpose == "gate" and gate is not None:
            side = "champion" if order.side == "champion" else "candidate"
            gate.strange += strange
            trial = Trial(pair=order.pair, side=side, outcome=episode.outcome, ticks=episode.ticks, cause=episode.cause)
            gate.trials.append(trial)
            if trial.released:
                gate.again.add((trial.pair, side))
        elif never_began(episode.outcome, episode.cause) or given_again(episode, self.replaced):
            if order.purpose == "confirm" and self.confirmations:
                self.confirmations[-1].starts.discard(order.start.index)
        elif order.purpose == "base":
            self.base.append(success)
        elif self.confirmations and order.policy_id == self.confirmations[-1].opened["policy_id"]:
            last = self.confirmations[-1]
            last.ended, last.successes = last.ended + 1, last.successes + success
            last.strange += strange

    def _base_measured(self, event: Event) -> list[Check]:
        interval = wilson(sum(self.base), len(self.base))
        again = {"successes": interval.successes, "n": interval.n, "low": interval.low, "high": interval.high}
        return [_check(event, "policy_id", again, f"{interval.successes} of {interval.n} starts")]

    def _gate_opened(self, event: Event) -> list[Check]:
        self.opened += 1
        self.gates[str(event.body["gate_id"])] = _Gate(opened=event.body)
        rule = parse(GateRule, event.body["rule"], f"The rule of event {event.seq}")
        again = {
            "k": self.opened, "promoted": self.promoted, "alpha": level(rule.alpha, self.opened, self.promoted),
        }  # fmt: skip
        return [_check(event, "gate_id", again, f"gate {self.opened} after {self.promoted} promotions")]

    def _gate_decided(self, event: Event) -> list[Check]:
        gate = self.gates.get(str(event.body["gate_id"]))
        if gate is None:
            return [_differs(event, "gate_id", "this gate was never opened")]
        rule = parse(GateRule, gate.opened["rule"], f"The rule of the gate of event {event.seq}")
        decision = judge(pairs_in_order(gate.trials), rule, cast("float", gate.opened["alpha"]))
        if event.body["reason"] == "unloadable" and not decision.final:
            decision = unloadable(decision)
            if sum(trial.side == "candidate" and refused("aborted", trial.cause) for trial in gate.trials) < TRIES:
                gate.strange.append("no station refused the candidate")
        gate.decision = decision
        self.promoted += decision.kind == "promote"
        self.granted = str(gate.opened["candidate"]) if decision.kind == "promote" else ""
        return [_check(event, "gate_id", decision.body(), _told(decision), gate.strange)]

    def _experiment_decided(self, event: Event) -> list[Check]:
        experiment = self.ideas.experiments.get(str(event.body["experiment_id"]))
        gate = self.gates.get(str(event.body["gate_id"]))
        if experiment is None or gate is None or gate.decision is None:
            return [_differs(event, "experiment_id", "no submitted experiment went through this gate")]
        again = verdict(experiment, gate.decision.body())
        strange = list(gate.strange)
        if gate.opened["candidate"] != experiment.policy_id:
            strange.append("its gate judged another version than the one that was trained for it")
        if experiment.trained_hash != experiment.recipe_hash:
            strange.append("its candidate was trained with another recipe than the one that was submitted")
        return [_check(event, "experiment_id", again, f"{again['decision']}, as its gate decided", strange)]

    def _confirm_opened(self, event: Event) -> list[Check]:
        self.confirmations.append(_Confirmation(opened=event.body))
        return []

    def _confirmed(self, event: Event) -> list[Check]:
        if not self.confirmations:
            return [_differs(event, "policy_id", "this confirmation was never announced")]
        last = self.confirmations[-1]
        n, goal = cast("int", last.opened["n"]), cast("float", last.opened["goal"])
        result = confirm(last.successes, last.ended, goal)
        again = {
            "policy_id": last.opened["policy_id"], "successes": last.successes, "n": n, "passed": result.passed,
            "low": result.interval.low, "high": result.interval.high,
        }  # fmt: skip
        if "given_again" in event.body:  # an older version did not say it
            again["given_again"] = self.replaced[str(last.opened["policy_id"])]
        strange = list(last.strange)
        if last.ended != n or len(last.starts) != n:
            strange.append(f"{last.ended} trials on {len(last.starts)} starts where {n} were announced")
        sentence = f"{last.successes} of {last.ended}, goal {goal:.1%}, lower bound {result.bound:.4f}"
        return [_check(event, "policy_id", again, sentence, strange)]

    def _deployed(self, event: Event) -> list[Check]:
        version = str(event.body["policy_id"])
        previous = self.champions[-1] if self.champions else ""
        if version == self.granted:
            why = "its gate promoted it"
        elif version in self.wished:
            why = "a person asked for it"
        else:
            why = "" if previous else "it is the base"
        self.champions.append(version)
        self.granted = ""
        if not why:
            return [_differs(event, "policy_id", "no gate promoted this version and nobody asked for it")]
        return [_check(event, "policy_id", {"previous": previous}, why)]

    def _rolled_back(self, event: Event) -> list[Check]:
        to = str(event.body["to"])
        known = to in self.champions
        current = self.champions[-1] if self.champions else ""
        self.champions.append(to)
        if not known:
            return [_differs(event, "policy_id", f"version {to[:12]} was never a champion")]
        return [_check(event, "policy_id", {"policy_id": current}, f"back to version {to[:12]}")]

    def _wished(self, event: Event) -> list[Check]:
        if event.body.get("verb") == "promote":
            self.wished.add(str(event.body.get("station", "")))
        return []

    READERS: ClassVar[Mapping[str, Callable[..., list[Check]]]] = {
        "campaign started": _nothing,
        "order issued": _issued,
        "orders ended": _ended,
        "orders found": _found,
        "base measured": _base_measured,
        "gate opened": _gate_opened,
        "gate decided": _gate_decided,
        "confirm opened": _confirm_opened,
        "confirmed": _confirmed,
        "deployed": _deployed,
        "rolled back": _rolled_back,
        "command accepted": _wished,
        "experiment decided": _experiment_decided,
    }
    """Kind of event -> how it is read; the others are only folded into `ideas`."""


def _told(decision: Decision) -> str:
    """A decision in numbers, with the evidence that its reason rests on."""
    tally = decision.tally
    evidence: float = getattr(decision, weighed(decision.reason))
    return (
        f"{decision.kind} ({decision.reason}) after {tally.pairs} pairs: {tally.wins} won, {tally.losses} lost, "
        f"{tally.faster} faster, {tally.slower} slower, log E {evidence:.2f}, promoted from {decision.log_need:.2f}"
    )


def _enter(gate: _Gate, order: Order, together: Sequence[Order]) -> None:
    """An order of a gate: the right version, on a hidden start, the same as its other side, on the same station.

    What was taken back before it began may be given again elsewhere; if both sides were, they go there together.
    """
    if order.policy_id != gate.opened.get(order.side):
        gate.strange.append(f"order {order.order_id} does not name the gate's {order.side or 'side'}")
    if order.start.split != "holdout":
        gate.strange.append(f"pair {order.pair} starts from the {order.start.split} split")
    mine, others = (order.pair, order.side), (order.pair, "candidate" if order.side == "champion" else "champion")
    other, moved = gate.orders.get(others), mine in gate.orders
    if other is not None and (other.start != order.start or (other.station != order.station and not moved)):
        gate.strange.append(f"pair {order.pair} does not start alike")
    if moved and mine not in gate.again:
        gate.strange.append(f"the {order.side} of pair {order.pair} is given again without having been taken back")
    here = {(one.pair, one.side) for one in together if (one.gate_id, one.station) == (order.gate_id, order.station)}
    if others in gate.again and others not in here:
        gate.strange.append(f"the {order.side} of pair {order.pair} is given again alone; both were taken back")
    gate.again.discard(mine)
    gate.orders[mine] = order


def _enrol(confirmation: _Confirmation, order: Order) -> None:
    """An order of a confirmation: the frozen version, on a start of its own."""
    confirmation.starts.add(order.start.index)
    if order.policy_id != confirmation.opened["policy_id"] or order.start.split != "confirm":
        confirmation.strange.append(f"order {order.order_id} is of another version or split")


def _correct(confirmation: _Confirmation, found: Episode) -> None:
    """An order of a confirmation is known after all; one of an earlier confirmation changes nothing."""
    order = found.order
    if order.policy_id != confirmation.opened["policy_id"]:
        return
    confirmation.successes += found.outcome == "success"
    if never_began(found.outcome, found.cause):
        confirmation.ended -= 1
        confirmation.starts.discard(order.start.index)


def _check(
    event: Event, subject: str, again: Mapping[str, object], sentence: str, strange: Sequence[str] = ()
) -> Check:
    """Compare what the event says with what came out again; figures may differ in their last bits (1e-9)."""
    wrong = [
        f"the ledger says {name} = {event.body.get(name)!r}, the records {value!r}"
        for name, value in again.items()
        if not _same(event.body.get(name), value)
    ]
    sentence = "; ".join([sentence, *wrong, *strange])
    equal = not wrong and not strange
    return Check(seq=event.seq, kind=event.kind, subject=str(event.body.get(subject)), sentence=sentence, equal=equal)


def _differs(event: Event, subject: str, why: str) -> Check:
    return Check(seq=event.seq, kind=event.kind, subject=str(event.body.get(subject)), sentence=why, equal=False)


def _same(written: object, again: object) -> bool:
    if isinstance(again, float) and isinstance(written, (int, float)) and not isinstance(written, bool):
        return math.isclose(written, again, rel_tol=1e-9, abs_tol=1e-9)
    return written == again and isinstance(written, bool) == isinstance(again, bool)


def _rows(event: Event, name: str) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", event.body[name])
