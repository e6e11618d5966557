"""Charts of the report as inline SVG: learning curve, robot-time bar, lineage; and strips of camera images.

Colours are CSS classes of the report, so that the charts suit the dark and the light theme.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from enpire.queries.models import CampaignView, Confirm, StationView, VersionView
from enpire.queries.success_models import Success
from enpire.store import pictures
from enpire.types import PHASES
from enpire.wording import within

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 16, 40
FRAMES = 6
"""Most images of a strip."""
CAMERAS = 3
"""Most strips of one episode, one per camera."""
LARGEST_PICTURE_BYTES = 400_000
LEAST_TRIALS = 10
"""Fewest trials of a point on a chart of success."""
MARKS = {
    "champion": "promote",
    "former champion": "promote",
    "rolled back": "reject",
    "rejected": "reject",
    "held": "hold",
}
"""State of a version -> its marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One rate with its interval on the learning curve."""

    at: float
    rate: float
    low: float
    high: float
    label: str
    """Tooltip."""
    mark: str = ""
    """CSS class of the marker: promote, reject, hold, confirm."""


def learning_curve(view: CampaignView) -> Markup:
    """Success by round: collection on training starts (dotted), versions on hidden starts (solid), the confirmation.

    Fewer than LEAST_TRIALS trials make no point.
    """
    collections = ((item.round, item.collection) for item in view.rounds)
    search = [_point(at + 0.04, rate, "collection") for at, rate in collections if rate.n >= LEAST_TRIALS]
    gates = _hidden_points(view)
    if not search and not gates:
        return Markup('<p class="quiet">No trial has ended yet.</p>')
    last = max([1.0, *(point.at for point in [*search, *gates])])
    scale = Scale(last)
    parts = [_axes(scale, last, view.goal.success), _line(scale, search, "search"), _line(scale, _kept(gates), "gate")]
    parts += [_whisker(scale, point, "search") for point in search]
    parts += [_whisker(scale, point, f"gate {point.mark}") for point in gates]
    label = "Success by round with 95 % intervals; the table of rounds below has the same values"
    return _svg(WIDTH, HEIGHT, label, parts)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps rounds and rates to coordinates of the chart."""

    last: float

    def x(self, at: float) -> float:
        """x coordinate of a round."""
        return LEFT + (WIDTH - LEFT - RIGHT) * at / self.last

    def y(self, rate: float) -> float:
        """y coordinate of a rate in [0, 1]."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - rate)


def stack(robot_time: Mapping[str, float], label: str) -> Markup:
    """Seconds by phase as one bar."""
    total = sum(robot_time.values())
    if total <= 0:
        return Markup('<p class="quiet">No robot time was recorded.</p>')
    parts: list[Markup] = []
    at = 0.0
    for phase in PHASES:
        width = 100 * robot_time.get(phase, 0.0) / total
        if width > 0:
            parts.append(
                Markup(
                    '<rect class="phase-{}" x="{}%" width="{}%" y="0" height="26"><title>{} {}</title></rect>'
                ).format(phase, f"{at:.3f}", f"{width:.3f}", phase, f"{robot_time[phase]:.0f} s, {width:.1f} %")
            )
        at += width
    return Markup('<svg class="stack" role="img" aria-label="{}" width="100%" height="26">{}</svg>').format(
        label, Markup("").join(parts)
    )


def legend(robot_time: Mapping[str, float]) -> Markup:
    """The phases of a stack with their shares."""
    total = sum(robot_time.values()) or 1.0
    items = [
        Markup('<li><span class="key phase-{}"></span>{} {}</li>').format(
            phase, phase, f"{robot_time[phase] / total:.1%}"
        )
        for phase in PHASES
        if robot_time.get(phase, 0.0) > 0
    ]
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


def lineage(versions: Sequence[VersionView]) -> Markup:
    """The versions as a tree: one column per round, an arc from each parent to its child."""
    if not versions:
        return Markup('<p class="quiet">No version was made yet.</p>')
    rows: dict[int, int] = {}
    place: dict[str, tuple[float, float]] = {}
    for version in versions:
        row = rows.get(version.round, 0)
        rows[version.round] = row + 1
        place[version.id] = (40 + 110 * version.round, 34 + 56 * row)
    width, height = max(x for x, _ in place.values()) + 70, max(y for _, y in place.values()) + 44
    parts = [_arc(place[version.parent], place[version.id]) for version in versions if version.parent in place]
    parts += [_node(version, *place[version.id]) for version in versions]
    drawn = _svg(
        width, height, "Lineage of the versions; the table of versions has the same content", parts, fixed=True
    )
    return Markup('<div class="wide">{}</div>').format(drawn)


def image_strip(folder: str) -> Markup:
    """Camera images of one episode as data URLs, one row per camera; empty when there are none."""
    found = pictures.shown(Path(folder)) if folder else None
    if found is None:
        return Markup("")
    rows = [list(names) for _, names in groupby(found.names, lambda name: name.rpartition("_")[0])]
    return Markup("").join(_strip(found, row) for row in rows[:CAMERAS])


def _strip(found: pictures.Pictures, names: Sequence[str]) -> Markup:
    """Images of one camera, evenly spaced from the first to the last."""
    count = min(FRAMES, len(names))
    chosen = [names[round(index * (len(names) - 1) / max(1, count - 1))] for index in range(count)]
    frame = Markup('<figure><img alt="{0}" src="data:{1};base64,{2}"><figcaption>{0}</figcaption></figure>')
    frames = [
        frame.format(_caption(name), pictures.media_type(name), base64.b64encode(data).decode("ascii"))
        for name in chosen
        if len(data := found.bytes_of(name)) <= LARGEST_PICTURE_BYTES
    ]
    return Markup('<div class="strip">{}</div>').format(Markup("").join(frames))


def _caption(name: str) -> str:
    camera, _, tick = name.partition(".")[0].rpartition("_")
    return f"{camera}, frame {int(tick)}"


def state_curves(state: Sequence[Sequence[float]], names: Sequence[str]) -> Markup:
    """The recorded state of an episode, one small curve per dimension. `state` is (frames, dimensions)."""
    curves = [_curve([row[column] for row in state], name) for column, name in enumerate(names)]
    return Markup('<div class="strip">{}</div>').format(Markup("").join(curves))


def _curve(values: Sequence[float], name: str) -> Markup:
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    last = max(1, len(values) - 1)
    path = " ".join(
        f"{4 + 152 * index / last:.1f},{54 - 48 * (value - low) / span:.1f}" for index, value in enumerate(values)
    )
    return Markup(
        '<figure><svg viewBox="0 0 160 60" width="160" height="60" role="img" aria-label="{0}">'
        '<polyline class="curve" points="{1}"/></svg><figcaption>{0}: {2} to {3}</figcaption></figure>'
    ).format(name, path, f"{low:.3g}", f"{high:.3g}")


def utilisation(stations: Sequence[StationView]) -> Markup:
    """Table rows: utilisation and robot time of each station."""
    bars = [
        Markup("<tr><th>{}</th><td>{}</td><td>{}</td></tr>").format(
            station.id,
            "-" if station.utilisation is None else f"{station.utilisation:.0%}",
            stack(station.robot_time, f"Robot time of {station.id}"),
        )
        for station in stations
    ]
    return Markup("").join(bars)


def _point(at: float, rate: Success | Confirm, what: str, mark: str = "") -> Point:
    bound = f"{within(rate.limit_ticks)}, at least {rate.bound:.1%}" if isinstance(rate, Confirm) else ""
    label = f"{what}: {rate.success or 0.0:.1%} [{rate.low:.1%}, {rate.high:.1%}] of {rate.n}{bound}"
    return Point(at=at, rate=rate.success or 0.0, low=rate.low, high=rate.high, label=label, mark=mark)


def _hidden_points(view: CampaignView) -> list[Point]:
    points: list[Point] = []
    for version in view.versions:
        if version.hidden.n >= LEAST_TRIALS:
            label = f"{version.id[:12]}, round {version.round}, hidden starts ({version.state})"
            points.append(_point(version.round, version.hidden, label, MARKS.get(version.state, "hold")))
    if view.confirm is not None and view.confirm.n >= LEAST_TRIALS:
        after = max([point.at for point in points], default=0.0) + 0.5
        points.append(_point(after, view.confirm, "confirmation, fresh starts", "confirm"))
    return points


def _kept(points: Iterable[Point]) -> list[Point]:
    """The points of champions and of the confirmation."""
    return [point for point in points if point.mark in {"promote", "confirm"}]


def _axes(scale: Scale, last: float, goal: float) -> Markup:
    parts = [
        Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text class="tick" x="{}" y="{}">{}</text>').format(
            LEFT, WIDTH - RIGHT, f"{scale.y(rate):.1f}", f"{scale.y(rate):.1f}", LEFT - 44, f"{scale.y(rate) + 4:.1f}",
            f"{rate:.0%}",
        )
        for rate in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]  # fmt: skip
    step = max(1, round(last / 12))
    parts += [
        Markup('<text class="tick middle" x="{}" y="{}">{}</text>').format(f"{scale.x(at):.1f}", HEIGHT - 20, at)
        for at in range(0, int(last) + 1, step)
    ]
    parts.append(Markup('<text class="tick middle" x="{}" y="{}">round</text>').format(WIDTH // 2, HEIGHT - 4))
    if goal > 0:
        y = f"{scale.y(goal):.1f}"
        parts.append(Markup('<line class="goal" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, WIDTH - RIGHT, y, y))
    return Markup("").join(parts)


def _line(scale: Scale, points: Sequence[Point], name: str) -> Markup:
    path = " ".join(f"{scale.x(point.at):.1f},{scale.y(point.rate):.1f}" for point in points)
    return Markup('<polyline class="line {}" points="{}"/>').format(name, path)


def _whisker(scale: Scale, point: Point, name: str) -> Markup:
    x, y = f"{scale.x(point.at):.1f}", f"{scale.y(point.rate):.1f}"
    return Markup(
        '<g class="point {}"><title>{}</title><line x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<circle cx="{}" cy="{}" r="5"/></g>'
    ).format(name, point.label, x, x, f"{scale.y(point.low):.1f}", f"{scale.y(point.high):.1f}", x, y)


def _arc(parent: tuple[float, float], child: tuple[float, float]) -> Markup:
    (x0, y0), (x1, y1) = parent, child
    return Markup('<path class="edge" d="M {} {} C {} {}, {} {}, {} {}"/>').format(
        x0 + 10, y0, (x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1 - 10, y1
    )


def _node(version: VersionView, x: float, y: float) -> Markup:
    hidden = version.hidden
    rate = "-" if hidden.success is None else f"{hidden.success:.0%} of {hidden.n}"
    return Markup(
        '<g class="node {}"><title>{}</title><circle cx="{}" cy="{}" r="9"/>'
        '<text class="tick middle" x="{}" y="{}">{}</text><text class="tick middle" x="{}" y="{}">{}</text></g>'
    ).format(
        version.state.replace(" ", "-"),
        f"{version.id} ({version.state})",
        x,
        y,
        x,
        y - 15,
        version.id[:8],
        x,
        y + 25,
        rate,
    )


def _svg(width: float, height: float, label: str, parts: Sequence[Markup], *, fixed: bool = False) -> Markup:
    size = Markup(' width="{}" height="{}"').format(width, height) if fixed else Markup("")
    return Markup('<svg class="picture" role="img" aria-label="{}" viewBox="0 0 {} {}"{}>{}</svg>').format(
        label, width, height, size, Markup("").join(parts)
    )
