"""The time axis of one episode for the viewer: curves, segments, decisions, events.

Beside `arrays.npz` an episode's folder may hold `figures.json`, what the critics thought of it:
{"p_v": [...], "V_e": [...], "g": [...]}, each with one number (or null) per decision;
a frame that no policy commanded is a decision of its own.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem, MissingExtra, UnknownName
from enpire.interfaces import Task
from enpire.plugins import load
from enpire.service.reading import OrderRow
from enpire.service.recordings import decision_of, unpack
from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY, SOURCE_RESET, Bounds, EpisodeArrays, TaskSpec

SOURCES = {SOURCE_POLICY: "policy", SOURCE_HUMAN: "human", SOURCE_RESET: "reset", SOURCE_EXPERT: "expert"}
FIGURES = {"p_v": "probability of success", "V_e": "decisions to success (negative)", "g": "weight"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One named number over the frames shown."""

    name: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A segment: frames first..last (inclusive) with one source of actions."""

    first: int
    last: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened at one frame."""

    tick: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One episode on its time axis."""

    rate_hz: float | None
    """None when the task is not installed here; then time is shown in frames."""
    frames: int
    tick: tuple[int, ...]
    """The frames shown; all curves have this length."""
    state: tuple[Curve, ...]
    action: tuple[Curve, ...]
    figures: tuple[Curve, ...]
    """p_v, V_e, g where they were recorded; empty otherwise."""
    segments: tuple[Span, ...]
    decisions: tuple[int, ...]
    """Frames at which the policy decided."""
    events: tuple[Mark, ...]


def read_series(folder: Path, row: OrderRow, points: int) -> Series:
    """The series of one order; UnknownName when nothing was recorded, FileProblem when the file is damaged."""
    if row.episode is None:
        raise UnknownName(f"The episode {row.order.order_id} has not ended yet: its recording comes with its end.")
    path = folder / "arrays.npz"
    if not path.is_file():
        raise UnknownName(f"Nothing was recorded of the episode {row.order.order_id}.")
    arrays = unpack(path.read_bytes())
    frames = len(arrays.action)
    shown = np.arange(0, frames, max(1, math.ceil(frames / points)))
    spec = _spec(row.order.task)
    attempts = row.episode.attempts if row.episode else ()
    return Series(
        rate_hz=spec.rate_hz if spec else None,
        frames=frames,
        tick=tuple(int(tick) for tick in shown),
        state=_curves(arrays.state[:-1], shown, spec.state if spec else (), "state"),
        action=_curves(arrays.action, shown, spec.action if spec else (), "action"),
        figures=_figures(folder / "figures.json", arrays, shown),
        segments=_segments(arrays.source),
        decisions=tuple(int(tick) for tick in _decisions(arrays)),
        events=tuple(Mark(tick=tick, name=f"attempt {number + 2}") for number, tick in enumerate(attempts)),
    )


@functools.lru_cache(maxsize=16)
def _spec(task: str) -> TaskSpec | None:
    """Names and units of a task; loading one may take seconds, once. None when it is not installed here."""
    try:
        made = cast(type[Task], load("tasks", task))()
    except (UnknownName, MissingExtra):
        return None
    return made.spec


def _curves(
    values: npt.NDArray[np.float32], shown: npt.NDArray[np.int_], bounds: tuple[Bounds, ...], noun: str
) -> tuple[Curve, ...]:
    named = bounds if len(bounds) == values.shape[1] else ()
    return tuple(
        Curve(
            name=named[column].name if named else f"{noun} {column}",
            unit=named[column].unit if named else "",
            values=_numbers(values[shown, column]),
        )
        for column in range(values.shape[1])
    )


def _numbers(values: npt.NDArray[np.floating]) -> tuple[float | None, ...]:
    return tuple(float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist())


def _segments(source: npt.NDArray[np.uint8]) -> tuple[Span, ...]:
    if not len(source):
        return ()
    edges = [0, *(np.flatnonzero(np.diff(source)) + 1).tolist(), len(source)]
    return tuple(
        Span(first=first, last=end - 1, source=SOURCES.get(int(source[first]), "unknown"))
        for first, end in itertools.pairwise(edges)
    )


def _decisions(arrays: EpisodeArrays) -> npt.NDArray[np.int_]:
    """Frames at which a new policy decision begins."""
    chunk = arrays.chunk
    begins = np.flatnonzero(np.diff(chunk, prepend=np.int32(-1)) != 0)
    return begins[chunk[begins] >= 0]


def _is_row(row: object, decided: int) -> bool:
    most = sys.float_info.max
    return (
        isinstance(row, list)
        and len(row) == decided
        and all(
            value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) <= most)
            for value in row
        )
    )


def _figures(path: Path, arrays: EpisodeArrays, shown: npt.NDArray[np.int_]) -> tuple[Curve, ...]:
    """The critics' figures, one value per decision, held until the next."""
    if not path.is_file():
        return ()
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise FileProblem(f"{path} cannot be read: {problem}.") from problem
    index = decision_of(arrays.chunk)
    decided = int(index[-1]) + 1 if len(index) else 0
    if not isinstance(said, dict) or not all(_is_row(row, decided) for row in said.values()):
        raise FileProblem(f"{path} must hold one list of {decided} numbers per figure: record it again.")
    curves: list[Curve] = []
    for name in (name for name in FIGURES if name in said):
        held = np.array([math.nan if value is None else float(value) for value in said[name]] + [math.nan])
        values = held[index]
        curves.append(Curve(name=name, unit=FIGURES[name], values=_numbers(values[shown])))
    return tuple(curves)
