"""Rounds, gates and confirmations of a campaign as documents."""

from __future__ import annotations

from collections.abc import Sequence

from enpire.gate.intervals import wilson
from enpire.queries.campaign_history import GateRecord, History, LearnerRecord, mapping, number, text
from enpire.queries.models import Confirm, GateView, LearnerView, RoundView, Success, weighed
from enpire.store.reading import Reading, Tally
from enpire.types import Purpose


def success(policy_id: str, successes: int, n: int) -> Success:
    """A rate with its interval, as a document."""
    interval = wilson(successes, n)
    rate = successes / n if n else None
    return Success(id=policy_id, success=rate, low=interval.low, high=interval.high, n=n, successes=successes)


def success_of(
    reading: Reading, campaign_id: str, purposes: Sequence[Purpose], *, policy_id: str = "", round: int | None = None
) -> Success:
    """Success over some purposes, of one version and one round where given."""
    tally = tally_of(reading, campaign_id, purposes, policy_id=policy_id, round=round)
    return success(policy_id, tally.successes, tally.n_ended)


def tally_of(
    reading: Reading, campaign_id: str, purposes: Sequence[Purpose], *, policy_id: str = "", round: int | None = None
) -> Tally:
    """The counts behind it, added up over the purposes."""
    parts = [reading.successes(campaign_id, purpose, policy_id=policy_id, round=round) for purpose in purposes]
    return Tally(*(sum(column) for column in zip(*parts, strict=True)))


def rounds_of(reading: Reading, past: History) -> tuple[RoundView, ...]:
    """Every round that began, oldest first; round 0 makes the base."""
    last = max([0, *(int(number(record.started, "round")) for record in past.learners.values())])
    return tuple(_round(reading, past, index) for index in range(last + 1))


def gate_view(record: GateRecord) -> GateView:
    """One gate as it stands; figures of an open one are those at its opening."""
    opened, decided = record.opened, record.decided or {}
    wins, losses = int(number(decided, "wins")), int(number(decided, "losses"))
    both, neither = int(number(decided, "both")), int(number(decided, "neither"))
    pairs = wins + losses + both + neither
    champion, candidate = text(opened, "champion"), text(opened, "candidate")
    return GateView(
        id=text(opened, "gate_id"),
        round=int(number(opened, "round")),
        k=int(number(opened, "k")),
        champion=champion,
        candidate=candidate,
        decision=text(decided, "decision") or "open",
        reason=text(decided, "reason"),
        pairs=pairs,
        max_pairs=int(number(mapping(opened, "rule"), "pairs")),
        wins=wins,
        losses=losses,
        both=both,
        neither=neither,
        log_e=number(decided, weighed(text(decided, "reason"))),
        log_need=number(decided, "log_need"),
        difference_low=number(decided, "low") if decided else None,
        difference_high=number(decided, "high") if decided else None,
        champion_success=success(champion, both + losses, pairs),
        candidate_success=success(candidate, both + wins, pairs),
        opened_s=record.opened_s,
        decided_s=record.decided_s if record.decided else None,
    )


def confirm_view(reading: Reading, past: History) -> Confirm | None:
    """The last confirmation; while it is going on, what has ended so far."""
    if not past.confirms:
        return None
    record = past.confirms[-1]
    policy_id, announced = text(record.opened, "policy_id"), int(number(record.opened, "n"))
    if record.ended is None:
        so_far = success_of(reading, past.campaign_id, ("confirm",), policy_id=policy_id)
    else:
        so_far = success(policy_id, int(number(record.ended, "successes")), int(number(record.ended, "n")))
    return Confirm(
        id=policy_id,
        success=so_far.success,
        low=so_far.low,
        high=so_far.high,
        n=so_far.n,
        successes=so_far.successes,
        announced=announced,
        passed=bool(record.ended.get("passed")) if record.ended else None,
    )


def _round(reading: Reading, past: History, index: int) -> RoundView:
    learner = _last([item for item in past.learners.values() if int(number(item.started, "round")) == index])
    gate = _last([item for item in past.gates.values() if int(number(item.opened, "round")) == index])
    made = [policy_id for policy_id, body in past.versions.items() if int(number(body, "round")) == index]
    return RoundView(
        round=index,
        collection=success_of(reading, past.campaign_id, ("collect",), round=index),
        candidate=made[-1] if made else "",
        learner=_learner(learner, past.ended is not None) if learner else None,
        gate=gate_view(gate) if gate else None,
    )


def _learner(record: LearnerRecord, over: bool) -> LearnerView:
    ended = record.ended
    figures = mapping(ended, "figures") if ended else dict[str, object]()
    return LearnerView(
        job=text(record.started, "job"),
        learner=text(record.started, "learner"),
        parent=text(record.started, "parent"),
        state="done" if ended else "failed" if record.failed else "stopped" if over else "running",
        why=record.failed,
        seconds=number(ended, "seconds") if ended else None,
        figures={name: float(value) for name, value in figures.items() if isinstance(value, int | float)},
    )


def _last[T](items: Sequence[T]) -> T | None:
    return items[-1] if items else None
