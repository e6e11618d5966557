"""Events of training runs and the policy versions that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from enpire.campaign.event_forms import OPTIONAL, EventBase, stored
from enpire.campaign.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerStarted(EventBase):
    """A training run begins."""

    KIND: ClassVar[str] = "learner started"
    job: str
    learner: str
    parent: str
    """Policy version that training starts from; empty for the base."""
    round: int
    episodes: tuple[str, ...]
    """Order ids of the training episodes."""
    recipe: Recipe
    """Name, learner and settings; the search space is left out."""
    recipe_hash: str
    data_hash: str
    """sha256 over the sorted sha256 of the episodes' arrays."""
    experiment_id: str = field(default="", metadata=OPTIONAL)
    """Empty for the campaign's own rounds."""
    turn: int = field(default=0, metadata=OPTIONAL)
    """Number of the training run in its branch, from 1; 0 outside branches."""
    seed: int | None = field(default=None, metadata=OPTIONAL)
    """Seed of the learner; None where an older ENPIRE computed it from the round and the number of the branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerEnded(EventBase):
    """A training run made a policy version."""

    KIND: ClassVar[str] = "learner ended"
    VERSION: ClassVar[int] = 2
    job: str
    policy_id: str
    round: int
    metrics: Mapping[str, float] = field(metadata=stored("figures"))
    """Metrics of the learner: loss, calibration, shares. Finite numbers only."""
    seconds: float
    """Wall-clock time of the run; 0 where version 1 of this event did not record it."""
    cpu_s: float | None = field(default=None, metadata=OPTIONAL)
    """CPU time of all its processes; None where an older ENPIRE did not record it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerFailed(EventBase):
    """A training run ends without a version."""

    KIND: ClassVar[str] = "learner failed"
    job: str
    why: str
    cpu_s: float | None = field(default=None, metadata=OPTIONAL)
    """As of `LearnerEnded`."""
    over_budget: bool = field(default=False, metadata=OPTIONAL)
    """It was ended because its branch had used up its CPU time. The versions of earlier turns stay."""
    branch_over: bool = field(default=False, metadata=OPTIONAL)
    """It was ended because its branch was over already, for example given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerKilled(EventBase):
    """The process of a training run was killed; it resumes from its last checkpoint."""

    KIND: ClassVar[str] = "learner killed"
    job: str
    restarts: int
    """Number of restarts of this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionMade(EventBase):
    """A policy version is published in the home."""

    KIND: ClassVar[str] = "version made"
    policy_id: str
    """sha256 of its files."""
    policy_kind: str = field(metadata=stored("kind"))
    """Name of the plug-in that loads the policy."""
    parent: str
    """Version that training started from; empty for a base."""
    recipe_hash: str
    data_hash: str
    round: int
    commit: str = field(default="", metadata=OPTIONAL)
    """Commit whose code made it, in the repository of the home; empty where no agent's code did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionImported(EventBase):
    """The campaign begins with a version that was imported into the home; its files are pinned by its id."""

    KIND: ClassVar[str] = "version imported"
    policy_id: str
    policy_kind: str
    source: str = field(default="", metadata=OPTIONAL)
    """URL or folder that it came from, with its revision; empty where this was not recorded."""
    revision: str = field(default="", metadata=OPTIONAL)
    """Commit of a hub; empty elsewhere."""
    by: str = field(default="", metadata=OPTIONAL)
    """Who imported it."""
    at_ns: int = field(default=0, metadata=OPTIONAL)
    """Wall clock of the import."""


TrainingEvent = LearnerStarted | LearnerEnded | LearnerFailed | LearnerKilled | VersionMade | VersionImported
