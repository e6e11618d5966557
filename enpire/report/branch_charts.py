"""Chart of the branches in the report: gain on train starts over the robot time of each branch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from enpire.queries.branch_models import BranchesView, BranchView
from enpire.queries.branch_texts import minutes

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 14, 40
COLOURS = 8
"""CSS classes `branch-0`, `branch-1`, ... of the report."""


def gains(view: BranchesView) -> Markup:
    """The gain of each version of each branch, with 80 % intervals, over the robot time that the branch had used."""
    drawn = [one for one in view.branches if one.curve]
    if not drawn:
        return Markup('<p class="quiet">No version of a branch has acted on enough train starts yet.</p>')
    points = [point for one in drawn for point in one.curve]
    last_s = max(point.robot_s for point in points) or 1.0
    reach = max(1, math.ceil(10 * max(abs(end) for point in points for end in (point.low, point.high)))) / 10
    parts = [_axes(last_s, reach), *(_curve(one, last_s, reach) for one in drawn)]
    label = "Gain of each branch over its robot time; the table below has the newest version of each"
    return Markup('<svg class="picture" role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>').format(
        label, WIDTH, HEIGHT, Markup("").join(parts)
    )


def legend(branches: Sequence[BranchView]) -> Markup:
    """The branches of the chart with their colours."""
    items = [
        Markup('<li><span class="key branch-{}"></span>{} {}</li>').format(_colour(one), one.number, one.regime)
        for one in branches
        if one.curve
    ]
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


def _colour(one: BranchView) -> int:
    return (one.number - 1) % COLOURS


def _x(robot_s: float, last_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * robot_s / last_s


def _y(gain: float, reach: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (reach - gain) / (2 * reach)


def _axes(last_s: float, reach: float) -> Markup:
    lines = [
        Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="tick" x="{}" y="{}">{}</text>').format(
            LEFT, WIDTH - RIGHT, f"{_y(gain, reach):.1f}", f"{_y(gain, reach):.1f}", 4, f"{_y(gain, reach) + 4:.1f}",
            f"{gain:+.2f}",
        )
        for gain in (-reach, -reach / 2, 0.0, reach / 2, reach)
    ]  # fmt: skip
    ticks = [
        Markup('<text class="tick middle" x="{}" y="{}">{}</text>').format(
            f"{_x(share * last_s, last_s):.1f}", HEIGHT - 20, f"{share * last_s / 60:.1f}"
        )
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    name = Markup('<text class="tick middle" x="{}" y="{}">robot-minutes of the branch</text>').format(
        WIDTH // 2, HEIGHT - 4
    )
    return Markup("").join([*lines, *ticks, name])


def _curve(one: BranchView, last_s: float, reach: float) -> Markup:
    places = [(_x(point.robot_s, last_s), _y(point.mean, reach), point) for point in one.curve]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    marks = [
        Markup(
            '<g class="point"><title>branch {}: gain {} after {}</title><line x1="{}" x2="{}" y1="{}" y2="{}"/>'
            '<circle cx="{}" cy="{}" r="4"/></g>'
        ).format(
            one.number, f"{point.mean:+.3f} [{point.low:+.3f}, {point.high:+.3f}]", minutes(point.robot_s), f"{x:.1f}",
            f"{x:.1f}", f"{_y(point.low, reach):.1f}", f"{_y(point.high, reach):.1f}", f"{x:.1f}", f"{y:.1f}",
        )
        for x, y, point in places
    ]  # fmt: skip
    return Markup('<g class="branch branch-{}"><polyline class="line" points="{}"/>{}</g>').format(
        _colour(one), path, Markup("").join(marks)
    )
