"""What hangs on one episode's verdict: which decision counted it, and what that would be if a person is right.

A label never changes a verdict or a decision (gate/verifier_audit.py); this says beforehand how much is at stake.
"""

from __future__ import annotations

from dataclasses import dataclass

from enpire.campaign.gate_events import BaseMeasured, Confirmed
from enpire.errors import UsageError
from enpire.files import parse
from enpire.gate.gate import GateRule, Trial, confirm, judge, pairs_in_order
from enpire.gate.intervals import wilson
from enpire.queries.campaign_history import History
from enpire.store.reading import Reading
from enpire.store.rows import OrderRow
from enpire.types import Interval, OutcomeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Stake:
    """What one verdict carries."""

    decision: str
    """Which decision counted the episode, and how it came out; empty when none did."""
    would: str
    """What it would be with the other verdict, in one sentence."""
    changes: bool
    """Whether the decision would come out different."""


def stake(reading: Reading, past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    """What would become of the decision that counted an episode if its verdict were `outcome`.

    Raises:
        UsageError: the episode has no verdict, or a person cannot say that.
    """
    if outcome not in ("success", "failure", "unsafe"):
        raise UsageError(f"An episode cannot be judged as {outcome!r}; say success, failure or unsafe.")
    if row.episode is None or row.episode.outcome not in ("success", "failure", "unsafe"):
        raise UsageError(f"Episode {row.order.order_id} ended without a verdict, so there is nothing to judge.")
    if row.order.purpose == "gate":
        return _gate(reading, past, row, outcome)
    if row.order.purpose == "confirm":
        return _confirmation(past, row, outcome)
    if row.order.purpose == "base" and past.base is not None:
        return _base(past, row, outcome)
    return Stake(decision="", would="No decision counted it; a learner may have been taught with it.", changes=False)


def _gate(reading: Reading, past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    record = past.gates.get(row.order.gate_id)
    if record is None or record.decided is None:
        return Stake(decision="", would="Its gate has not decided yet.", changes=False)
    rule = parse(GateRule, record.opened.rule, f"The rule of the gate {row.order.gate_id}")
    trials = [
        Trial(
            pair=trial.pair, side="champion" if trial.side == "champion" else "candidate", ticks=trial.ticks,
            outcome=outcome if trial.order_id == row.order.order_id else trial.outcome, cause=trial.cause,
        )
        for trial in reading.gate_trials(row.order.gate_id)
    ]  # fmt: skip
    again = judge(pairs_in_order(trials), rule, record.opened.level)
    was = record.decided.decision
    told = f"Gate of round {record.opened.round}: {was} ({record.decided.reason})"
    would = f"It would be {again.kind} ({again.reason}) after {again.tally.pairs} pairs."
    if again.kind == "continue":
        would = f"It would be undecided after the {again.tally.pairs} pairs that were run."
    return Stake(decision=told, would=would, changes=again.kind != was)


def _confirmation(past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    ended = past.confirms[-1].ended if past.confirms else None
    if ended is None or ended.policy_id != row.order.policy_id:
        return Stake(decision="", would="Its confirmation has not ended.", changes=False)
    successes, n = _shifted(ended, row, outcome)
    goal = past.goal
    again, was = confirm(successes, n, goal).passed, ended.passed
    told = f"Confirmation: {'passed' if was else 'not passed'} with {ended.successes} of {n}"
    would = f"It would be {'passed' if again else 'not passed'} with {successes} of {n}, goal {goal:.1%}."
    return Stake(decision=told, would=would, changes=again != was)


def _base(past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    assert past.base is not None  # asked before
    successes, n = _shifted(past.base, row, outcome)
    told = f"Measurement of the base: {_rate(wilson(past.base.successes, n))}"
    return Stake(decision=told, would=f"It would be {_rate(wilson(successes, n))}.", changes=False)


def _shifted(measured: BaseMeasured | Confirmed, row: OrderRow, outcome: OutcomeKind) -> tuple[int, int]:
    """(successes, n) with this episode's verdict replaced."""
    assert row.episode is not None  # asked before
    moved = (outcome == "success") - (row.episode.outcome == "success")
    return measured.successes + moved, measured.n


def _rate(interval: Interval) -> str:
    return f"{interval.rate:.1%} [{interval.low:.1%}, {interval.high:.1%}]"
