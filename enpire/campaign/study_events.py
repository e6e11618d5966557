"""Events of a study: it begins, its plan is amended, its results are opened. Its trials are orders like all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from enpire.campaign.event_forms import EventBase
from enpire.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyBegan(EventBase):
    """A study begins, before its first trial: the plan, and the versions that it compares."""

    KIND: ClassVar[str] = "study began"
    plan: Mapping[str, Json]
    """The study file with every default (`enpire.study.plan.StudyPlan` reads it)."""
    arms: Mapping[str, str]
    """Name of each arm -> id of its version. Stations run copies under other ids (`enpire.study.arms`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyAmended(EventBase):
    """A person changes the plan of a study that has begun."""

    KIND: ClassVar[str] = "study amended"
    by: str
    reason: str
    changes: Mapping[str, Json]
    """Key of the study file -> its new value."""
    after: int
    """Complete blocks at that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOpened(EventBase):
    """A person reads the results by arm before the study ends."""

    KIND: ClassVar[str] = "study opened"
    by: str
    reason: str
    after: int
    """Complete blocks at that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyUnblinded(EventBase):
    """A study has ended, and its evidence leaves the home: its reader must know which arm ran in each trial."""

    KIND: ClassVar[str] = "study unblinded"
    by: str
    arms: Mapping[str, str]
    """Id under which stations ran a version -> name of its arm."""


StudyEvent = StudyBegan | StudyAmended | StudyOpened | StudyUnblinded
