"""Lower bounds of the numbers in a recipe; a violation is one sentence."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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


def require_default(settings: DataclassInstance, names: str, why: str) -> None:
    """ValueError for the first setting of `names` (spaces between) that is not at its default, with `why`."""
    for item in fields(settings):
        if item.name in names.split() and getattr(settings, item.name) != item.default:
            raise ValueError(f"{item.name} changes nothing here, because {why}; leave it out.")
