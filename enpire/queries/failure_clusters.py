"""Clusters of failures by the verifier's reason and by the state in which they ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem
from enpire.ids import file_name
from enpire.queries.failure_models import FailureCluster
from enpire.store.arrays import unpack
from enpire.store.start_rows import StartRow
from enpire.types import Bounds

COMPARED = 300
"""Most failures, and most successes, whose recordings are read."""
LEAST_CLUSTER = 8
"""Fewest failures that are divided further, and fewest on each side of a division times two."""
MOST_CLUSTERS = 5
"""Most clusters of one reason."""
SEPARATED = 0.35
"""Least mean silhouette of a division (Rousseeuw 1987)."""
_FEATURES = 4
"""State values that are compared: those whose last value tells failures from successes best."""
_NAMED = 2
"""Differences that the description of a cluster names."""
type _States = npt.NDArray[np.float64]
"""(episodes, state_dim), in the units of the task."""


def clusters_of(rows: Sequence[StartRow], folder: Path, state: Sequence[Bounds]) -> tuple[FailureCluster, ...]:
    """Clusters of the newest recorded failures, the largest first.

    Args:
        rows: the selected episodes, newest first.
        folder: where the campaign's episodes are kept.
        state: names and units of the state values; empty when the task is not installed here.
    """
    failed = _last_states([row for row in rows if row.recorded and row.outcome != "success"], folder)
    reference = _last_states([row for row in rows if row.recorded and row.outcome == "success"], folder)
    if not failed:
        return ()
    width = len(next(iter(failed.values())))
    good = np.array([values for values in reference.values() if len(values) == width]).reshape(-1, width)
    groups: dict[tuple[str, str], list[StartRow]] = {}
    for row in rows:
        if len(failed.get(row.order_id, ())) == width and row.order_id in failed:
            groups.setdefault((row.outcome, masked(row.cause)), []).append(row)
    found: list[FailureCluster] = []
    compared = sum(len(group) for group in groups.values())
    for (outcome, cause), group in groups.items():
        states = np.array([failed[row.order_id] for row in group])
        features = _features(states, good)
        labels = divide(features)
        for label in range(int(labels.max()) + 1):
            inside: list[int] = np.flatnonzero(labels == label).tolist()
            middle = int(np.argmin(np.linalg.norm(features[inside] - features[inside].mean(axis=0), axis=1)))
            members = [group[index] for index in inside]
            found.append(
                FailureCluster(
                    number=0, n=len(members), share=len(members) / compared, outcome=outcome, cause=cause,
                    what=_description(states[inside], good, state), example=members[middle].order_id,
                    stations=tuple(Counter(row.station for row in members).most_common()),
                    order_ids=tuple(row.order_id for row in members),
                )
            )  # fmt: skip
    return _numbered(found)


def ending(rows: Sequence[StartRow], order_id: str, folder: Path, state: Sequence[Bounds]) -> str:
    """How the last state of one of the episodes differs from that of the successes; empty where that is not known."""
    own = _last_states([row for row in rows if row.order_id == order_id], folder)
    reference = _last_states([row for row in rows if row.recorded and row.outcome == "success"], folder)
    width = len(state)
    if order_id not in own or len(own[order_id]) != width:
        return ""
    good = np.array([values for values in reference.values() if len(values) == width]).reshape(-1, width)
    return _description(own[order_id][None], good, state)


def masked(cause: str) -> str:
    """A reason with `#` in place of its numbers, so that reasons that differ only in them are one."""
    return re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", cause)[:200]


def divide(features: _States) -> npt.NDArray[np.int_]:
    """Cluster number of each row (episodes, features), from 0: k-means with the k of the largest mean silhouette.

    All rows are one cluster when no division separates them.
    """
    one = np.zeros(len(features), np.int_)
    if len(features) < 2 * LEAST_CLUSTER:
        return one
    apart = np.linalg.norm(features[:, None] - features[None], axis=2)  # (episodes, episodes)
    best, chosen = SEPARATED, one
    for k in range(2, MOST_CLUSTERS + 1):
        labels = _k_means(features, apart, k)
        if min(np.bincount(labels, minlength=k).tolist()) < LEAST_CLUSTER:
            continue
        score = _silhouette(apart, labels, k)
        if score > best:
            best, chosen = score, labels
    return chosen


def _k_means(features: _States, apart: _States, k: int) -> npt.NDArray[np.int_]:
    """Lloyd's iterations from far points: the first is the most central row, each next the farthest from those."""
    seeds = [int(apart.sum(axis=1).argmin())]
    while len(seeds) < k:
        seeds.append(int(apart[:, seeds].min(axis=1).argmax()))
    centres = features[seeds]
    labels = np.zeros(len(features), np.int_)
    for _ in range(50):
        labels = np.linalg.norm(features[:, None] - centres[None], axis=2).argmin(axis=1)
        moved = np.array(
            [features[labels == one].mean(axis=0) if (labels == one).any() else centres[one] for one in range(k)]
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    return labels


def _silhouette(apart: _States, labels: npt.NDArray[np.int_], k: int) -> float:
    inside = (labels[:, None] == np.arange(k)[None]).astype(np.float64)  # (episodes, k)
    sums: _States = np.matmul(apart, inside)
    sizes: npt.NDArray[np.float64] = inside.sum(axis=0)
    own = sums[np.arange(len(labels)), labels] / np.maximum(sizes[labels] - 1.0, 1.0)
    others = np.where(inside > 0, np.inf, sums / np.maximum(sizes, 1)).min(axis=1)
    gap: _States = (others - own) / np.maximum(np.maximum(own, others), 1e-12)
    return float(gap.mean())


def _features(states: _States, good: _States) -> _States:
    """The values that tell failures from successes best, in units of their spread: (episodes, at most _FEATURES)."""
    pooled = np.concatenate([states, good])
    spread = pooled.std(axis=0) + 1e-9
    if len(good) >= LEAST_CLUSTER:
        telling = np.mean((states - np.median(good, axis=0)) ** 2, axis=0) / (good.var(axis=0) + 1e-3 * spread**2)
    else:
        telling = states.std(axis=0) / spread
    kept = np.sort(np.argsort(-telling, kind="stable")[:_FEATURES])
    return states[:, kept] / spread[kept]


def _description(states: _States, good: _States, bounds: Sequence[Bounds]) -> str:
    if len(good) < LEAST_CLUSTER or len(bounds) != states.shape[1]:
        return ""
    usual, ended = np.median(good, axis=0), np.median(states, axis=0)
    within = np.quantile(good, 0.9, axis=0) - np.quantile(good, 0.1, axis=0)
    least = np.array([1e-3 * (one.high - one.low) for one in bounds])
    telling = np.abs(ended - usual) / np.maximum(within, least)
    named = [int(index) for index in np.argsort(-telling, kind="stable")[:_NAMED] if telling[index] > 0.5]
    parts = [
        f"{bounds[index].name} {_number(ended[index])}{_unit(bounds[index])} (successes {_number(usual[index])})"
        for index in named
    ]
    return f"ends at {', '.join(parts)}" if parts else "ends where successes end"


def _unit(of: Bounds) -> str:
    """The unit with a space before it, unless the name ends with it."""
    return "" if of.unit == "1" or of.name.lower().endswith(f"_{of.unit.lower()}") else f" {of.unit}"


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _last_states(rows: Sequence[StartRow], folder: Path) -> Mapping[str, _States]:
    """Order id -> last recorded state, of the newest COMPARED rows whose files can be read."""
    found: dict[str, _States] = {}
    for row in rows[:COMPARED]:
        path = folder / file_name(row.order_id, "an episode") / "arrays.npz"
        try:
            state = unpack(path.read_bytes()).state
        except (OSError, FileProblem):
            continue  # cleaned up, or damaged: `ledger verify` reports it
        if len(state) and np.isfinite(state[-1]).all():
            found[row.order_id] = state[-1].astype(np.float64)
    return found


def _numbered(found: Sequence[FailureCluster]) -> tuple[FailureCluster, ...]:
    ordered = sorted(found, key=lambda one: (-one.n, one.order_ids))
    return tuple(replace(one, number=number) for number, one in enumerate(ordered, 1))
