"""Checks numbers that people write: shares and probabilities, which they also write in percent, and least values."""

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


def require_at_least(section: str, least: float, **values: float) -> None:
    """Check that values reach a least value.

    Raises:
        ValueError: one does not; the message names the first such one.
    """
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{section} {name} must be at least {least:g}, not {value:g}.")
