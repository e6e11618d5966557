"""The trials that predict whether the confirmation of a version would pass.

They are its trials on hidden starts that have a verdict: of the base measurement, of gates, and of measurements of the
champion. A confirmation costs many starts and each version has one, so it starts when it will probably pass. Between
gates robots measure a champion whose predicted probability is neither high enough nor too low.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from enpire.campaign.campaign import Goal
from enpire.campaign.counts import Count
from enpire.gate.gate import rate_to_pass
from enpire.gate.intervals import predicted
from enpire.gate.median import predicted_fast
from enpire.types import JUDGED, Episode

MIN_TRIALS = 30
"""Trials that a champion needs before a confirmation can start."""
LEAST_CHANCE = 0.05
"""A champion that failed is measured only while at least this probability is predicted. For 396 of 400, 29 successes of
30 trials predict 0.06."""


@dataclass(slots=True)
class ConfirmationForecast:
    """Trials of each version, and what they predict."""

    trials: dict[str, Count] = field(default_factory=dict[str, Count])
    """Version -> trials; one that an operator stopped has no verdict and does not count."""
    success_ticks: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Version -> commands of each success among them."""
    measured: Counter[str] = field(default_factory=Counter[str])
    """Version -> orders that measured it as the champion, with those that have not ended."""

    def add(self, episode: Episode) -> None:
        """Count a trial."""
        version, success = episode.order.policy_id, episode.outcome == "success"
        if episode.outcome in JUDGED:
            self.trials[version] = self._trials(version).plus(success)
        if success:
            self.success_ticks.setdefault(version, []).append(episode.ticks)

    def chance(self, version: str, goal: Goal) -> float:
        """Predicted probability that a confirmation of this version passes, in [0, 1].

        The least probability that it succeeds often enough and is fast enough, however the two depend (Fréchet 1935).
        """
        return max(0.0, sum(self._chances(version, goal)) - 1)

    def is_due(self, version: str, goal: Goal, needed: float) -> bool:
        """Whether a confirmation may start: enough trials predict that it passes with at least this probability."""
        return self._trials(version).n >= MIN_TRIALS and self.chance(version, goal) >= needed

    def is_open(self, version: str, goal: Goal) -> bool:
        """Whether more trials are useful: they may still show that a confirmation would pass, and do not yet."""
        if self.measured[version] >= most_measurements(goal) or self.is_due(version, goal, goal.attempt_chance):
            return False
        succeeds, fast = self._chances(version, goal)
        trials = self._trials(version)
        failed = trials.successes < trials.n
        return fast >= LEAST_CHANCE and (succeeds >= LEAST_CHANCE or not failed)

    def _trials(self, version: str) -> Count:
        return self.trials.get(version, Count())

    def _chances(self, version: str, goal: Goal) -> tuple[float, float]:
        """Predicted probabilities that a confirmation succeeds often enough, and that it is fast enough."""
        trials = self._trials(version)
        rate = rate_to_pass(goal.confirm_starts, goal.success, goal.by)
        ticks = self.success_ticks.get(version, [])
        return (
            predicted(trials.successes, trials.n, goal.confirm_starts, rate),
            predicted_fast(ticks, goal.commands, goal.confirm_starts, rate),
        )


def most_measurements(goal: Goal) -> int:
    """Most orders that measure one version as the champion: as many as its confirmation has, at least MIN_TRIALS."""
    return max(goal.confirm_starts, MIN_TRIALS)
