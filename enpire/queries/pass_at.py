"""pass@k: success within the first k attempts of one trial on hidden starts.

A new attempt begins when the policy loses a subtask that it had reached and tries again in the same rollout
(`enpire.station.recording.retry_ticks`). pass@k counts no second rollout from the same start.
"""

from __future__ import annotations

from collections.abc import Iterable

from enpire.errors import UsageError
from enpire.gate.intervals import wilson
from enpire.queries.campaign_history import History
from enpire.queries.gates import success
from enpire.queries.models import PassAt
from enpire.queries.success_models import Success
from enpire.store.reading import Attempts, Reading
from enpire.types import HIDDEN, Interval

MOST_ATTEMPTS = 5
"""The largest k that is shown."""


def pass_at(trials: Iterable[Attempts], k: int) -> Interval:
    """The share of trials that succeeded within their first `k` attempts, with its Wilson 95 % interval.

    Counts the trials that ended with a verdict, as the success rate does.

    Raises:
        UsageError: `k` is below 1.
    """
    if k < 1:
        raise UsageError(f"pass@{k} is not defined; give a number of attempts of at least 1.")
    groups = list(trials)
    passed = sum(group.successes for group in groups if group.attempts <= k)
    return wilson(passed, sum(group.n_ended for group in groups))


def pass_at_of(reading: Reading, past: History) -> tuple[PassAt, ...]:
    """pass@k of every version with trials on hidden starts, in the order in which the versions were made.

    k goes from 1 to the largest number of attempts of any trial, at most `MOST_ATTEMPTS`.
    """
    groups: dict[str, list[Attempts]] = {}
    most = 1
    for group in reading.attempts(past.campaign_id, HIDDEN):
        groups.setdefault(group.policy_id, []).append(group)
        most = max(most, min(group.attempts, MOST_ATTEMPTS))
    return tuple(
        PassAt(
            id=policy_id,
            round=made.round,
            rates=tuple(_rate(policy_id, pass_at(groups[policy_id], k)) for k in range(1, most + 1)),
        )
        for policy_id, made in past.versions.items()
        if policy_id in groups
    )


def _rate(policy_id: str, rate: Interval) -> Success:
    return success(policy_id, rate.successes, rate.n)
