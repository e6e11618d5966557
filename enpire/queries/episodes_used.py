"""How many episodes a campaign asked for, collected, and used in training runs and decisions."""

from __future__ import annotations

from collections.abc import Mapping, Set

from enpire.queries.campaign_history import History
from enpire.queries.data_models import AskedOf, DataView, RolloutsUsed
from enpire.queries.history_records import LearnerRecord
from enpire.queries.metrics import real_time_factor
from enpire.store.reading import Reading
from enpire.types import COLLECTION, Json, Purpose


def data_of(reading: Reading, past: History, round_: int) -> DataView:
    """The new data of a round. A run of an agent's experiment is no round and uses the data of the next one."""
    runs = rounds_runs(past)
    run = runs.get(round_)
    earlier = [record for number, record in runs.items() if number < round_]
    before = {one for record in earlier for one in record.started.episodes}
    new = [one for one in run.started.episodes if one not in before] if run else None
    purposes: tuple[Purpose, ...] = COLLECTION if round_ else ("demonstrate",)
    since = max((record.seq for record in earlier), default=0) if round_ else 0
    until = run.seq if run and round_ else None
    shown = frozenset(reading.demonstrations(past.campaign_id)) if new and round_ else frozenset[str]()
    fresh = None if new is None else [one for one in new if one not in shown]
    ends = reading.outcomes(fresh or ())
    asked, asked_of = _asked(past, round_)
    return DataView(
        asked=asked,
        asked_of=asked_of,
        used=None if fresh is None else len(fresh),
        succeeded=None if fresh is None else ends.get("success", 0),
        stopped=None if fresh is None else ends.get("aborted", 0),
        collected=reading.judged(past.campaign_id, purposes, since, until),
        all_used=len(run.started.episodes) if run else None,
    )


def rounds_runs(past: History) -> dict[int, LearnerRecord]:
    """Round -> the last training run of the campaign's own recipe in that round, in order."""
    own = [record for record in past.learners.values() if not record.started.experiment_id]
    return {record.started.round: record for record in sorted(own, key=lambda record: record.seq)}


def rollouts_used(reading: Reading, past: History, compared: Set[str] = frozenset()) -> RolloutsUsed:
    """Rollouts that a training run or a decision used, of those that have begun.

    Args:
        reading: the ledger.
        past: the history of the campaign.
        compared: ids of the search rollouts that decisions about branches compared (`enpire.queries.branches`).
    """
    learned = {one for record in past.learners.values() for one in record.started.episodes}
    imported = set(reading.imported(past.campaign_id))
    decided = [gate.decided for gate in past.gates.values() if gate.decided is not None]
    trials = sum(2 * (one.wins + one.losses + one.both + one.neither) for one in decided)
    measured = past.base.n if past.base else 0
    confirmed = sum(record.ended.n for record in past.confirms if record.ended)
    n = reading.rollouts(past.campaign_id).n
    used = min(n, len((learned | compared) - imported) + trials + measured + confirmed)
    return RolloutsUsed(used=used, n=n, share=used / n if n else None)


def speed_of(reading: Reading, past: History) -> float | None:
    """The real-time factor of the campaign's rollouts."""
    rollout_s = sum(one.lanes * one.seconds().get("rollout", 0.0) for one in past.stations.values())
    return real_time_factor(rollout_s, reading.rollouts(past.campaign_id).ticks, past.period_s)


def _asked(past: History, round_: int) -> tuple[int, AskedOf]:
    """The number that the campaign file asks for in a round, and what it counts."""
    if round_:
        return _whole(past.section("rounds"), "episodes"), "rollouts"
    base = past.section("base")
    asked_of = "demonstrations" if past.section("rounds").get("lockstep") is True else "successes"
    return 0 if base.get("policy") else _whole(base, "demonstrations"), asked_of


def _whole(section: Mapping[str, Json], name: str) -> int:
    value = section.get(name)
    return value if isinstance(value, int) else 0
