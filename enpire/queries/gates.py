"""Rounds, gates and confirmations of a campaign as documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from enpire.campaign.gate_events import GateDecided
from enpire.errors import UsageError
from enpire.gate.intervals import lower_bound, wilson
from enpire.gate.median import median_commands
from enpire.queries.campaign_history import History
from enpire.queries.episodes_used import data_of
from enpire.queries.history_records import GateRecord, LearnerRecord
from enpire.queries.models import BudgetView, Confirm, GateView, LearnerView, RoundView, weighed
from enpire.queries.success_models import Success
from enpire.store.reading import OutcomeCounts, Reading
from enpire.types import COLLECTION, Purpose

if TYPE_CHECKING:
    from enpire.gate.trials import Pair, Tally


def success(policy_id: str, successes: int, n: int) -> Success:
    """A success rate with its Wilson 95 % interval, as a document."""
    interval = wilson(successes, n)
    rate = successes / n if n else None
    return Success(id=policy_id, success=rate, low=interval.low, high=interval.high, n=n, successes=successes)


def success_of(
    reading: Reading, campaign_id: str, purposes: Sequence[Purpose], *, policy_id: str = "", round: int | None = None
) -> Success:
    """Success rate over some purposes, of one version and one round where given."""
    counts = counts_of(reading, campaign_id, purposes, policy_id=policy_id, round=round)
    return success(policy_id, counts.successes, counts.n_ended)


def counts_of(
    reading: Reading, campaign_id: str, purposes: Sequence[Purpose], *, policy_id: str = "", round: int | None = None
) -> OutcomeCounts:
    """Outcome counts of one version and one round where given, added up over the purposes."""
    parts = [reading.successes(campaign_id, purpose, policy_id=policy_id, round=round) for purpose in purposes]
    return OutcomeCounts(*(sum(column) for column in zip(*parts, strict=True)))


def budget_of(past: History) -> BudgetView | None:
    """The limits of the campaign; None if the campaign file has none."""
    written = past.section("budget")
    wall_s, rounds, robot_s, tokens, money = (
        amount if isinstance(amount := written.get(name), int | float) else 0
        for name in ("wall_s", "rounds", "robot_s", "tokens", "money")
    )
    budget = BudgetView(wall_s=wall_s, rounds=int(rounds), robot_s=robot_s, tokens=int(tokens), money=money)
    return budget if written else None


def rounds_of(reading: Reading, past: History) -> tuple[RoundView, ...]:
    """Every round that began, oldest first; round 0 trains the base policy. Branches have no rounds."""
    last = max([0, *(record.started.round for record in past.learners.values() if not record.started.turn)])
    return tuple(_round(reading, past, index) for index in range(last + 1))


def gate_decision(record: GateRecord, past: History) -> tuple[str, str]:
    """The decision of a gate and its reason: `open` while it runs, `dropped` if it ended without a decision."""
    if record.decided is not None:
        return record.decided.decision, record.decided.reason
    if record.dropped:
        return "dropped", record.dropped
    return ("dropped", "the campaign ended first") if past.ended is not None else ("open", "")


def gate_view(reading: Reading, past: History, record: GateRecord) -> GateView:
    """One gate as a document; an open or dropped gate has its finished pairs, but no rates and no evidence."""
    opened, decided = record.opened, record.decided
    decision, reason = gate_decision(record, past)
    counts: GateDecided | Tally = decided or _tally(reading, opened.gate_id)
    pairs = counts.wins + counts.losses + counts.both + counts.neither
    view = GateView(
        id=opened.gate_id, round=opened.round, k=opened.k, champion=opened.champion, candidate=opened.candidate,
        decision=decision, reason=reason, pairs=pairs, max_pairs=int(opened.rule.get("pairs", 0)), wins=counts.wins,
        losses=counts.losses, both=counts.both, neither=counts.neither, log_e=0.0, log_need=0.0, difference_low=None,
        difference_high=None, champion_success=success(opened.champion, 0, 0),
        candidate_success=success(opened.candidate, 0, 0), opened_s=record.opened_s,
        decided_s=None if decision == "open" else record.decided_s or past.elapsed_s,
    )  # fmt: skip
    if decided is None:
        return view
    return replace(
        view, log_e=getattr(decided, weighed(decided.reason)), log_need=decided.log_need, difference_low=decided.low,
        difference_high=decided.high,
        champion_success=success(opened.champion, decided.both + decided.losses, pairs),
        candidate_success=success(opened.candidate, decided.both + decided.wins, pairs),
    )  # fmt: skip


def finished_pairs(reading: Reading, gate_id: str) -> tuple[Pair, ...]:
    """The finished pairs of a gate in order; none if the records contradict each other."""
    from enpire.gate.trials import Trial, pairs_in_order  # with numpy, which most readers need not load

    trials = [
        Trial(
            pair=row.pair, side="champion" if row.side == "champion" else "candidate", outcome=row.outcome,
            ticks=row.ticks, cause=row.cause,
        )
        for row in reading.gate_trials(gate_id)
    ]  # fmt: skip
    try:
        return pairs_in_order(trials)
    except UsageError:  # `enpire ledger recompute` reports it
        return ()


def _tally(reading: Reading, gate_id: str) -> Tally:
    from enpire.gate.trials import Tally

    tally = Tally()
    for pair in finished_pairs(reading, gate_id):
        tally = tally.add(pair)
    return tally


def confirm_view(reading: Reading, past: History) -> Confirm | None:
    """The last confirmation; while it runs, with the trials that have ended so far. None if there was none."""
    if not past.confirms:
        return None
    record = past.confirms[-1]
    ended = record.ended
    if ended is None:
        so_far = success_of(reading, past.campaign_id, ("confirm",), policy_id=record.policy_id)
        found = median_commands(reading.success_ticks(past.campaign_id, "confirm", record.policy_id))
        speed = (found.median, found.low, found.high)
    else:
        so_far = success(record.policy_id, ended.successes, ended.n)
        speed = (ended.median, ended.median_low, ended.median_high)
    return Confirm(
        id=record.policy_id,
        success=so_far.success,
        low=so_far.low,
        high=so_far.high,
        n=so_far.n,
        successes=so_far.successes,
        bound=lower_bound(so_far.successes, so_far.n) if so_far.n else 0.0,
        announced=record.n,
        passed=ended.passed if ended else None,
        median=speed[0],
        median_low=speed[1],
        median_high=speed[2],
        limit_ticks=past.limit_ticks or (ended.limit_ticks if ended else 0),
    )


def _round(reading: Reading, past: History, index: int) -> RoundView:
    in_branches = past.branches.versions
    runs = [item for item in past.learners.values() if not item.started.turn]
    gates = [item for item in past.gates.values() if item.opened.candidate not in in_branches]
    learner = _last([item for item in runs if item.started.round == index])
    gate = _last([item for item in gates if item.opened.round == index])
    made = [one for one, version in past.versions.items() if version.round == index and one not in in_branches]
    return RoundView(
        round=index,
        collection=success_of(reading, past.campaign_id, COLLECTION, round=index),
        candidate=made[-1] if made else "",
        data=data_of(reading, past, index),
        learner=_learner(learner, past.ended is not None) if learner else None,
        gate=gate_view(reading, past, gate) if gate else None,
    )


def _learner(record: LearnerRecord, over: bool) -> LearnerView:
    started, ended = record.started, record.ended
    return LearnerView(
        job=started.job,
        learner=started.learner,
        parent=started.parent,
        state="done" if ended else "failed" if record.failed else "stopped" if over else "running",
        why=record.failed,
        seconds=ended.seconds if ended else None,
        figures=dict(ended.metrics) if ended else {},
    )


def _last[T](items: Sequence[T]) -> T | None:
    return items[-1] if items else None
