"""Texts that depend on a number."""

from __future__ import annotations


def counted(count: int, noun: str, many: str = "") -> str:
    """A number with its noun, as in "1 pair", "3 pairs"; `many` is the plural where it does not end in s."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def at_most(commands: int) -> str:
    """The speed that a goal asks for, as in " with a median of at most 50 commands"; empty for 0, no limit."""
    return f" with a median of at most {counted(commands, 'command')}" if commands else ""


def goal_share(success: float, by: str) -> str:
    """The success of a goal, as in "at least 97.5%" where the exact lower bound must reach it (`by` is "bound")."""
    return f"{'at least ' if by == 'bound' else ''}{success:.1%}"


def within(limit_ticks: int) -> str:
    """The time limit of a success, as in " within 160 commands"; empty for 0, not recorded."""
    return f" within {counted(limit_ticks, 'command')}" if limit_ticks else ""


def median_text(median: float | None, low: int | None, high: int | None) -> str:
    """A median number of commands with its interval, as in "median 61 commands [58, 63]"; empty without one."""
    if median is None:
        return ""
    interval = "" if low is None or high is None else f" [{low}, {high}]"
    return f"median {median:g} commands{interval}"
