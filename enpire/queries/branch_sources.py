"""Whose rollouts the branches of a campaign learned from: by the campaign file, and by the records of their runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from enpire.campaign.branches import Branches
from enpire.campaign.training_events import LearnerStarted
from enpire.queries.branch_models import DataSources
from enpire.queries.campaign_history import History
from enpire.store.reading import Reading
from enpire.store.search_rows import actors
from enpire.types import Json, Purpose


def learns_from(plan: Mapping[str, Json], lane: str) -> str:
    """What the branches of an agent session may learn from: `own` or `pool`.

    Args:
        plan: the section `branches` of the campaign file.
        lane: the agent session; an isolated one has its own data alone.
    """
    return "pool" if plan.get("learns_from") == "pool" and not is_isolated(plan, lane) else "own"


def is_isolated(plan: Mapping[str, Json], lane: str) -> bool:
    """Whether an agent session knows nothing of the others, by the section `branches` of the campaign file."""
    isolated = plan.get("isolated")
    return plan.get("sharing") == "isolated" or (isinstance(isolated, list) and lane in isolated)


def branch_sources(reading: Reading, past: History) -> Mapping[str, DataSources]:
    """Experiment -> sources of the episodes of the last training run of its branch."""
    started = (record.started for record in past.learners.values())
    last = {run.experiment_id: run for run in started if run.experiment_id in past.branches.by_experiment}
    acted = actors(reading, {one for run in last.values() for one in run.episodes})
    return {
        name: _by_source(past.branches, run, [acted.get(one) for one in run.episodes]) for name, run in last.items()
    }


WEIGHTS_OF = {"lerobot_sac": "lerobot"}
"""Learner that takes any parent -> the kind of version whose weights it starts from."""


def rollouts_alone(learner: str, parent_kind: str) -> bool:
    """Whether a learner makes new networks and learns from the rollouts of a parent of this kind alone."""
    return bool(parent_kind) and WEIGHTS_OF.get(learner, parent_kind) != parent_kind


def _by_source(branches: Branches, run: LearnerStarted, acted: Sequence[tuple[Purpose, str] | None]) -> DataSources:
    branch = branches.by_experiment[run.experiment_id]
    policies = Counter(one[1] if one else "" for one in acted if one is None or one[0] != "demonstrate")
    mine = set(branch.versions)
    before = {*branches.lineage(run.parent), *branches.lineage(branch.newest)} - mine
    own = sum(policies[version] for version in mine)
    ancestors = sum(policies[version] for version in before)
    return DataSources(
        demonstrations=len(acted) - policies.total(), own=own, ancestors=ancestors,
        others=policies.total() - own - ancestors,
    )  # fmt: skip
