"""Charts of the hypotheses in the report: the interval of every decided experiment, on a common scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from enpire.queries.models import ExperimentView, IdeaView

WIDTH, HEIGHT = 180, 22
MARKS = {"keep": "▲", "revert": "▼", "inconclusive": "="}


def reach(ideas: Sequence[IdeaView]) -> float:
    """End of the common scale: the smallest of 0.1, 0.2, ... 1.0 that contains every interval."""
    ends = [
        abs(end)
        for idea in ideas
        for item in idea.experiments
        for end in (item.low, item.high, item.delta)
        if end is not None
    ]
    return min(1.0, max(1, math.ceil(10 * max(ends, default=0.0) - 1e-9)) / 10)


def interval(view: ExperimentView, reach: float) -> Markup:
    """The difference in success with its interval, on a scale from -reach to +reach; empty until decided."""
    if view.delta is None or view.low is None or view.high is None:
        return Markup("")
    low, at, high = (f"{_x(value, reach):.1f}" for value in (view.low, view.delta, view.high))
    middle, bottom = HEIGHT / 2, HEIGHT
    label = f"{100 * view.delta:+.1f} points, between {100 * view.low:+.1f} and {100 * view.high:+.1f}"
    return Markup(
        '<svg class="difference {}" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">'
        '<title>{}</title><line class="zero" x1="{}" x2="{}" y1="0" y2="{}"/><line x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<circle cx="{}" cy="{}" r="4.5"/></svg>'
    ).format(
        view.decision, label, WIDTH, HEIGHT, WIDTH, HEIGHT, label, WIDTH / 2, WIDTH / 2, bottom, low, high, middle,
        middle, at, middle,
    )  # fmt: skip


def scale(reach: float) -> Markup:
    """The labels of the scale in the column's heading, in points."""
    end = f"{100 * reach:.0f}"
    ends = Markup("<span>-{}</span><span>0</span><span>+{}</span>").format(end, end)
    return Markup('<span class="scale">{}</span>').format(ends)


def mark(decision: str) -> str:
    """A symbol for a decision, so that colour is not the only difference."""
    return MARKS.get(decision, "…")


def _x(value: float, reach: float) -> float:
    return 6 + (WIDTH - 12) * (min(reach, max(-reach, value)) + reach) / (2 * reach)
