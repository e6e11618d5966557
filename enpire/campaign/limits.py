"""Changes of the goal and the budget of a running campaign, as one line: `budget.wall_s=7200 goal.success=0.97`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from enpire.campaign.campaign import Budget, Campaign, Goal
from enpire.errors import FileProblem, UsageError
from enpire.files import parse

Limits = Mapping[str, Mapping[str, float]]
"""Section of the campaign file (`goal`, `budget`) -> key -> value."""
CHANGEABLE: Mapping[str, tuple[str, ...]] = {"goal": ("success", "commands"), "budget": ("wall_s", "rounds", "robot_s")}
"""What an operator may change while the campaign runs. The number of fresh starts is fixed before the first look."""
WHOLE = frozenset({"commands", "rounds"})
"""Keys whose values are whole numbers."""


def read_limits(text: str) -> Limits:
    """The changes of one line.

    Raises:
        UsageError: it names another key, or no number.
    """
    found: dict[str, dict[str, float]] = {}
    for word in text.split():
        path, _, value = word.partition("=")
        section, _, key = path.partition(".")
        if key not in CHANGEABLE.get(section, ()):
            allowed = ", ".join(f"{one}.{name}" for one, names in CHANGEABLE.items() for name in names)
            raise UsageError(f"{word[:60]!r} changes no limit; a running campaign takes KEY=NUMBER with {allowed}.")
        try:
            found.setdefault(section, {})[key] = int(value) if key in WHOLE else float(value)
        except ValueError:
            kind = "a whole number" if key in WHOLE else "a number"
            raise UsageError(f"{path} takes {kind}, not {value[:40]!r}.") from None
    if not found:
        raise UsageError("No limit is named; write for example budget.wall_s=7200.")
    return found


def limits_text(limits: Limits) -> str:
    """The changes as one line."""
    return " ".join(f"{section}.{key}={value:.10g}" for section, keys in limits.items() for key, value in keys.items())


def merged(before: Limits, now: Limits) -> Limits:
    """Both changes; the newer value of a key counts."""
    return {name: {**before.get(name, {}), **now.get(name, {})} for name in CHANGEABLE if {**before, **now}.get(name)}


def with_limits(campaign: Campaign, limits: Limits) -> Campaign:
    """The campaign with changed limits.

    Raises:
        UsageError: a value is out of range.
    """
    try:
        goal = parse(Goal, {**asdict(campaign.goal), **limits.get("goal", {})}, "The changed goal")
        budget = parse(Budget, {**asdict(campaign.budget), **limits.get("budget", {})}, "The changed budget")
        return replace(campaign, goal=goal, budget=budget)
    except (FileProblem, ValueError) as problem:
        raise UsageError(str(problem)) from problem
