"""Small invented episodes for the learners' tests: a point is driven to the origin."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore
from enpire.types import (
    SOURCE_EXPERT,
    SOURCE_POLICY,
    EarlyStop,
    Episode,
    EpisodeArrays,
    Order,
    OutcomeKind,
    Split,
    Start,
)
from policies.training_data import RecordedEpisode


def episode(sources: Sequence[int], success: bool, *, round_: int = 1, seed: int = 0) -> RecordedEpisode:
    """An episode of random numbers with one source code per frame."""
    random = np.random.default_rng(seed)
    ticks = len(sources)
    arrays = EpisodeArrays(
        state=random.normal(size=(ticks + 1, 3)).astype(np.float32),
        action=random.normal(size=(ticks, 2)).astype(np.float32),
        source=np.asarray(sources, np.uint8),
        chunk=(np.arange(ticks) // 4).astype(np.int32),
    )
    return RecordedEpisode(order_id=f"e{seed}", round=round_, success=success, supervised=False, arrays=arrays)


def driven(seed: int, *, expert: bool, round_: int = 0) -> RecordedEpisode:
    """A point at (x, y) with the share of time left, driven to the origin with a speed drawn per episode."""
    random = np.random.default_rng(seed)
    gain = random.uniform(0.05, 0.3)
    place = random.uniform(-1, 1, 2)
    states, actions = [], []
    for tick in range(40):
        states.append([*place, 1 - tick / 40])
        command = -gain * place + random.normal(0, 0.01, 2)
        actions.append(command)
        place = place + command
        if np.abs(place).max() < 0.1:
            break
    states.append([*place, 1 - len(actions) / 40])
    arrays = EpisodeArrays(
        state=np.asarray(states, np.float32),
        action=np.asarray(actions, np.float32),
        source=np.full(len(actions), SOURCE_EXPERT if expert else SOURCE_POLICY, np.uint8),
        chunk=(np.arange(len(actions)) // 4).astype(np.int32),
    )
    success = bool(np.abs(place).max() < 0.1)
    return RecordedEpisode(order_id=f"d{seed}", round=round_, success=success, supervised=False, arrays=arrays)


def write(
    root: Path,
    recorded: RecordedEpisode,
    split: Split = "train",
    outcome: OutcomeKind | None = None,
    early_stop: EarlyStop | None = None,
    predicted_failure_at: int = -1,
    station: str = "s",
) -> Path:
    """One episode as the store keeps it."""
    order = Order(
        order_id=recorded.order_id,
        campaign_id="test",
        station=station,
        task="point",
        policy_id="scripted:expert" if recorded.demonstration else recorded.policy_id or "p",
        start=Start(split=split, index=0, values=(), seed=0),
        purpose="demonstrate" if recorded.demonstration else "collect",
        round=recorded.round,
        supervised=recorded.supervised,
        early_stop=early_stop,
    )
    data = pack(recorded.arrays)
    episode = Episode(
        order=order,
        outcome=outcome or ("success" if recorded.success else "failure"),
        cause="",
        confidence=1.0,
        ran_policy_id=order.policy_id,
        ticks=recorded.ticks,
        began_s=0.0,
        ended_s=1.0,
        predicted_failure_at=predicted_failure_at,
        sha256=hashlib.sha256(data).hexdigest(),
        explored=recorded.explored,
    )
    return FolderStore(root).put(episode, data)
