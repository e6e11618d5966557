"""Lower bounds of the numbers in a recipe; a violation is one sentence."""

from __future__ import annotations


def at_least(least: int, settings: object, names: str) -> None:
    """ValueError for the first setting of `names` (spaces between) that is below `least`."""
    for name in names.split():
        if getattr(settings, name) < least:
            raise ValueError(f"{name} is {getattr(settings, name)}; it must be at least {least}.")


def above_zero(settings: object, names: str) -> None:
    """ValueError for the first setting of `names` (spaces between) that is 0 or less."""
    for name in names.split():
        if getattr(settings, name) <= 0:
            raise ValueError(f"{name} is {getattr(settings, name)}; it must be above 0.")
