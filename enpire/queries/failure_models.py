"""The documents of the page that shows where a policy fails."""

from __future__ import annotations

from dataclasses import dataclass

from enpire.queries.success_models import Success


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAxis:
    """One start value."""

    name: str
    low: float
    high: float
    spread: float
    """Share of the variance of success that lies between eight bins of this value, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCell:
    """One cell of the map of start values."""

    column: int
    row: int
    success: Success
    failed: tuple[str, ...]
    """Its newest failures, at most five."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMap:
    """Success over two start values; a task with one start value has one row."""

    x: int
    """Index of the axis of the columns."""
    y: int
    """Index of the axis of the rows; -1 for a task with one start value."""
    bins: int
    """Columns of the map, and its rows unless `y` is -1. Bins have equal width over the range of the axis."""
    cells: tuple[StartCell, ...]
    """Cells with at least one episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCluster:
    """Failures that ended alike."""

    number: int
    """From 1, the largest first."""
    n: int
    share: float
    """Of the failures that were compared, in (0, 1]."""
    outcome: str
    cause: str
    """The verifier's reason, with `#` for numbers; empty where it gives none."""
    what: str
    """How its last states differ from those of successes, in words; empty without successes."""
    example: str
    """The episode nearest to its middle."""
    stations: tuple[tuple[str, int], ...]
    order_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHint:
    """One thing to look at next."""

    sentence: str
    link: str
    """Where the page shows it: `cell COLUMN ROW`, `cluster NUMBER`, `station NAME` or `labels`."""
    order_id: str
    """An example; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhereItFails:
    """Success by start, station and version, and the clusters of failures, of the selected episodes."""

    campaign_id: str
    policy_id: str
    """The version; empty for all."""
    starts: str
    station: str
    success: Success
    """Of all selected episodes."""
    is_cut: bool
    """Whether older episodes were left out."""
    axes: tuple[StartAxis, ...]
    map: StartMap | None
    """None without start values."""
    stations: tuple[Success, ...]
    versions: tuple[Success, ...]
    clusters: tuple[FailureCluster, ...]
    compared: int
    """Failures that the clusters were made of: the newest recorded ones."""
    hints: tuple[FailureHint, ...]
