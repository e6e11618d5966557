"""One branch: an experiment with robot time of its own, as the events of its campaign give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from enpire.campaign.branch_spending import Spent
from enpire.campaign.gains import LEAST_PAIRS, Gain
from enpire.campaign.recipe import Recipe

CODE = "code"
"""Regime of branches whose learner and policy an agent wrote."""
Phase = Literal["queued", "training", "search", "gate", "over"]


@dataclass(slots=True, kw_only=True)
class Branch:
    """One branch."""

    experiment_id: str
    lane: str
    number: int
    """Number of the branch in its campaign, from 1."""
    regime: str
    """Name of the recipe of branches that it uses; empty: the campaign's."""
    recipe: Recipe
    turn_rollouts: int
    """Rollouts of the newest version between two training runs."""
    parent_experiment: str
    phase: Phase = "queued"
    parent: str = ""
    """Version that its first training run starts from."""
    round: int = 0
    """Round of the campaign in which it began."""
    turn: int = 0
    """Training runs begun."""
    job: str = ""
    """The training run in progress; empty if none."""
    versions: list[str] = field(default_factory=list[str])
    """Its versions, oldest first."""
    robot_s: float = 0.0
    learner_s: float = 0.0
    """CPU time of its training runs; wall-clock time of those that an older ENPIRE recorded."""
    spent: Spent = field(default_factory=Spent)
    """What its session used of language models to propose it, and while it was undecided."""
    why: str = ""
    """Why it ended, for readers; empty while it runs."""
    quarantined: bool = False
    """Whether it waits until a person clears it: it neither acts nor trains nor enters a gate."""
    last_gain: Gain = field(default_factory=Gain)
    """Its gain when it was decided."""

    @property
    def newest(self) -> str:
        """Its newest version; empty before the first."""
        return self.versions[-1] if self.versions else ""

    @property
    def is_compared(self) -> bool:
        """Whether its newest version was compared with the champion, or still will be."""
        return self.phase != "over" or self.last_gain.n >= LEAST_PAIRS

    @property
    def newest_round(self) -> int:
        """Number that orders and candidates of its newest version carry as their round."""
        return self.round + len(self.versions)

    @property
    def active(self) -> bool:
        """Whether robots act for it: it has a version and is not decided."""
        return bool(self.versions) and self.phase in ("training", "search") and not self.quarantined

    def is_ended_by_code(self, outcome: str, cause: str) -> bool:
        """Whether its own code ended a search rollout, which then counts as a failure.

        Else code could end the rollouts that go wrong, and look better than it is.
        """
        return self.regime == CODE and outcome == "aborted" and cause.startswith("policy ")
