"""How far operators' labels agree with the verifier, and when a campaign pauses because of them.

A label is an event of its own; it never changes a verdict. When too many of the verifier's successes may be failures,
the campaign pauses, so that no learner trains on wrong successes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from enpire.gate.intervals import lower_bound, upper_bound
from enpire.shares import require_share
from enpire.wording import counted

BY = "the check of the verifier"
"""Recorded as the one who paused a campaign whose verifier drifted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRule:
    """When labels pause a campaign."""

    false_successes: float = 0.1
    """Largest allowed share of wrong successes of the verifier, in (0, 1]; 1 turns the check off."""
    confidence: float = 0.95
    """Confidence of the exact one-sided bound (Clopper and Pearson) on that share, in (0, 1)."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        require_share("drift false_successes", self.false_successes, "(0, 1]")
        require_share("drift confidence", self.confidence, "(0, 1)")

    @property
    def least(self) -> int:
        """Fewest labels with which the bound can be below the limit, even if all labels agree with the verifier."""
        if self.false_successes >= 1:
            return 0
        return math.ceil(math.log(1 - self.confidence) / math.log(1 - self.false_successes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How the labels compare with the verdicts."""

    labels: int
    """Labelled episodes."""
    checked: int
    """Labelled episodes whose verdict is success."""
    wrong: int
    """Those of `checked` whose label is not success."""
    missed: int
    """Episodes labelled success whose verdict is not."""
    low: float
    high: float
    """One-sided bounds on the share of wrong successes."""
    limit: float
    least: int

    @property
    def passed(self) -> bool:
        """Whether the campaign must pause: the lower bound is above the limit; with enough labels, the upper bound."""
        return self.limit < 1 and (self.low > self.limit or (self.checked >= self.least and self.high > self.limit))

    @property
    def sentence(self) -> str:
        """For the terminal, the page and the report."""
        if not self.checked:
            return "No success of the verifier has a label yet: `enpire episodes audit` selects some at random."
        summary = (
            f"Labels contradict {self.wrong} of {counted(self.checked, 'labelled success', 'labelled successes')} of "
            f"the verifier: up to {self.high:.1%} of its successes may be wrong, the limit is {self.limit:.1%}"
        )
        if self.passed:
            return (
                f"{summary}. Check the cameras, label more episodes (enpire episodes audit, enpire episodes judge), "
                "then resume (enpire campaign resume), or end the campaign and fit the verifier (enpire verifier fit)."
            )
        return f"{summary}." if self.checked >= self.least else f"{summary}; {self.least} labels are needed to decide."


def drift(labels: Iterable[tuple[str, str]], rule: DriftRule) -> Drift:
    """Compare (verdict, label) of every labelled episode."""
    labelled = list(labels)
    checked = [label for verdict, label in labelled if verdict == "success"]
    wrong = sum(label != "success" for label in checked)
    return Drift(
        labels=len(labelled), checked=len(checked), wrong=wrong,
        missed=sum(verdict != "success" == label for verdict, label in labelled),
        low=lower_bound(wrong, len(checked), rule.confidence), high=upper_bound(wrong, len(checked), rule.confidence),
        limit=rule.false_successes, least=rule.least,
    )  # fmt: skip
