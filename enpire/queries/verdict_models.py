"""Documents about verdicts: labels that contradict them, and predicted failures."""

from __future__ import annotations

from dataclasses import dataclass

from enpire.queries.success_models import Success


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Comparison of the verifier with the labels."""

    labels: int
    checked: int
    """Labelled episodes that the verifier had called a success."""
    wrong: int
    """Of those, the ones that are labelled as failure or unsafe."""
    missed: int
    """Episodes that are labelled a success and that the verifier had not called one."""
    high: float
    """Upper bound on the share of the verifier's successes that are none, in [0, 1]."""
    limit: float
    passed: bool
    """Whether the share of wrong successes exceeds the limit, so that the campaign pauses."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopView:
    """Collection rollouts stopped early as predicted failures, and predicted failures of the control arm."""

    stopped: int
    false_alarms: Success
    """Share of the control arm's predicted failures that succeeded; these rollouts were not stopped."""
    saved_robot_s: float | None
    """Robot seconds saved, estimated from the control arm; None before the control arm has a predicted failure."""
    sentence: str
