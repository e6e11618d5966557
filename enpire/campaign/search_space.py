"""The search space of a recipe, as data: the settings that agents may change, and their allowed values."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Plain = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A closed interval of numbers."""

    low: float
    high: float
    scale: Literal["linear", "log"]
    """Scale on which an agent draws its steps."""
    whole: bool
    """Whole numbers only."""

    def __str__(self) -> str:
        numbers = "whole numbers" if self.whole else "numbers"
        return f"{numbers} from {self.low:g} to {self.high:g} ({self.scale})"

    def holds(self, value: object) -> bool:
        """Whether a setting may have this value."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and not (self.whole and value != int(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A list of allowed values."""

    options: tuple[Plain, ...]

    def __str__(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))

    def holds(self, value: object) -> bool:
        """Whether a setting may have this value; 1 and true are different values, 2 and 2.0 are the same."""
        return any(same(option, value) for option in self.options)


Axis = Range | Choice


def same(one: object, other: object) -> bool:
    """Whether two values of a setting are equal: 1 and true are not, 2 and 2.0 are."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def axis_of(name: str, written: tuple[Plain, ...]) -> Axis:
    """The axis that a recipe declares: [low, high, "linear" or "log"], or a list of choices.

    Raises:
        ValueError: the declaration is not valid; the message names the setting.
    """
    if not (len(written) == 3 and written[2] in ("linear", "log")):
        if len(written) < 2 or len({(type(item), item) for item in written}) < len(written):
            raise ValueError(f"the space of {name} needs at least two choices, all different.")
        return Choice(options=written)
    low, high = written[0], written[1]
    numbers = [item for item in (low, high) if isinstance(item, int | float) and not isinstance(item, bool)]
    most = sys.float_info.max
    if len(numbers) < 2 or not -most <= numbers[0] < numbers[1] <= most or (written[2] == "log" and numbers[0] <= 0):
        raise ValueError(
            f"the space of {name} must be [low, high, scale] with low < high, both finite, and low > 0 on a log scale."
        )
    whole = all(isinstance(item, int) for item in numbers)
    return Range(low=numbers[0], high=numbers[1], scale=written[2], whole=whole)


def axes(space: Mapping[str, tuple[Plain, ...]]) -> Mapping[str, Axis]:
    """The axis of every setting that a recipe's `space` lets agents change."""
    return {name: axis_of(name, written) for name, written in space.items()}
