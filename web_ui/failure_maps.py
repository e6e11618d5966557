"""Keeps the newest computed maps of failures: one costs up to a second and is asked for again by every filter."""

from __future__ import annotations

import threading
import time

from enpire.queries.failure_models import FailureCluster
from enpire.service.failures import Selection, WhereItFails, task_spec, where_it_fails
from enpire.service.reading import Records, history

FRESH_S = 60.0
"""Age up to which a map is shown again, in seconds."""
CLUSTERS_S = 900.0
"""The same for the numbers of clusters, so that the pages of one list agree."""
MOST = 16
"""Most maps that are kept."""
type Key = tuple[Selection, tuple[int, int] | None]


class FailureMaps:
    """Computed maps by selection and axes. Thread-safe; one map is computed at a time."""

    def __init__(self) -> None:
        self._kept: dict[Key, tuple[float, WhereItFails]] = {}
        self._lock = threading.Lock()

    def get(self, records: Records, wanted: Selection, axes: tuple[int, int] | None) -> WhereItFails:
        """The map of a selection, computed again when it is older than FRESH_S."""
        with self._lock:
            now = time.monotonic()
            made_s, found = self._kept.get((wanted, axes), (0.0, None))
            if found is None or now - made_s > FRESH_S:
                spec = task_spec(history(records, wanted.campaign_id).task)
                found = where_it_fails(records, wanted, spec, axes)
                self._kept.pop((wanted, axes), None)
                self._kept[wanted, axes] = (now, found)
                while len(self._kept) > MOST:
                    del self._kept[next(iter(self._kept))]
            return found

    def clusters(self, records: Records, wanted: Selection) -> tuple[FailureCluster, ...]:
        """The clusters of a selection, with the numbers of the newest map that was shown of it."""
        with self._lock:
            now = time.monotonic()
            for (selection, _), (made_s, found) in reversed(self._kept.items()):
                if selection == wanted and now - made_s < CLUSTERS_S:
                    return found.clusters
        return self.get(records, wanted, None).clusters
