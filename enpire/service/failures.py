"""Where a policy fails: success over the start space, by station and by version, and clusters of failures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from enpire.errors import EnpireError
from enpire.ids import file_name
from enpire.parts import TASKS
from enpire.queries.campaigns import Records
from enpire.queries.failure_clusters import clusters_of
from enpire.queries.failure_models import FailureCluster, WhereItFails
from enpire.queries.where_it_fails import where_it_fails
from enpire.store.start_rows import Selection, StartRow, start_rows
from enpire.types import Bounds, TaskSpec

__all__ = ["FailureCluster", "Selection", "WhereItFails", "clusters_on_train_starts", "task_spec", "where_it_fails"]

NEWEST = 600
"""Episodes of a version, the newest, whose failures an agent sees as clusters."""


@functools.lru_cache(maxsize=16)
def task_spec(task: str) -> TaskSpec | None:
    """The spec of a task, cached because loading takes seconds; None where the task cannot be made here."""
    try:
        return TASKS.make(task).spec
    except EnpireError:
        return None


def clusters_on_train_starts(
    records: Records, campaign_id: str, policy_id: str, task: str, hides: Callable[[str, str], bool]
) -> tuple[FailureCluster, ...]:
    """Clusters of a version's newest failures on train starts, the largest first.

    Args:
        records: of the home.
        campaign_id: whose episodes.
        policy_id: the version.
        task: of the campaign.
        hides: whether the rollouts of (version, experiment of the branch) must not count.
    """
    wanted = Selection(campaign_id=campaign_id, starts="train", policy_id=policy_id)
    rows = start_rows(records.reading, wanted, NEWEST)
    hidden = {branch for branch in {row.branch for row in rows} if hides(policy_id, branch)}
    rows = [row for row in rows if row.branch not in hidden]
    if not any(row.recorded and row.outcome != "success" for row in rows):
        return ()
    spec = task_spec(task)
    folder = records.home / "episodes" / file_name(campaign_id, "a campaign")
    return _clusters(tuple(rows), folder, spec.state if spec else ())


@functools.lru_cache(maxsize=16)
def _clusters(rows: tuple[StartRow, ...], folder: Path, state: tuple[Bounds, ...]) -> tuple[FailureCluster, ...]:
    """`clusters_of`, which reads hundreds of recordings: the same rows give the same clusters."""
    return clusters_of(rows, folder, state)
