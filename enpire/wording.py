"""Words that depend on numbers."""

from __future__ import annotations


def counted(count: int, noun: str, many: str = "") -> str:
    """A number with its noun; `many` where the plural is not the noun with an s."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"
