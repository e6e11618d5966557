"""The skills of a home: code that a gate confirmed, and what came of the candidates that used it again.

All of it is computed from events. The text of a skill is in the commit that made it, which the home's repository keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from enpire.campaign.agent_events import (
    ExperimentCancelled,
    ExperimentDecided,
    ExperimentSubmitted,
    SkillFile,
)
from enpire.campaign.branch_events import BranchEnded
from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.gate_events import Deployed, RolledBack
from enpire.campaign.quarantine_events import ExperimentCleared, ExperimentQuarantined
from enpire.campaign.session_events import CampaignStarted
from enpire.errors import UnknownName
from enpire.queries.campaigns import Records

KINDS = kinds_of(
    CampaignStarted, ExperimentSubmitted, ExperimentDecided, ExperimentCancelled, BranchEnded, Deployed, RolledBack,
    ExperimentQuarantined, ExperimentCleared,
)  # fmt: skip
SHORTEST_ID = 6
"""Fewest digits by which a skill is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillView:
    """One confirmed skill."""

    id: str
    """The first 12 digits of its sha256."""
    name: str
    """Of its file: skills/NAME.py."""
    about: str
    """What its author says about it: the first line of its docstring."""
    sha256: str
    commit: str
    """The commit whose gate confirmed it first."""
    campaign_id: str
    task: str
    experiment_id: str
    lane: str
    gate_id: str
    pairs: int
    delta: float
    """Difference in success on hidden starts at that gate, candidate minus champion."""
    low: float
    """Confidence sequence of the difference."""
    high: float
    uses: int
    """Other accepted candidates of the home that hold the same text."""
    kept: int
    """Those of them that a gate promoted."""
    reverted: int
    sessions: int
    """Other agent sessions that used it."""


@dataclass(slots=True)
class _Tried:
    """One code candidate with skills, in the order of submission."""

    submitted: ExperimentSubmitted
    campaign_id: str
    seq: int
    """Number of the event that submitted it."""
    decided_seq: int = 0
    decided: ExperimentDecided | None = None
    decision: str = ""
    quarantined: bool = False


@dataclass(slots=True)
class _Library:
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    """Campaign -> its task."""
    tried: dict[str, _Tried] = field(default_factory=dict[str, _Tried])
    """Experiment -> its record."""
    rolled_back: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(campaign, version)."""

    def apply(self, entry: LedgerEntry) -> None:
        """Apply one event."""
        event, campaign_id = entry.event, entry.campaign_id
        match event:
            case CampaignStarted():
                self.tasks[campaign_id] = event.task
            case ExperimentSubmitted():
                if event.skills:
                    self.tried[event.experiment_id] = _Tried(event, campaign_id, entry.seq)
            case Deployed():
                self.rolled_back.discard((campaign_id, event.policy_id))
            case RolledBack():
                self.rolled_back.add((campaign_id, event.policy_id))
            case ExperimentDecided() | ExperimentCancelled() | BranchEnded():
                if one := self.tried.get(event.experiment_id):
                    self._end(one, event, entry.seq)
            case ExperimentQuarantined() | ExperimentCleared():
                if one := self.tried.get(event.experiment_id):
                    one.quarantined = isinstance(event, ExperimentQuarantined) or bool(event.still)
            case _:
                pass

    def _end(self, one: _Tried, event: ExperimentDecided | ExperimentCancelled | BranchEnded, seq: int) -> None:
        if isinstance(event, ExperimentDecided):
            one.decided, one.decision, one.decided_seq = event, event.decision, seq
        elif isinstance(event, BranchEnded):
            one.decision = "revert" if event.policy_id and event.reason != "given up" else "cancelled"
        else:
            one.decision = "cancelled"

    def is_confirmed(self, one: _Tried) -> bool:
        """Whether a gate promoted the candidate, and it was neither rolled back nor put into quarantine."""
        decided = one.decided
        if decided is None or decided.decision != "keep" or one.quarantined:
            return False
        return (one.campaign_id, decided.policy_id) not in self.rolled_back


def skill_library(
    records: Records, hides: Callable[[str, str], bool] = lambda campaign_id, lane: False
) -> tuple[SkillView, ...]:
    """Every confirmed skill of the home, in the order in which its experiment was submitted.

    Args:
        records: of the home.
        hides: whether the experiments of (campaign, agent session) must not count.
    """
    library = _Library()
    for entry in records.ledger.events(kinds=KINDS):
        library.apply(entry)
    shown = [one for one in library.tried.values() if not hides(one.campaign_id, one.submitted.lane)]
    found: dict[str, SkillView] = {}
    for one in shown:
        for file in one.submitted.skills if library.is_confirmed(one) else ():
            if file.sha256 not in found:
                uses = [other for other in shown if _uses(other, file.sha256, one)]
                found[file.sha256] = _view(file, one, library.tasks.get(one.campaign_id, ""), uses)
    return tuple(found.values())


def find_skill(library: tuple[SkillView, ...], wanted: str) -> SkillView:
    """The skill whose id begins with a text.

    Raises:
        UnknownName: there is none, or more than one.
    """
    found = [one for one in library if len(wanted) >= SHORTEST_ID and one.sha256.startswith(wanted)]
    if len(found) != 1:
        listed = ", ".join(f"{one.id} ({one.name})" for one in library[-8:]) or "none yet"
        raise UnknownName(f"{wanted[:80]!r} names {len(found)} skills of this home; the newest are: {listed}.")
    return found[0]


def _uses(other: _Tried, sha256: str, confirmed: _Tried) -> bool:
    """Whether a candidate imports a skill that was confirmed before; a rerun by an operator is no new use."""
    if other.seq <= confirmed.decided_seq or other.submitted.rerun_of:
        return False
    return any(file.sha256 == sha256 for file in other.submitted.skills)


def _view(file: SkillFile, one: _Tried, task: str, uses: list[_Tried]) -> SkillView:
    assert one.decided is not None
    return SkillView(
        id=file.sha256[:12], name=file.name, about=file.about, sha256=file.sha256, commit=one.submitted.commit,
        campaign_id=one.campaign_id, task=task, experiment_id=one.submitted.experiment_id, lane=one.submitted.lane,
        gate_id=one.decided.gate_id, pairs=one.decided.pairs, delta=one.decided.delta,
        low=one.decided.low, high=one.decided.high,
        uses=len(uses), kept=sum(other.decision == "keep" for other in uses),
        reverted=sum(other.decision == "revert" for other in uses),
        sessions=len({(other.campaign_id, other.submitted.lane) for other in uses}
                     - {(one.campaign_id, one.submitted.lane)}),
    )  # fmt: skip
