"""Whether the verifier can still be trusted, by what people say about episodes that it called successes.

A label is an event of its own; it never changes a verdict. When too many of the verifier's successes may be none, the
campaign pauses itself, because a learner would be taught a lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from enpire.gate.intervals import lower_bound, upper_bound
from enpire.wording import counted

BY = "the check of the verifier"
"""Who pauses a campaign whose verifier drifted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRule:
    """When the operators' labels say that a campaign must pause."""

    false_successes: float = 0.1
    """So large a share of the verifier's successes may be none, in (0, 1]; 1 switches the check off."""
    confidence: float = 0.95
    """Of the exact one-sided bound (Clopper and Pearson) on that share."""

    def __post_init__(self) -> None:
        """Refuse what no bound could keep."""
        if not 0 < self.false_successes <= 1 or not 0 < self.confidence < 1:
            raise ValueError("drift false_successes must lie in (0, 1], and confidence between 0 and 1.")

    @property
    def least(self) -> int:
        """Labels below which even none wrong would leave the bound over the limit, so that it says nothing yet."""
        if self.false_successes >= 1:
            return 0
        return math.ceil(math.log(1 - self.confidence) / math.log(1 - self.false_successes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What the labels say."""

    labels: int
    """Episodes that a person labelled."""
    checked: int
    """Of these, the ones that the verifier had called a success."""
    wrong: int
    """Of those, the ones that the person did not."""
    missed: int
    """Labelled successes that the verifier had not called one."""
    low: float
    high: float
    """One-sided bounds on the share of the verifier's successes that are none."""
    limit: float
    least: int

    @property
    def passed(self) -> bool:
        """Whether the limit is passed: surely, or possibly with labels enough to know better."""
        return self.limit < 1 and (self.low > self.limit or (self.checked >= self.least and self.high > self.limit))

    @property
    def sentence(self) -> str:
        """For the terminal, the page and the report."""
        if not self.checked:
            return "Nobody has checked a success of the verifier yet: enpire episodes audit names some at random."
        told = (
            f"Of {counted(self.checked, 'success', 'successes')} of the verifier that people checked, {self.wrong} "
            f"{'was no success' if self.wrong == 1 else 'were not successes'}: up to {self.high:.1%} may not be, "
            f"the limit is {self.limit:.1%}"
        )
        if self.passed:
            return (
                f"{told}. Look at the cameras, label more (enpire episodes audit, enpire episodes judge), and go on "
                "(enpire campaign resume) or end it and fit the verifier anew (enpire verifier fit)."
            )
        return f"{told}." if self.checked >= self.least else f"{told}; {self.least} labels are needed to say more."


def drift(labels: Iterable[tuple[str, str]], rule: DriftRule) -> Drift:
    """Compare (what the verifier said, what the person said) of every labelled episode."""
    said = list(labels)
    checked = [person for verifier, person in said if verifier == "success"]
    wrong = sum(person != "success" for person in checked)
    return Drift(
        labels=len(said), checked=len(checked), wrong=wrong,
        missed=sum(verifier != "success" == person for verifier, person in said),
        low=lower_bound(wrong, len(checked), rule.confidence), high=upper_bound(wrong, len(checked), rule.confidence),
        limit=rule.false_successes, least=rule.least,
    )  # fmt: skip
