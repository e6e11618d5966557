"""Successes among trials, and the trials of a confirmation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from enpire.types import Episode, never_began


@dataclass(frozen=True, slots=True)
class Count:
    """Successes among trials."""

    successes: int = 0
    n: int = 0

    def plus(self, success: bool) -> Count:
        """The count with one more trial."""
        return Count(self.successes + success, self.n + 1)

    def corrected(self, found: Episode) -> Count:
        """The count after a late result that was counted as a failure, without the trial if it never began."""
        return Count(self.successes + (found.outcome == "success"), self.n - never_began(found.outcome, found.cause))

    def halved(self) -> Count:
        """Half the trials, so that older ones count less."""
        return Count(self.successes // 2, self.n // 2)

    @property
    def rate(self) -> float:
        """Successes per trial, 0 without trials."""
        return self.successes / self.n if self.n else 0.0


@dataclass(slots=True)
class Confirmation:
    """A confirmation that has not ended."""

    policy_id: str
    n: int
    goal: float = 1.0
    by: Literal["rate", "bound"] = "rate"
    commands: int = 0
    """Largest allowed median number of commands of its successes; 0: no limit."""
    ended: Count = Count()
    ticks: list[int] = field(default_factory=list[int])
    """Commands of each success."""

    def add(self, episode: Episode) -> None:
        """Count one more trial."""
        self.ended = self.ended.plus(episode.outcome == "success")
        self._time(episode)

    def correct(self, found: Episode) -> None:
        """Count the late result of a trial that was counted as a failure."""
        self.ended = self.ended.corrected(found)
        self._time(found)

    def _time(self, episode: Episode) -> None:
        if episode.outcome == "success":
            self.ticks.append(episode.ticks)
