"""Where a policy fails: success over the start space, by station and by version, and what to look at next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from enpire.gate.intervals import newcombe, wilson
from enpire.ids import file_name
from enpire.queries.campaigns import Records
from enpire.queries.failure_clusters import clusters_of
from enpire.queries.failure_models import FailureCluster, FailureHint, StartAxis, StartCell, StartMap, WhereItFails
from enpire.queries.gates import success
from enpire.queries.success_models import Success
from enpire.store.start_rows import MOST, Selection, StartRow, start_rows
from enpire.types import TaskSpec

LEAST = 10
"""Fewest episodes of a rate that is shown or compared."""
MOST_BINS = 10
_USUAL = 16
"""Episodes that a cell should hold in the mean."""
_SPREAD_BINS = 8
_MOST_HINTS = 5
_MOST_FAILED = 5


def where_it_fails(
    records: Records, wanted: Selection, spec: TaskSpec | None, axes: tuple[int, int] | None = None
) -> WhereItFails:
    """Success and failures of the selected episodes.

    Args:
        records: of the home.
        wanted: the campaign, and which of its episodes.
        spec: of its task; None when the task is not installed here, then values have no names.
        axes: start values of the columns and the rows; None selects those on which success depends most.
    """
    rows = start_rows(records.reading, wanted, MOST + 1)
    is_cut, rows = len(rows) > MOST, rows[:MOST]
    folder = records.home / "episodes" / file_name(wanted.campaign_id, "a campaign")
    found = clusters_of(rows, folder, spec.state if spec else ())
    values = _axes(rows, spec)
    drawn = _map(rows, values, axes) if values else None
    stations = _by(rows, lambda row: row.station)
    return WhereItFails(
        campaign_id=wanted.campaign_id,
        policy_id=wanted.policy_id,
        starts=wanted.starts,
        station=wanted.station,
        success=_rate(rows),
        is_cut=is_cut,
        axes=values,
        map=drawn,
        stations=stations,
        versions=_by(rows, lambda row: row.policy_id),
        clusters=found,
        compared=sum(one.n for one in found),
        hints=tuple(_hints(rows, values, drawn, stations, found))[:_MOST_HINTS],
    )


def _rate(rows: Sequence[StartRow], name: str = "") -> Success:
    return success(name, sum(row.outcome == "success" for row in rows), len(rows))


def _by(rows: Sequence[StartRow], name: Callable[[StartRow], str]) -> tuple[Success, ...]:
    """The success of each group, the lowest first."""
    groups: dict[str, list[StartRow]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    rates = [_rate(group, key) for key, group in groups.items()]
    return tuple(sorted(rates, key=lambda one: (one.success, one.id)))


def _axes(rows: Sequence[StartRow], spec: TaskSpec | None) -> tuple[StartAxis, ...]:
    width = min((len(row.values) for row in rows), default=0)
    names = spec.start_names if spec and len(spec.start_names) == width else ()
    axes: list[StartAxis] = []
    for index in range(width):
        column = [row.values[index] for row in rows]
        low, high = min(column), max(column)
        axes.append(
            StartAxis(
                name=names[index] if names else f"start value {index + 1}",
                low=low, high=high, spread=_spread(rows, index, low, high),
            )
        )  # fmt: skip
    return tuple(axes)


def _bin(value: float, low: float, high: float, bins: int) -> int:
    return min(bins - 1, max(0, math.floor(bins * (value - low) / (high - low)))) if high > low else 0


def _spread(rows: Sequence[StartRow], index: int, low: float, high: float) -> float:
    """The correlation ratio of success and one start value, without the part that chance alone would give."""
    overall = _rate(rows).success or 0.0
    if not 0 < overall < 1 or len(rows) <= _SPREAD_BINS:
        return 0.0
    groups: dict[int, list[StartRow]] = {}
    for row in rows:
        groups.setdefault(_bin(row.values[index], low, high, _SPREAD_BINS), []).append(row)
    rates = ((len(group), _rate(group).success or 0.0) for group in groups.values())
    between = sum(n * (rate - overall) ** 2 for n, rate in rates) / (len(rows) * overall * (1 - overall))
    return min(1.0, max(0.0, between - (len(groups) - 1) / len(rows)))


def _map(rows: Sequence[StartRow], axes: Sequence[StartAxis], wanted: tuple[int, int] | None) -> StartMap:
    ranked = sorted(range(len(axes)), key=lambda index: (-axes[index].spread, index))
    x, y = sorted(ranked[:2]) if len(ranked) > 1 else (0, -1)
    if wanted is not None and all(0 <= one < len(axes) for one in wanted) and wanted[0] != wanted[1]:
        x, y = wanted
    per_axis = len(rows) / _USUAL if y < 0 else math.sqrt(len(rows) / _USUAL)
    bins = max(2, min(MOST_BINS, int(per_axis)))
    groups: dict[tuple[int, int], list[StartRow]] = {}
    for row in rows:
        column, line = (
            _bin(row.values[index], axes[index].low, axes[index].high, bins) if index >= 0 else 0 for index in (x, y)
        )
        groups.setdefault((column, line), []).append(row)
    cells = tuple(
        StartCell(
            column=column, row=line, success=_rate(group),
            failed=tuple(row.order_id for row in group if row.outcome != "success")[:_MOST_FAILED],
        )
        for (column, line), group in sorted(groups.items())
    )  # fmt: skip
    return StartMap(x=x, y=y, bins=bins, cells=cells)


def _hints(
    rows: Sequence[StartRow],
    axes: Sequence[StartAxis],
    drawn: StartMap | None,
    stations: Sequence[Success],
    clusters: Sequence[FailureCluster],
) -> Iterator[FailureHint]:
    """What to look at next: differences whose interval excludes 0 after Bonferroni's correction, then clusters."""
    overall = _rate(rows)
    if drawn is not None:
        yield from _worst_cell(overall, axes, drawn)
    yield from _worst_station(rows, overall, stations)
    for one in clusters[:2]:
        if one.n >= LEAST and one.share >= 0.2:
            how = ": ".join(part for part in (one.cause, one.what) if part) or f"ended as {one.outcome}"
            yield FailureHint(
                sentence=f"{one.n} of the {round(one.n / one.share)} failures that were compared are alike: {how}.",
                link=f"cluster {one.number}", order_id=one.example,
            )  # fmt: skip
    wrong = [row for row in rows if row.person_outcome and row.person_outcome != row.outcome]
    if wrong:
        yield FailureHint(
            sentence=f"In {len(wrong)} of these episodes the label differs from the verifier's verdict.",
            link="labels", order_id=wrong[0].order_id,
        )  # fmt: skip
    unsafe = [row for row in rows if row.outcome == "unsafe"]
    if unsafe:
        yield FailureHint(
            sentence=f"{len(unsafe)} of these episodes were unsafe.", link="unsafe", order_id=unsafe[0].order_id
        )


def _worst_cell(overall: Success, axes: Sequence[StartAxis], drawn: StartMap) -> Iterator[FailureHint]:
    enough = [cell for cell in drawn.cells if cell.success.n >= LEAST and cell.failed]
    worse = [cell for cell in enough if _is_lower(cell.success, overall, len(enough))]
    worst = min(worse, key=lambda cell: cell.success.success or 0.0, default=None)
    if worst is not None:
        at = " and ".join(
            _range(axes[index], place, drawn.bins)
            for index, place in ((drawn.x, worst.column), (drawn.y, worst.row))
            if index >= 0
        )
        yield FailureHint(
            sentence=f"Starts with {at} succeed less: {_text(worst.success)}; all starts {_text(overall)}.",
            link=f"cell {worst.column} {worst.row}", order_id=worst.failed[0],
        )  # fmt: skip


def _worst_station(rows: Sequence[StartRow], overall: Success, stations: Sequence[Success]) -> Iterator[FailureHint]:
    enough = [one for one in stations if one.n >= LEAST and one.n < overall.n]
    worst = next((one for one in enough if _is_lower(one, overall, len(enough))), None)
    if worst is not None:
        failed = next(row.order_id for row in rows if row.station == worst.id and row.outcome != "success")
        yield FailureHint(
            sentence=f"Station {worst.id} succeeds less: {_text(worst)}; all stations {_text(overall)}. "
            "Compare its cameras and its reset with another station's.",
            link=f"station {worst.id}", order_id=failed,
        )  # fmt: skip


def _is_lower(part: Success, overall: Success, tests: int) -> bool:
    """Whether a part succeeds less than the rest, at a level of 5 % over all tests."""
    confidence = 1 - 0.05 / max(1, tests)
    rest = wilson(overall.successes - part.successes, overall.n - part.n, confidence)
    if not rest.n:
        return False
    return newcombe(wilson(part.successes, part.n, confidence), rest)[1] < 0


def _range(axis: StartAxis, place: int, bins: int) -> str:
    width = (axis.high - axis.low) / bins
    return f"{axis.name} from {axis.low + place * width:.3g} to {axis.low + (place + 1) * width:.3g}"


def _text(of: Success) -> str:
    return f"{of.success or 0:.1%} [{of.low:.1%}, {of.high:.1%}] of {of.n}".replace("%", " %")
