"""The study file: which versions are compared, on what, by which test. It is fixed before the first trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from enpire.campaign.campaign import Campaign, Stations
from enpire.errors import UsageError
from enpire.files import document, parse, read_yaml
from enpire.ids import NAME_FORM, is_file_name
from enpire.shares import require_share
from enpire.study.tests_of_pairs import Design, TestName
from enpire.types import Json
from enpire.verifiers import VerifierSettings

AMENDABLE = ("blocks", "hypothesis")
"""Keys that may change after the first trial, with a reason. `blocks` only under the test `anytime`."""
_MOST_ARMS, _MOST_BLOCKS = 8, 2000
_EXPERT = "scripted:expert"
_RECIPE = "clone_demonstrations"
"""A campaign needs a recipe; a study trains nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """One study."""

    name: str
    task: str
    arms: Mapping[str, str]
    """Name -> version: an id in the home (or its beginning), a folder, or `scripted:expert`."""
    control: str = ""
    """The arm that every other one is compared with; empty: the first."""
    hypothesis: str = ""
    """What is expected, in words."""
    blocks: int = 50
    """Most blocks; in each one every arm runs once, in random order, at one station."""
    test: TestName = "anytime"
    looks: int = 4
    """Planned looks of `group_sequential`, evenly spaced, from 2 to 20."""
    alpha: float = 0.05
    """Largest probability of any wrong "better" or "worse" in the study, in (0, 1)."""
    starts: Literal["matched", "separate"] = "matched"
    """Whether the arms of a block have the same start, or each its own because the task cannot repeat one."""
    outcome: Literal["verifier", "people"] = "verifier"
    """Who says whether a trial succeeded: the task's verifier, or a person's label, for which the study waits."""
    stations: Stations = field(default_factory=lambda: Stations(count=1, lanes=1, ahead=0))
    """As in a campaign file; with `count: 0` it waits for enrolled stations."""
    verifiers: tuple[VerifierSettings, ...] = ()
    """As in a campaign file."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not is_file_name(self.name):
            raise ValueError(f"its name must have {NAME_FORM}, not {self.name[:80]!r}.")
        if not 2 <= len(self.arms) <= _MOST_ARMS:
            raise ValueError(f"a study compares 2 to {_MOST_ARMS} arms, not {len(self.arms)}.")
        if self.control and self.control not in self.arms:
            raise ValueError(f"control is {self.control[:80]!r}, but the arms are {', '.join(self.arms)}.")
        if list(self.arms.values()).count(_EXPERT) > 1:
            raise ValueError(f"only one arm can be {_EXPERT}; give the other one a version.")
        if not 1 <= self.blocks <= _MOST_BLOCKS:
            raise ValueError(f"blocks must be from 1 to {_MOST_BLOCKS}, not {self.blocks}.")
        if self.test == "group_sequential" and not 2 <= self.looks <= min(20, self.blocks):
            raise ValueError(f"looks must be from 2 to 20, and at most the {self.blocks} blocks, not {self.looks}.")
        require_share("alpha", self.alpha, "(0, 1)")

    @property
    def reference(self) -> str:
        """Name of the control arm."""
        return self.control or next(iter(self.arms))

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the arms that are compared with the control."""
        return tuple(sorted(set(self.arms) - {self.reference}))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arms, the control first. The ledger keeps no order of keys."""
        return (self.reference, *self.others)

    @property
    def design(self) -> Design:
        """The test of one comparison. `alpha` is divided among the comparisons (Bonferroni)."""
        return Design(test=self.test, blocks=self.blocks, looks=self.looks, alpha=self.alpha / len(self.others))

    def campaign(self) -> Campaign:
        """The campaign under which the trials are ordered and recorded."""
        return Campaign(
            name=self.name, task=self.task, recipe=_RECIPE, stations=self.stations, verifiers=self.verifiers,
            seed=self.seed,
        )  # fmt: skip


def read_plan(path: Path) -> StudyPlan:
    """A study file; FileProblem names the wrong key."""
    return parse(StudyPlan, read_yaml(path), f"The study {path}")


def stored_plan(stored: Mapping[str, Json], changes: Mapping[str, Json], name: str) -> StudyPlan:
    """The plan that a ledger stores, with its amendments."""
    return parse(StudyPlan, {**stored, **changes}, f"The study {name}")


def changes_between(before: StudyPlan, now: StudyPlan) -> dict[str, Json]:
    """Keys whose values differ, with the new values."""
    old, new = document(before), document(now)
    return {key: value for key, value in new.items() if value != old[key]}


def require_amendable(before: StudyPlan, changes: Mapping[str, Json]) -> None:
    """Refuse a change that would make the test invalid.

    Raises:
        UsageError: names the key.
    """
    fixed = sorted(set(changes) - set(AMENDABLE))
    if before.test != "anytime" and "blocks" in changes:
        fixed.append("blocks")
    if fixed:
        allowed = ", ".join(key for key in AMENDABLE if before.test == "anytime" or key != "blocks")
        raise UsageError(
            f"The study {before.name!r} has begun, and {', '.join(fixed)} would change its test; only {allowed} may "
            "change. Restore the file, or begin a study of another name."
        )
