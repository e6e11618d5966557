"""A recorded campaign whose failures have a place in the start space, and two ways to end."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np

from enpire.ids import mint
from enpire.store.arrays import pack
from enpire.types import Episode, EpisodeArrays, Order, OutcomeKind, Start
from tests.web_ui.recorded import BASE, History
from tests.web_ui.tiny_task import ADDRESS

HARD = 0.8
"""Starts with x above it fail; the others succeed, except one in ten of station sim-2."""


def add_failures(past: History, n: int = 320) -> dict[str, str]:
    """Record `n` collection episodes of BASE from starts in [0, 1] x [0, 1]; returns order id -> how it failed."""
    draw = random.Random(11)
    orders: list[Order] = []
    how: dict[str, str] = {}
    for index in range(n):
        values = (draw.random(), draw.random())
        start = Start(split="train", index=1000 + index, values=values, seed=index)
        orders.append(
            Order(
                order_id=mint(), campaign_id=past.campaign_id, station=f"sim-{index % 2 + 1}", task=ADDRESS,
                policy_id=BASE, start=start, purpose="collect", round=3, lease=1,
            )
        )  # fmt: skip
        if values[0] > HARD:
            how[orders[-1].order_id] = "above"
        elif index % 20 == 1:
            how[orders[-1].order_id] = "aside"
    past.write_episodes([_ended(past.home, order, how.get(order.order_id, ""), draw) for order in orders])
    return how


def _ended(home: Path, order: Order, how: str, draw: random.Random) -> Episode:
    last = {"above": (0.0, 0.0, 0.08), "aside": (0.07, 0.0, 0.01), "": (0.0, 0.0, 0.0)}[how]
    frames = 12
    end = np.array(last) + np.array([draw.gauss(0, 0.001) for _ in range(3)])
    state = np.linspace([0.05, 0.05, 0.09], end, frames + 1).astype(np.float32)
    arrays = EpisodeArrays(
        state=state, action=np.diff(state, axis=0) * 20, source=np.zeros(frames, np.uint8),
        chunk=(np.arange(frames) // 5).astype(np.int32),
    )  # fmt: skip
    folder = home / "episodes" / order.campaign_id / order.order_id
    folder.mkdir(parents=True)
    data = pack(arrays)
    (folder / "arrays.npz").write_bytes(data)
    outcome: OutcomeKind = "failure" if how else "success"
    return Episode(
        order=order, outcome=outcome, cause="", confidence=0.97, ran_policy_id=BASE, ticks=frames, began_s=1.0,
        ended_s=1.6, achieved_start=order.start.values, reset_attempts=1, sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
