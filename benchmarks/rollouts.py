"""Rollouts without a fleet, kept in an episode store as the fleet would keep them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from enpire.ids import mint
from enpire.offline.rollouts import Rollout
from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore, Recording
from enpire.types import SOURCE_EXPERT, Episode, Order, Purpose


def keep(store: FolderStore, rollouts: Sequence[Rollout], policy_id: str, round_: int, campaign: str) -> list[Path]:
    """Put rollouts into an episode store as the fleet would; returns their folders."""
    return store.put_many([_recording(item, policy_id, round_, campaign) for item in rollouts])


def _recording(item: Rollout, policy_id: str, round_: int, campaign: str) -> Recording:
    purpose: Purpose = "demonstrate" if item.arrays.source[0] == SOURCE_EXPERT else "collect"
    order = Order(
        order_id=mint(),
        campaign_id=campaign,
        station="benchmark",
        task="",
        policy_id=policy_id,
        start=item.start,
        purpose=purpose,
        round=round_,
        supervised=item.supervised,
    )
    data = pack(item.arrays)
    episode = Episode(
        order=order,
        outcome=item.verdict.kind,
        cause="",
        confidence=item.verdict.confidence,
        ran_policy_id=policy_id,
        ticks=item.ticks,
        began_s=0.0,
        ended_s=0.0,
        sha256=hashlib.sha256(data).hexdigest(),
        explored=item.explored,
    )
    return Recording(episode=episode, arrays_file=data)
