"""A hypothesis and an experiment as they stand now, computed from events (`enpire.campaign.experiments`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from enpire.campaign.agent_events import Edge, Mark
from enpire.campaign.gate_events import GateDecided
from enpire.campaign.quarantine_events import DOUBTED, Tripwire
from enpire.campaign.recipe import Recipe
from enpire.types import Hypothesis

Phase = Literal["proposed", "checked", "queued", "training", "search", "gate", "decided", "invalid", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedHypothesis:
    """One hypothesis with its edges."""

    hypothesis: Hypothesis
    effect: str = ""
    """The effect that the author expects."""
    edges: tuple[Edge, ...] = ()
    mark: Mark = ""
    marked_by: str = ""
    """The operator who marked it."""
    marked_why: str = ""


@dataclass(slots=True, kw_only=True)
class Experiment:
    """A recipe change that tests a hypothesis."""

    experiment_id: str
    hypothesis_id: str
    author: str
    lane: str
    changes: Mapping[str, bool | int | float | str]
    """Settings that differ from the recipe in force at submission."""
    recipe: Recipe | None
    """The whole changed recipe; None where the changes were refused."""
    recipe_hash: str
    champion: str
    """The champion at submission; once training starts, the champion that training starts from; once its branch is
    decided, the champion that the branch was compared with."""
    phase: Phase = "proposed"
    why: str = ""
    """Why it is invalid or cancelled, or the gate's reason."""
    job: str = ""
    trained_hash: str = ""
    """Hash of the recipe used in training; it must equal `recipe_hash`."""
    policy_id: str = ""
    gate_id: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Metrics of its training."""
    gate: GateDecided | None = None
    """The decision of its gate."""
    decision: str = ""
    """keep, revert, inconclusive; empty until it is decided."""
    delta: float = 0.0
    """Observed difference in success on hidden starts, candidate minus champion."""
    low: float = -1.0
    high: float = 1.0
    """Confidence sequence of that difference."""
    adopted_by: tuple[str, ...] = ()
    """Lanes that adopted it."""
    regime: str = ""
    """The recipe of branches that it changes; empty: the recipe in force."""
    parent_experiment: str = ""
    """The experiment whose branch it continues."""
    turn: int = 0
    """Training runs of its branch; 0 outside branches."""
    commit: str = ""
    """Of a code candidate: its commit in the repository of the home."""
    continues: str = ""
    """Of a code candidate: the commit that it continues; empty for none."""
    sandbox: str = ""
    """Of a code candidate: where its code runs, `bubblewrap` or `none`."""
    form: str = ""
    """Of a code candidate: a hash of what its code means; empty in older ledgers."""
    rerun_of: str = ""
    """The experiment that it tries again; empty for a new one."""
    quarantined: str = ""
    """Why it waits until a person clears it; empty if it does not."""
    tripwires: frozenset[Tripwire] = frozenset()
    """What holds it."""

    @property
    def over(self) -> bool:
        """Whether it is decided, invalid or cancelled."""
        return self.phase in ("decided", "invalid", "cancelled")

    @property
    def doubted(self) -> bool:
        """Whether it waits for a person only because its successes are not believed."""
        return bool(self.tripwires) and self.tripwires <= DOUBTED
