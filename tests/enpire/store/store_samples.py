"""Orders and episodes for the tests of the store."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from enpire import ids
from enpire.codec import order_fields, result_fields, result_of
from enpire.store import arrays
from enpire.store.head import Head, HeadFile, signed_head
from enpire.store.ledger import SqliteLedger
from enpire.store.secret import lab_secret
from enpire.store.verification import link
from enpire.types import Episode, EpisodeArrays, Order, OutcomeKind, Purpose, Start
from tests.fakes.sample_events import append


def an_order(campaign_id: str = "c1", purpose: Purpose = "collect", **changes: object) -> Order:
    start = Start(split="train", index=3, values=(0.1, -0.25), seed=2**40 + 1)
    order = Order(
        order_id=ids.mint(),
        campaign_id=campaign_id,
        station="cell-1",
        task="pin_insertion",
        policy_id="a" * 64,
        start=start,
        purpose=purpose,
        round=1,
    )
    return replace(order, **changes)  # pyright: ignore[reportArgumentType]


def some_arrays(ticks: int = 7, seed: int = 0) -> EpisodeArrays:
    draw = np.random.default_rng(seed)
    return EpisodeArrays(
        state=draw.normal(size=(ticks + 1, 3)).astype(np.float32),
        action=draw.normal(size=(ticks, 2)).astype(np.float32),
        source=draw.integers(0, 4, ticks).astype(np.uint8),
        chunk=np.arange(ticks, dtype=np.int32) // 2,
    )


def a_recording(order: Order, outcome: OutcomeKind = "success", seed: int = 0) -> tuple[Episode, bytes]:
    data = arrays.pack(some_arrays(seed=seed))
    return an_episode(order, outcome, sha256=hashlib.sha256(data).hexdigest()), data


def an_episode(order: Order, outcome: OutcomeKind = "success", **changes: object) -> Episode:
    episode = Episode(
        order=order,
        outcome=outcome,
        cause="" if outcome in ("success", "failure", "unsafe") else "why",
        confidence=0.75,
        ran_policy_id=order.policy_id,
        ticks=7,
        began_s=1.5,
        ended_s=2.25,
        achieved_start=(0.125, -0.5),
        reset_attempts=1,
        clipped=2,
        attempts=(3, 5),
        sha256="b" * 64,
    )
    return replace(episode, **changes)  # pyright: ignore[reportArgumentType]


def issued(*orders: Order) -> tuple[str, dict[str, object]]:
    body = {"campaign_id": orders[0].campaign_id, "orders": [order_fields(order) for order in orders]}
    return "order issued", body


def ended(*episodes: Episode) -> tuple[str, dict[str, object]]:
    campaign_id = episodes[0].order.campaign_id
    return "orders ended", {
        "campaign_id": campaign_id,
        "episodes": [result_fields(result_of(episode)) for episode in episodes],
    }


def a_closed_ledger(path: Path, *events: tuple[str, dict[str, object]]) -> None:
    with closing(SqliteLedger(path)) as ledger:
        append(ledger, events)


def signed_again(path: Path) -> None:
    """Sign the chain that a ledger holds now with the secret of its home, as only a holder of the secret can."""
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        head = Head(*editor.execute("SELECT seq, hash FROM head").fetchone())
        (since,) = editor.execute("SELECT since FROM head_hmac").fetchone()
        signed = signed_head(lab_secret(path.parent), head, since)
        editor.execute("UPDATE head_hmac SET hmac = ?", (signed.hmac,))
    HeadFile(path).write(signed)


def chained_again(path: Path) -> None:
    """Compute every link and the head of a ledger anew after its events were edited, as without the secret."""
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        last, previous = 0, ""
        rows = editor.execute("SELECT seq, stamp_ns, kind, body FROM events ORDER BY seq").fetchall()
        for last, (seq, stamp_ns, kind, body) in enumerate(rows, start=1):
            digest = link(last, stamp_ns, kind.encode(), body.encode(), previous.encode())
            editor.execute(
                "UPDATE events SET seq = ?, previous = ?, hash = ? WHERE seq = ?", (last, previous, digest, seq)
            )
            previous = digest
        editor.execute("UPDATE head SET seq = ?, hash = ?", (last, previous))
