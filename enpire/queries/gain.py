"""What a campaign has gained in success for its robot time."""

from __future__ import annotations

from dataclasses import dataclass

from enpire.gate.intervals import newcombe, wilson
from enpire.queries.success_models import Success


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Success of the champion minus success of the base, both over all their trials on hidden starts."""

    delta: float
    """In [-1, 1]."""
    low: float
    """95 % interval of the difference (Newcombe)."""
    high: float
    robot_h: float
    """Robot-hours of the campaign, over all lanes, above 0."""
    per_robot_h: float
    """Difference per robot-hour; the headline figure of a campaign."""
    per_robot_h_low: float
    per_robot_h_high: float


def gain_of(base: Success | None, champion: Success | None, robot_h: float) -> Gain | None:
    """The gain of a champion over the base for the robot time; None while one of them has no trial on hidden starts."""
    if base is None or champion is None or not base.n or not champion.n or robot_h <= 0 or base.id == champion.id:
        return None
    before, after = wilson(base.successes, base.n), wilson(champion.successes, champion.n)
    low, high = newcombe(after, before)
    delta = after.rate - before.rate
    return Gain(
        delta=delta, low=low, high=high, robot_h=robot_h, per_robot_h=delta / robot_h, per_robot_h_low=low / robot_h,
        per_robot_h_high=high / robot_h,
    )  # fmt: skip
