"""Checks shares and probabilities: numbers between 0 and 1, which people also write in percent."""

from __future__ import annotations

from typing import Literal

Interval = Literal["[0, 1]", "(0, 1]", "[0, 1)", "(0, 1)"]


def require_share(name: str, value: float, interval: Interval) -> None:
    """Check that a value lies in an interval.

    Raises:
        ValueError: it does not; the message suggests the share if the value may be meant in percent.
    """
    above = value >= 0 if interval[0] == "[" else value > 0
    below = value <= 1 if interval[-1] == "]" else value < 1
    if not (above and below):
        percent = f"; for {value:g} % write {value / 100:g}" if 1 < value <= 100 else ""
        raise ValueError(f"{name} must lie in {interval}, not {value:g}{percent}.")
