"""One episode on a time axis for the page: curves, segments, decisions, events.

The folder of an episode may contain the critic outputs in `figures.json`: {"p_v": [...], "V_e": [...], "g": [...]},
each with one number (or null) per decision. A frame without a policy's action counts as one decision.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem, UnknownName
from enpire.service.failures import task_spec
from enpire.service.reading import OrderRow
from enpire.service.recordings import decision_of, unpack
from enpire.types import SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY, SOURCE_RESET, Bounds, EpisodeArrays

SOURCES = {SOURCE_POLICY: "policy", SOURCE_HUMAN: "human", SOURCE_RESET: "reset", SOURCE_EXPERT: "expert"}
CRITIC_OUTPUTS = {"p_v": "probability of success", "V_e": "decisions to success (negative)", "g": "weight"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One named value over the shown frames."""

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
    """An event at one frame."""

    tick: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One episode on its time axis."""

    rate_hz: float | None
    """Frames per second; None when the task is not installed here, then the page shows time in frames."""
    frames: int
    tick: tuple[int, ...]
    """Numbers of the shown frames; all curves have this length."""
    state: tuple[Curve, ...]
    action: tuple[Curve, ...]
    figures: tuple[Curve, ...]
    """Critic outputs p_v, V_e, g, where they were recorded."""
    segments: tuple[Span, ...]
    decisions: tuple[int, ...]
    """Frames at which a new decision of the policy begins."""
    events: tuple[Mark, ...]


def read_series(folder: Path, row: OrderRow, points: int) -> Series:
    """The series of one order, thinned to at most `points` frames.

    Raises:
        UnknownName: the episode has not ended, or has no recording.
        FileProblem: a file is damaged.
    """
    if row.episode is None:
        raise UnknownName(f"The episode {row.order.order_id} has not ended yet; its recording arrives when it ends.")
    path = folder / "arrays.npz"
    if not path.is_file():
        raise UnknownName(f"Nothing was recorded of the episode {row.order.order_id}.")
    arrays = unpack(path.read_bytes())
    frames = len(arrays.action)
    shown = np.arange(0, frames, max(1, math.ceil(frames / points)))
    spec = task_spec(row.order.task)
    attempts = row.episode.attempts if row.episode else ()
    return Series(
        rate_hz=spec.rate_hz if spec else None,
        frames=frames,
        tick=tuple(int(tick) for tick in shown),
        state=_curves(arrays.state[:-1], shown, spec.state if spec else (), "state"),
        action=_curves(arrays.action, shown, spec.action if spec else (), "action"),
        figures=_critic_outputs(folder / "figures.json", arrays, shown),
        segments=_segments(arrays.source),
        decisions=tuple(int(tick) for tick in _decisions(arrays)),
        events=tuple(Mark(tick=tick, name=f"attempt {number + 2}") for number, tick in enumerate(attempts)),
    )


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


def _critic_outputs(path: Path, arrays: EpisodeArrays, shown: npt.NDArray[np.int_]) -> tuple[Curve, ...]:
    """The critic outputs: one value per decision, held until the next decision."""
    if not path.is_file():
        return ()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise FileProblem(f"{path} cannot be read: {problem}.") from problem
    index = decision_of(arrays.chunk)
    decided = int(index[-1]) + 1 if len(index) else 0
    if not isinstance(content, dict) or not all(_is_row(row, decided) for row in content.values()):
        raise FileProblem(
            f"{path} must contain lists of {decided} numbers each; delete the file or record the episode again."
        )
    curves: list[Curve] = []
    for name in (name for name in CRITIC_OUTPUTS if name in content):
        held = np.array([math.nan if value is None else float(value) for value in content[name]] + [math.nan])
        values = held[index]
        curves.append(Curve(name=name, unit=CRITIC_OUTPUTS[name], values=_numbers(values[shown])))
    return tuple(curves)
