"""Recompute every decision in the ledger from the records of orders and episodes alone.

A recomputed decision that differs from the recorded one means an error in the ledger, in the gate or in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from enpire.campaign.agent_events import (
    ExperimentCancelled,
    ExperimentChecked,
    ExperimentDecided,
    ExperimentSubmitted,
    ModelCalled,
    TokensSpent,
)
from enpire.campaign.branch_events import BranchDecision, BranchEvent, RoundsHandedOver
from enpire.campaign.branches import Branches
from enpire.campaign.command_events import CommandAccepted
from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.experiment_decisions import decided
from enpire.campaign.experiments import Proposals
from enpire.campaign.gate_events import (
    BaseMeasured,
    ConfirmationOpened,
    Confirmed,
    Deployed,
    GateDecided,
    GateEvent,
    GateOpened,
    GateSides,
    RolledBack,
)
from enpire.campaign.ledger import Ledger
from enpire.campaign.order_events import LateResults, OrdersEnded, OrdersIssued
from enpire.campaign.quarantine import Quarantine
from enpire.campaign.quarantine_events import QuarantineEvent
from enpire.campaign.session_events import CampaignStarted, LimitsChanged
from enpire.campaign.training_events import TrainingEvent
from enpire.codec import episode_of
from enpire.gate.gate import confirm, judge, unloadable
from enpire.gate.intervals import wilson
from enpire.gate.median import fast_enough, median_commands
from enpire.gate.regression import lost_success
from enpire.gate.rule import level, rule_version, stored_rule
from enpire.gate.trials import Reissues, Trial, pairs_in_order
from enpire.queries.decision_checks import Check, branch_check, compared, differs, hand_over_check, in_numbers
from enpire.queries.trial_records import ConfirmationTrials, GateTrials, correct, enrol, enter
from enpire.scheduling.load_backoff import TRIES
from enpire.types import HIDDEN, JUDGED, Episode, Order, OrderResult, Purpose, never_began, refused
from enpire.wording import at_most, median_text, within

KINDS = kinds_of(
    CampaignStarted, OrdersIssued, OrdersEnded, LateResults, GateEvent, CommandAccepted, ExperimentSubmitted,
    ExperimentChecked, ExperimentDecided, ExperimentCancelled, TrainingEvent, BranchEvent, QuarantineEvent,
    LimitsChanged, ModelCalled, TokensSpent,
)  # fmt: skip


def recompute(ledger: Ledger, progress: Callable[[int], None] = lambda seq: None) -> list[Check]:
    """Recompute all decisions of all campaigns, oldest first, and check the sum of each campaign's orders at the end.

    `progress` receives the number of every event that was read.
    """
    records: dict[str, _Records] = {}
    checks: list[Check] = []
    last = 0
    for entry in ledger.events(kinds=KINDS):
        last = entry.seq
        checks += records.setdefault(entry.campaign_id, _Records()).read(entry)
        progress(entry.seq)
    return checks + [one.sums(campaign_id, last) for campaign_id, one in records.items()]


@dataclass(slots=True)
class _Records:
    """The orders and results of one campaign, up to the event that is read."""

    open: dict[str, Order] = field(default_factory=dict[str, Order])
    issued: int = 0
    ended: int = 0
    doubled: int = 0
    unknown: dict[str, Order] = field(default_factory=dict[str, Order])
    late: int = 0
    """Late results of orders that had ended as unknown."""
    counted: int = 0
    """Of these, results of gate orders, which their gate had already counted as unknown."""
    reissues: Reissues = field(default_factory=Reissues)
    hidden: dict[str, list[bool]] = field(default_factory=dict[str, list[bool]])
    """Version -> successes of its trials on hidden starts that have a verdict."""
    base: list[bool] = field(default_factory=list[bool])
    gates: dict[str, GateTrials] = field(default_factory=dict[str, GateTrials])
    opened: int = 0
    promoted: int = 0
    confirmations: list[ConfirmationTrials] = field(default_factory=list[ConfirmationTrials])
    granted: str = ""
    """The candidate that the last decided gate promoted and that is not deployed yet."""
    champions: list[str] = field(default_factory=list[str])
    limit_ticks: int = 0
    """Time limit of the task; 0 if not recorded."""
    wanted: set[str] = field(default_factory=set[str])
    """Versions that an operator promoted by an accepted command."""
    proposals: Proposals = field(default_factory=Proposals)
    """Experiments of agents and the versions trained for them."""
    branches: Branches = field(default_factory=Branches)
    quarantine: Quarantine = field(default_factory=Quarantine)
    """Which versions no gate may take and nothing may promote, at the event that is read."""

    def read(self, entry: LedgerEntry) -> list[Check]:
        """Apply one event and return the checks of the decision that it records, if any."""
        event = entry.event
        checks: list[Check] = []
        if isinstance(event, BranchDecision):
            checks = [branch_check(entry.seq, event, self.branches)]
        elif isinstance(event, RoundsHandedOver):
            checks = [hand_over_check(entry.seq, event, self.branches)]
        self.proposals.apply(event)
        self.branches.apply(event)
        self.quarantine.apply(event, entry.seq)
        return [*checks, *self._read(entry)]

    def _read(self, entry: LedgerEntry) -> list[Check]:
        event = entry.event
        if isinstance(event, GateEvent):
            return self._decisions(entry.seq, event)
        match event:
            case CampaignStarted():
                self.reissues.rule_version = rule_version(event.campaign)
                self.limit_ticks = event.limit_ticks
            case OrdersIssued():
                self._issued(event.orders)
            case OrdersEnded():
                self._ended(event.results)
            case LateResults():
                self._ended_late(event.results)
            case CommandAccepted():
                if event.command == "promote":
                    self.wanted.add(event.target)
            case ExperimentDecided():
                return [self._experiment_decided(entry.seq, event)]
            case _:
                pass  # nothing is decided by the others; `proposals` knows what was submitted and trained
        return []

    def _decisions(self, seq: int, event: GateEvent) -> list[Check]:
        match event:
            case BaseMeasured():
                return [self._base_measured(seq, event)]
            case GateOpened():
                return [self._gate_opened(seq, event)]
            case GateDecided():
                return [self._gate_decided(seq, event)]
            case ConfirmationOpened():
                self.confirmations.append(ConfirmationTrials(opened=event))
                return []
            case Confirmed():
                return [self._confirmed(seq, event)]
            case Deployed():
                return [self._deployed(seq, event)]
            case RolledBack():
                return [self._rolled_back(seq, event)]
            case _:
                assert_never(event)

    def sums(self, campaign_id: str, seq: int) -> Check:
        """Check that issued = ended + open, and that no order ended twice."""
        sentence = f"{self.issued} orders issued = {self.ended} ended + {len(self.open)} open"
        if self.late:
            sentence += f"; {self.late} late results, {self.counted} of them stay as their gate counted"
        equal = self.issued == self.ended + len(self.open) and not self.doubled
        if not equal:
            sentence += f" does not hold; {self.doubled} ends belong to no open order"
        return Check(seq=seq, kind="sum of orders", subject=campaign_id, sentence=sentence, equal=equal)

    def _issued(self, orders: Sequence[Order]) -> None:
        for order in orders:
            self.issued += 1
            self.open[order.order_id] = order
            gate = self.gates.get(order.gate_id)
            if order.purpose == "gate" and gate is not None:
                enter(gate, order, orders)
            elif order.purpose == "confirm" and self.confirmations:
                enrol(self.confirmations[-1], order)
            if order.purpose in {"base", "confirm"}:
                self.reissues.reissued(order)

    def _ended(self, results: Sequence[OrderResult]) -> None:
        for result in results:
            order = self.open.pop(result.order_id, None)
            if order is None:
                self.doubled += 1
                continue
            self.ended += 1
            if result.outcome == "unknown":
                self.unknown[order.order_id] = order
            if order.purpose in HIDDEN:
                self._count(order, episode_of(result, order))

    def _ended_late(self, results: Sequence[OrderResult]) -> None:
        """Late results: the base measurement and a confirmation count them, a gate does not (docs/fleet.md)."""
        for result in results:
            order = self.unknown.pop(result.order_id, None)
            if order is None:
                self.doubled += 1
                continue
            self.late += 1
            self.counted += order.purpose == "gate"
            episode = episode_of(result, order)
            self._measure(order, episode)
            if order.purpose in {"base", "confirm"} and never_began(episode.outcome, episode.cause):
                self.reissues.put_back(order)
            if order.purpose == "base":
                self.base.remove(False)
                self.base += [] if never_began(episode.outcome, episode.cause) else [episode.outcome == "success"]
            elif order.purpose == "confirm" and self.confirmations:
                correct(self.confirmations[-1], episode)

    def _measure(self, order: Order, episode: Episode) -> None:
        if order.purpose in HIDDEN and episode.outcome in JUDGED:
            self.hidden.setdefault(order.policy_id, []).append(episode.outcome == "success")

    def _drop(self, version: int) -> float:
        """Success rate that the champion has lost against the best earlier champion, by this version of the rule."""
        current = self.champions[-1] if self.champions else ""
        counts = {policy_id: (sum(found), len(found)) for policy_id, found in self.hidden.items()}
        earlier = [counts[policy_id] for policy_id in {*self.champions} - {current} if policy_id in counts]
        return lost_success(counts.get(current, (0, 0)), earlier, version)

    def _count(self, order: Order, episode: Episode) -> None:
        self._measure(order, episode)
        success = episode.outcome == "success"
        other = episode.outcome in JUDGED and episode.ran_policy_id != order.policy_id
        strange = [f"order {order.order_id} ran another version than ordered"] if other else []
        gate = self.gates.get(order.gate_id)
        if order.purpose == "gate" and gate is not None:
            side = "champion" if order.side == "champion" else "candidate"
            gate.strange += strange
            trial = Trial(pair=order.pair, side=side, outcome=episode.outcome, ticks=episode.ticks, cause=episode.cause)
            gate.trials.append(trial)
            if trial.released:
                gate.released.add((trial.pair, side))
        elif self.reissues.returns(episode):
            if order.purpose == "confirm" and self.confirmations:
                self.confirmations[-1].starts.discard(order.start.index)
        elif order.purpose == "base":
            self.base.append(success)
        elif self.confirmations and order.policy_id == self.confirmations[-1].opened.policy_id:
            last = self.confirmations[-1]
            last.ended += 1
            last.ticks += [episode.ticks] if success else []
            last.strange += strange

    def _base_measured(self, seq: int, event: BaseMeasured) -> Check:
        interval = wilson(sum(self.base), len(self.base))
        again = replace(event, successes=interval.successes, n=interval.n, low=interval.low, high=interval.high)
        sentence = f"{interval.successes} of {interval.n} starts"
        return compared(seq, event, again, sentence, self._left_out("base", event.policy_id))

    def _left_out(self, purpose: Purpose, policy_id: str) -> list[str]:
        """What is wrong where a trial was reissued from another start than its own."""
        left = len(self.reissues.waiting.get((purpose, policy_id), ()))
        return [f"{left} starts of interrupted trials were not ordered again"] if left else []

    def _gate_opened(self, seq: int, event: GateOpened) -> Check:
        self.opened += 1
        self.gates[event.gate_id] = GateTrials(opened=event)
        rule = stored_rule(event.rule, f"The rule of event {seq}")
        again = replace(
            event, k=self.opened, promoted=self.promoted, level=level(rule.alpha, self.opened, self.promoted),
            drop=self._drop(rule.version),
        )  # fmt: skip
        return compared(
            seq, event, again, f"gate {self.opened} after {self.promoted} promotions", self._held(event.candidate)
        )

    def _gate_decided(self, seq: int, event: GateDecided) -> Check:
        gate = self.gates.get(event.gate_id)
        if gate is None:
            return differs(seq, event, "this gate was never opened")
        opened = gate.opened
        rule = stored_rule(opened.rule, f"The rule of the gate of event {seq}")
        decision = judge(pairs_in_order(gate.trials), rule, opened.level, opened.drop)
        if event.reason == "unloadable" and not decision.final:
            decision = unloadable(decision)
            if sum(trial.side == "candidate" and refused("aborted", trial.cause) for trial in gate.trials) < TRIES:
                gate.strange.append("no station refused the candidate")
        self.promoted += decision.kind == "promote"
        self.granted = opened.candidate if decision.kind == "promote" else ""
        gate.strange += self._held(opened.candidate)
        if self.champions and opened.champion != self.champions[-1]:
            gate.strange.append("its champion was replaced before, which ended the gate")
        if not decision.final:
            gate.strange.append(f"the records give no decision: {in_numbers(decision)}")
            return compared(seq, event, event, in_numbers(decision), gate.strange)
        sides = GateSides(gate_id=event.gate_id, champion=event.champion, candidate=event.candidate, round=event.round)
        gate.decided = GateDecided.of(sides, decision, event.why)
        return compared(seq, event, gate.decided, in_numbers(decision), gate.strange)

    def _experiment_decided(self, seq: int, event: ExperimentDecided) -> Check:
        experiment = self.proposals.experiments.get(event.experiment_id)
        gate = self.gates.get(event.gate_id)
        if experiment is None or gate is None or gate.decided is None:
            return differs(seq, event, "no submitted experiment went through this gate")
        again = decided(experiment, gate.decided)
        strange = list(gate.strange)
        if gate.opened.candidate != experiment.policy_id:
            strange.append("its gate tested another version than the one that was trained for it")
        if experiment.trained_hash != experiment.recipe_hash:
            strange.append("its candidate was trained with another recipe than the one that was submitted")
        return compared(seq, event, again, f"{again.decision}, as its gate decided", strange)

    def _confirmed(self, seq: int, event: Confirmed) -> Check:
        if not self.confirmations:
            return differs(seq, event, "this confirmation was never announced")
        last = self.confirmations[-1]
        n, goal, policy_id = last.opened.n, last.opened.goal, last.opened.policy_id
        commands, successes = last.opened.commands, len(last.ticks)
        result, speed = confirm(successes, last.ended, goal, last.opened.by), median_commands(last.ticks)
        again = Confirmed(
            policy_id=policy_id, successes=successes, n=n, passed=result.passed and fast_enough(speed.median, commands),
            low=result.interval.low, high=result.interval.high,
            reissued=None if event.reissued is None else self.reissues.trials[policy_id],
            limit_ticks=self.limit_ticks if event.limit_ticks and self.limit_ticks else event.limit_ticks,
        )  # fmt: skip
        if event.median is not None or commands:  # an older ENPIRE recorded no median
            again = replace(again, median=speed.median, median_low=speed.low, median_high=speed.high)
        strange = [*last.strange, *self._left_out("confirm", policy_id)]
        if last.ended != n or len(last.starts) != n:
            strange.append(f"{last.ended} trials on {len(last.starts)} starts where {n} were announced")
        limits = f"{within(self.limit_ticks)}{at_most(commands)}"
        sentence = f"{successes} of {last.ended}, goal {goal:.1%}{limits}, lower bound {result.bound:.4f}"
        if found := median_text(speed.median, speed.low, speed.high):
            sentence += f", {found}"
        return compared(seq, event, again, sentence, strange)

    def _deployed(self, seq: int, event: Deployed) -> Check:
        version = event.policy_id
        previous = self.champions[-1] if self.champions else ""
        if version == self.granted:
            why = "its gate promoted it"
        elif version in self.wanted:
            why = "an operator promoted it"
        else:
            why = "" if previous else "it is the base"
        self.champions.append(version)
        self.granted = ""
        if not why:
            return differs(seq, event, "no gate promoted this version and no operator promoted it")
        return compared(seq, event, replace(event, previous=previous), why, self._held(version))

    def _rolled_back(self, seq: int, event: RolledBack) -> Check:
        known = event.to in self.champions
        current = self.champions[-1] if self.champions else ""
        self.champions.append(event.to)
        if not known:
            return differs(seq, event, f"version {event.to[:12]} was never a champion")
        sentence = f"back to version {event.to[:12]}"
        return compared(seq, event, replace(event, policy_id=current), sentence, self._held(event.to))

    def _held(self, policy_id: str) -> list[str]:
        """That a version is in quarantine, as a sentence: it may enter no gate and be no champion."""
        return [why] if (why := self.quarantine.why(policy_id)) else []
