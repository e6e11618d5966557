"""Impact of a label: the decision that counted an episode, and the same decision with the label as the verdict.

A label never changes a verdict or a decision (gate/verifier_audit.py). The operator sees the impact before labelling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from enpire.campaign.gate_events import BaseMeasured, Confirmed
from enpire.errors import UsageError
from enpire.gate.gate import confirm, judge
from enpire.gate.intervals import wilson
from enpire.gate.median import fast_enough, median_commands
from enpire.gate.rule import stored_rule
from enpire.gate.trials import Trial, pairs_in_order
from enpire.queries.campaign_history import History
from enpire.store.reading import Reading
from enpire.store.rows import OrderRow
from enpire.types import JUDGED, Interval, OutcomeKind
from enpire.wording import at_most, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Stake:
    """The decision that counted one episode, with its verdict and with the label."""

    decision: str
    """The decision that counted the episode, with its result; empty if no decision counted it."""
    would: str
    """The decision with the label as the verdict, in one sentence."""
    changes: bool
    """Whether the two decisions differ."""


def stake(reading: Reading, past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    """The decision that counted an episode, and the same decision with `outcome` as the verdict.

    Raises:
        UsageError: the episode has no verdict, or `outcome` is none.
    """
    if outcome not in JUDGED:
        raise UsageError(f"An episode cannot be labelled {outcome!r}; the labels are success, failure and unsafe.")
    if row.episode is None or row.episode.outcome not in JUDGED:
        raise UsageError(f"Episode {row.order.order_id} ended without a verdict; label an episode that has one.")
    if row.order.purpose == "gate":
        return _gate(reading, past, row, outcome)
    if row.order.purpose == "confirm":
        return _confirmation(reading, past, row, outcome)
    if row.order.purpose == "base" and past.base is not None:
        return _base(past, row, outcome)
    if row.order.purpose == "measure":
        return Stake(decision="", would="It only helped to choose when a confirmation begins.", changes=False)
    return Stake(decision="", would="No decision counted it; a learner may have trained on it.", changes=False)


def _gate(reading: Reading, past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    record = past.gates.get(row.order.gate_id)
    if record is None or record.decided is None:
        return Stake(decision="", would="Its gate has not decided yet.", changes=False)
    rule = stored_rule(record.opened.rule, f"The rule of the gate {row.order.gate_id}")
    trials = [
        Trial(
            pair=trial.pair, side="champion" if trial.side == "champion" else "candidate", ticks=trial.ticks,
            outcome=outcome if trial.order_id == row.order.order_id else trial.outcome, cause=trial.cause,
        )
        for trial in reading.gate_trials(row.order.gate_id)
    ]  # fmt: skip
    again = judge(pairs_in_order(trials), rule, record.opened.level, record.opened.drop)
    was = record.decided.decision
    decision = f"Gate of round {record.opened.round}: {was} ({record.decided.reason})"
    would = f"It would be {again.kind} ({again.reason}) after {again.tally.pairs} pairs."
    if again.kind == "continue":
        would = f"It would be undecided after the {again.tally.pairs} pairs that were run."
    return Stake(decision=decision, would=would, changes=again.kind != was)


def _confirmation(reading: Reading, past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    ended = past.confirms[-1].ended if past.confirms else None
    if ended is None or ended.policy_id != row.order.policy_id:
        return Stake(decision="", would="Its confirmation has not ended.", changes=False)
    successes, n = _shifted(ended, row, outcome)
    goal, commands = past.goal, past.goal_commands
    ticks = reading.success_ticks(past.campaign_id, "confirm", ended.policy_id)
    fast = fast_enough(median_commands(_relabelled(ticks, row, outcome)).median, commands)
    again, was = confirm(successes, n, goal, past.goal_by).passed and fast, ended.passed
    decision = f"Confirmation: {'passed' if was else 'not passed'} with {ended.successes} of {n}"
    goal_text = f"goal {goal:.1%}{within(past.limit_ticks)}{at_most(commands)}"
    would = f"It would be {'passed' if again else 'not passed'} with {successes} of {n}, {goal_text}."
    return Stake(decision=decision, would=would, changes=again != was)


def _base(past: History, row: OrderRow, outcome: OutcomeKind) -> Stake:
    assert past.base is not None  # checked by `stake`
    successes, n = _shifted(past.base, row, outcome)
    decision = f"Measurement of the base: {_rate(wilson(past.base.successes, n))}"
    return Stake(decision=decision, would=f"It would be {_rate(wilson(successes, n))}.", changes=False)


def _shifted(measured: BaseMeasured | Confirmed, row: OrderRow, outcome: OutcomeKind) -> tuple[int, int]:
    """(successes, n) of a measurement with `outcome` as this episode's verdict."""
    assert row.episode is not None  # checked by `stake`
    moved = (outcome == "success") - (row.episode.outcome == "success")
    return measured.successes + moved, measured.n


def _relabelled(ticks: Sequence[int], row: OrderRow, outcome: OutcomeKind) -> Sequence[int]:
    """Commands of the successes with `outcome` as this episode's verdict."""
    assert row.episode is not None  # checked by `stake`
    own = [row.episode.ticks]
    if outcome == row.episode.outcome:
        return ticks
    others = list((Counter(ticks) - Counter(own)).elements()) if row.episode.outcome == "success" else list(ticks)
    return others + own if outcome == "success" else others


def _rate(interval: Interval) -> str:
    return f"{interval.rate:.1%} [{interval.low:.1%}, {interval.high:.1%}]"
