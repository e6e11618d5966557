"""The search space of a recipe: which settings may be changed, and between which values. Data, never code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from enpire.errors import UsageError
from enpire.files import shown

if TYPE_CHECKING:
    from enpire.campaign.recipe import Recipe, Setting

Plain = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A closed interval of numbers."""

    low: float
    high: float
    scale: Literal["linear", "log"]
    """On which scale a step is drawn."""
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
    """One of these values."""

    options: tuple[Plain, ...]

    def __str__(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))

    def holds(self, value: object) -> bool:
        """Whether a setting may have this value; 1 and true are different values."""
        return any(option == value and isinstance(option, bool) == isinstance(value, bool) for option in self.options)


Axis = Range | Choice


def axis_of(name: str, written: tuple[Plain, ...]) -> Axis:
    """The axis that a recipe declares: [low, high, "linear" or "log"], or a list of choices.

    Raises:
        ValueError: the declaration cannot be; the sentence names the setting.
    """
    if not (len(written) == 3 and written[2] in ("linear", "log")):
        if len(written) < 2 or len({(type(item), item) for item in written}) < len(written):
            raise ValueError(f"the space of {name} needs two choices or more, each once.")
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


def axes(recipe: Recipe) -> Mapping[str, Axis]:
    """Every setting that may be changed."""
    return {name: axis_of(name, written) for name, written in recipe.space.items()}


def changed(recipe: Recipe, changes: Mapping[str, object], name: str) -> Recipe:
    """The recipe with some settings changed, under another name.

    Raises:
        UsageError: a setting is not in the space, a value lies outside, or nothing changes; one sentence.
    """
    known = axes(recipe)
    if not changes:
        raise UsageError("A candidate must change at least one setting; name it and its new value in `changes`.")
    for setting, value in changes.items():
        axis = known.get(setting)
        if axis is None:
            allowed = ", ".join(known) or "none: the recipe declares no `space`"
            raise UsageError(f"The setting {setting!r} is not in the search space; these may be changed: {allowed}.")
        if not axis.holds(value):
            raise UsageError(f"The setting {setting!r} cannot be {shown(value)}; allowed are {axis}.")
    settings = {**recipe.settings, **{key: _typed(known[key], value) for key, value in changes.items()}}
    made = replace(recipe, name=name, settings=settings)
    if made.hash == recipe.hash:
        raise UsageError("The changes leave the recipe as it is; a candidate must differ from the recipe in force.")
    return made


def difference(recipe: Recipe, other: Recipe) -> dict[str, Setting]:
    """The settings of `other` that differ from those of `recipe`."""
    return {name: value for name, value in other.settings.items() if recipe.settings.get(name) != value}


def _typed(axis: Axis, value: object) -> Setting:
    if isinstance(axis, Range):
        number = cast("float", value)
        return int(number) if axis.whole else float(number)
    return cast("Plain", value)
