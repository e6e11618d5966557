"""What the tables of whole campaigns show of `enpire campaign show --json`: the confirmation, and what robots did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.intervals import Estimate, mean_of, rate_by_seed

type View = Mapping[str, Any]
ROBOTS = f"{'utilised':>8}  {'in motion':>9}  {'real time':>9}  {'used':>6}"
"""Head of the columns of `robots`."""


def confirmed(view: View) -> str:
    """Successes of the confirmation with their exact lower bound; `-` without one."""
    found = view["confirm"]
    return f"{found['successes']} of {found['n']}, at least {found['bound']:.1%}" if found and found["n"] else "-"


def robots(view: View) -> str:
    """Robot utilisation, share in motion, real-time factor, and the share of rollouts that something used."""
    factor = view["real_time_factor"]
    return (
        f"{_share(view['mru']):>8}  {_share(view['motion']):>9}  {'-' if factor is None else f'{factor:.1f}':>9}  "
        f"{_share(view['rollouts_used']['share']):>6}"
    )


def of_all(views: Sequence[View]) -> list[str]:
    """Confirmed success and what robots did over seeds, one view each, with intervals that are clustered by seed."""
    confirms = [view["confirm"] for view in views if view["confirm"] and view["confirm"]["n"]]
    lines: list[str] = []
    if confirms:
        rate = rate_by_seed([one["successes"] for one in confirms], [one["n"] for one in confirms])
        lines.append(f"confirmed success over seeds: {_interval(rate, len(confirms))}")
    for name, read in READ.items():
        values = [value for view in views if (value := read(view)) is not None]
        if values:
            lines.append(f"{name} over seeds: {_interval(mean_of(values), len(values), factor=name == FACTOR)}")
    return lines


FACTOR = "real-time factor"
READ: Mapping[str, Callable[[View], float | None]] = {
    "robot utilisation": lambda view: view["mru"],
    "robots in motion": lambda view: view["motion"],
    FACTOR: lambda view: view["real_time_factor"],
    "rollouts used": lambda view: view["rollouts_used"]["share"],
}


def _interval(found: Estimate, seeds: int, *, factor: bool = False) -> str:
    form = ".1f" if factor else ".1%"
    interval = f" [{found.low:{form}}, {found.high:{form}}]" if seeds > 1 else ""
    return f"{found.mean:{form}}{interval}, {seeds} seed{'s' * (seeds > 1)}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
