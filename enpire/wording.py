"""Nouns that depend on a number."""

from __future__ import annotations


def counted(count: int, noun: str, many: str = "") -> str:
    """A number with its noun, as in "1 pair", "3 pairs"; `many` is the plural where it does not end in s."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"
