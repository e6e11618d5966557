"""The words of a gate's reason, for terminal, tables, report and page."""

from __future__ import annotations

from collections.abc import Mapping

REASON_TEXTS: Mapping[str, str] = {"spent": "pairs exhausted", "hopeless": "futility"}
"""Reason as ledgers store it -> its words, where they differ."""


def reason_text(reason: str) -> str:
    """The words of a stored reason."""
    return REASON_TEXTS.get(reason, reason)
