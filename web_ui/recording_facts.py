"""Facts that only the recordings of episodes have, for the filters of the list: p_v at the start, interventions."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from enpire.errors import FileProblem
from enpire.ids import file_name
from enpire.service.reading import Page, Records
from enpire.service.recordings import unpack
from enpire.types import SOURCE_HUMAN

MOST = 2000
"""Newest episodes of a selection whose recordings are read."""
KEPT = 20_000
"""Episodes whose facts stay in memory."""
LOW, HIGH = 0.3, 0.7
"""p_v at the start is low below LOW, high from HIGH on, and middle between."""
Predicted = Literal["", "low", "middle", "high"]
Intervened = Literal["", "with", "without"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of one recording."""

    p_v: float | None
    """Predicted probability of success at the first decision; None where no critic gave one."""
    intervened: bool
    """Whether an operator moved the robot in some frame."""

    def fits(self, p_v: Predicted, interventions: Intervened) -> bool:
        """Whether it passes the filters; an empty filter passes all."""
        known = "" if self.p_v is None else "low" if self.p_v < LOW else "high" if self.p_v >= HIGH else "middle"
        return p_v in ("", known) and interventions in ("", "with" if self.intervened else "without")


class RecordingFacts:
    """The facts of the episodes of one home, each read once. Thread-safe."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._known: dict[str, Facts] = {}

    def among(self, records: Records, page: Page, p_v: Predicted, interventions: Intervened) -> tuple[str, ...]:
        """The episodes of a page's selection, among its newest MOST, that pass the filters."""
        rows = records.reading.episodes(replace(page, before="", limit=MOST))
        found: list[str] = []
        for row in rows:
            facts = self._of(row.order.campaign_id, row.order.order_id)
            if facts is not None and facts.fits(p_v, interventions):
                found.append(row.order.order_id)
        return tuple(found)

    def _of(self, campaign_id: str, order_id: str) -> Facts | None:
        """The facts of one episode; None where it has no recording that can be read."""
        if (known := self._known.get(order_id)) is not None:
            return known
        folder = self._home / "episodes" / file_name(campaign_id, "a campaign") / file_name(order_id, "an episode")
        try:
            arrays = unpack((folder / "arrays.npz").read_bytes())
        except (FileProblem, OSError):
            return None
        found = Facts(p_v=_first(folder / "figures.json"), intervened=bool((arrays.source == SOURCE_HUMAN).any()))
        with self._lock:
            if len(self._known) >= KEPT:
                self._known.clear()
            if found.p_v is not None:  # a critic may judge it later
                self._known[order_id] = found
        return found


def _first(path: Path) -> float | None:
    """The first p_v of a file of critic outputs; None where it has none."""
    try:
        content = json.loads(path.read_bytes())
        values = cast("list[object]", content["p_v"])
        first = next(value for value in values if isinstance(value, int | float))
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    return float(first)
