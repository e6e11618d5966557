"""Branches in the campaign file: their recipes, budgets and learners, and what agent sessions know of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from enpire.shares import require_at_least, require_share

Sharing = Literal["adopt", "leaderboard", "isolated"]
"""What agent sessions know of each other (`BranchPlan.sharing`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPlan:
    """Branches: experiments with robot time of their own (`enpire.campaign.branches`)."""

    recipes: tuple[str, ...] = ()
    """Recipes that agents may choose for an experiment, each with the `space` of its file. Empty: an experiment changes
    the campaign's recipe, and robots act for it only in its gate."""
    share: float = 0.5
    """Share of the robot time that gates and confirmations leave, for branches; the rest collects data for rounds."""
    slots: int = 0
    """Training runs of branches at one time. 0: as many as learners have room (`StationHost.learner_slots`): one for
    each core that this process may use, or for each GPU, else each core, of the Ray cluster."""
    gates: int = 2
    """Gates at one time, each at stations of its own; with fewer stations, as many as there are stations."""
    robot_s: float = 1800.0
    """Robot time of one branch, in seconds over all lanes."""
    learner_s: float = 300.0
    """CPU time of the training runs of one branch, in seconds."""
    tokens: int = 0
    """Tokens that its session may use for one branch: to propose it, and while it is undecided. 0: no limit."""
    money: float = 0.0
    """The same in money, in the currency of the price file. 0: no limit."""
    least_starts: int = 32
    """Train starts on which a version and the champion must both have acted before the version may enter a gate."""
    learns_from: Literal["own", "pool"] = "own"
    """`own`: the demonstrations, and the rollouts of its versions and of those that they were trained from. `pool`: the
    rollouts of all versions."""
    sharing: Sharing = "adopt"
    """What agent sessions know of each other. `isolated`: nothing. `leaderboard`: the results. `adopt`: also the
    changes, which they may take over, and the branches, which they may continue."""
    isolated: tuple[str, ...] = ()
    """Agent sessions (such as search-1) that know nothing of the others, and the others nothing of them, whatever
    `sharing` is: a control arm, which measures what sharing gains."""
    stalled_rounds: int = 2
    """Rounds without a promotion after which branches get the robot time of data collection, up to a tenth of it."""
    hand_over_after: int = 0
    """Robots act for branches only after so many rounds in a row whose gates promoted no candidate as better, or when
    no round is left. The learners of branches train before. From then on rounds get a tenth of the robot time that
    gates and confirmations leave. 0: robots act for branches from the beginning."""

    def __post_init__(self) -> None:
        """Refuse values out of range, and a recipe that is named twice."""
        require_share("branches share", self.share, "[0, 1]")
        require_at_least("branches", 1, gates=self.gates, stalled_rounds=self.stalled_rounds)
        require_at_least("branches", 1, least_starts=self.least_starts)
        require_at_least("branches", 0, slots=self.slots, hand_over_after=self.hand_over_after)
        require_at_least("branches", 0, robot_s=self.robot_s, learner_s=self.learner_s)
        require_at_least("branches", 0, tokens=self.tokens, money=self.money)
        for key, names in (("recipes", self.recipes), ("isolated", self.isolated)):
            if len(set(names)) < len(names):
                raise ValueError(f"branches {key} has a name twice: {', '.join(names)}.")
        if self.hand_over_after and not self.recipes:
            raise ValueError("branches hand_over_after needs at least one recipe under branches recipes.")

    def isolates(self, lane: str) -> bool:
        """Whether an agent session knows nothing of the others."""
        return self.sharing == "isolated" or lane in self.isolated

    def between(self, lane: str, other: str) -> Sharing:
        """What one agent session may know of another one's work; everything of its own."""
        if lane == other:
            return "adopt"
        return "isolated" if lane in self.isolated or other in self.isolated else self.sharing
