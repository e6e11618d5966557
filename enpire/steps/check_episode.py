"""Check a delivered episode against its order and its task. What does not fit is invalid, so it counts in no rate."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from enpire.errors import FileProblem
from enpire.store.arrays import unpack
from enpire.store.pictures import Pictures
from enpire.types import JUDGED, Episode, EpisodeArrays, Order, OutcomeKind, TaskSpec
from enpire.wire.arrivals import Delivered


def sound(arrival: Delivered, spec: TaskSpec | None = None, why: str = "") -> Delivered:
    """The delivered episode with its arrays; invalid and without files for `why`, or if they do not fit order or task.

    `spec`: of the task; None leaves out its widths.
    """
    recorded: EpisodeArrays | None = None
    try:
        if not (why := why or _mismatch(arrival)):
            recorded = unpack(arrival.arrays_file) if arrival.arrays_file else None
            why = _defect(arrival, recorded, spec)
    except FileProblem as problem:
        why = f"its files cannot be used: {problem}"[:1000]
    if not why:
        return replace(arrival, episode=replace(arrival.episode, arrays=recorded))
    return replace(arrival, episode=unfinished(arrival.episode.order, "invalid", why), arrays_file=b"", pictures=None)


def _mismatch(arrival: Delivered) -> str:
    episode, data, sha256 = arrival.episode, arrival.arrays_file, arrival.episode.sha256
    if episode.outcome in {"success", "failure"} and not (data and episode.ticks):
        return f"it reports {episode.outcome} without the arrays that show it"
    if episode.outcome in JUDGED and episode.ran_policy_id != episode.order.policy_id:
        return f"it ran version {episode.ran_policy_id[:12]} but its order asked for {episode.order.policy_id[:12]}"
    if (data or sha256) and hashlib.sha256(data).hexdigest() != sha256:
        return "the bytes of its arrays do not match its hash"
    return ""


def _defect(arrival: Delivered, recorded: EpisodeArrays | None, spec: TaskSpec | None) -> str:
    episode = arrival.episode
    if recorded is not None:
        if len(recorded.action) != episode.ticks:
            return f"its arrays have {len(recorded.action)} actions, but it reports {episode.ticks}"
        widths = (recorded.state.shape[1], recorded.action.shape[1])
        if spec is not None and widths != (needed := (len(spec.state), len(spec.action))):
            return f"its states and actions have {widths} numbers, but the task needs {needed}"
        if episode.outcome in {"success", "failure"} and (name := _not_finite(recorded)):
            return f"its {name} hold a number that is not finite, so they show no {episode.outcome}"
    if arrival.pictures is not None:
        Pictures(arrival.pictures)
    return ""


def _not_finite(recorded: EpisodeArrays) -> str:
    """Which arrays hold NaN or infinity: `states` or `actions`; empty if none do."""
    arrays = {"states": recorded.state, "actions": recorded.action}
    return next((name for name, values in arrays.items() if not np.isfinite(values).all()), "")


def unfinished(order: Order, outcome: OutcomeKind, cause: str) -> Episode:
    """The episode of an order that ended without a verdict."""
    return Episode(
        order=order, outcome=outcome, cause=cause, confidence=0.0, ran_policy_id="", ticks=0, began_s=0.0, ended_s=0.0
    )
