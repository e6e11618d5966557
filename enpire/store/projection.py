"""The orders table: one row per order, updated with every event, so that queries need no replay.

It can be dropped and replayed from the events at any time. It stores no counts: queries compute them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.order_events import EpisodeLabelled, LateResults, OrdersEnded, OrdersIssued
from enpire.errors import LedgerProblem
from enpire.store import rows
from enpire.store.connection import run, scratch
from enpire.store.entries import COLUMNS, entry_from
from enpire.types import Order, OrderResult

_TYPES = {
    "round": "INTEGER", "pair": "INTEGER", "start_index": "INTEGER", "lease": "INTEGER", "supervised": "INTEGER",
    "issued_seq": "INTEGER", "ended_seq": "INTEGER", "ticks": "INTEGER", "reset_attempts": "INTEGER",
    "clipped": "INTEGER", "hopeless_at": "INTEGER", "explored": "INTEGER", "confidence": "REAL", "began_s": "REAL",
    "ended_s": "REAL",
}  # fmt: skip
LIST_INDEXES: tuple[str, ...] = (
    "CREATE INDEX orders_page_of_purpose ON orders (campaign_id, purpose, order_id)",
    "CREATE INDEX orders_page_of_hidden ON orders (campaign_id, order_id) WHERE split <> 'train'",
    "CREATE INDEX orders_page_of_train ON orders (campaign_id, order_id) WHERE split = 'train'",
    "CREATE INDEX orders_labelled ON orders (campaign_id, order_id) WHERE person_outcome IS NOT NULL",
)
"""For the filters of the list of episodes, so that a page is found without reading the orders that do not match."""
ORDERS_SCHEMA: tuple[str, ...] = (
    "CREATE TABLE orders (order_id TEXT PRIMARY KEY, "
    + ", ".join(f"{name} {_TYPES.get(name, 'TEXT')} NOT NULL" for name in rows.ORDER_COLUMNS[1:])
    + ", "
    + ", ".join(f"{name} {_TYPES.get(name, 'TEXT')}" for name in rows.END_COLUMNS)
    + ", person_outcome TEXT, found_seq INTEGER) STRICT",
    "CREATE INDEX orders_open ON orders (campaign_id, ended_seq, order_id)",
    "CREATE INDEX orders_page ON orders (campaign_id, order_id)",
    "CREATE INDEX orders_by_outcome ON orders (campaign_id, outcome, cause)",
    "CREATE INDEX orders_page_of_outcome ON orders (campaign_id, outcome, order_id)",
    "CREATE INDEX orders_page_of_policy ON orders (campaign_id, policy_id, order_id)",
    "CREATE INDEX orders_by_round ON orders (campaign_id, round, order_id)",
    "CREATE INDEX orders_by_purpose ON orders (campaign_id, purpose, policy_id, round, outcome)",
    "CREATE INDEX orders_by_station ON orders (campaign_id, station, order_id)",
    "CREATE INDEX orders_by_gate ON orders (gate_id, ended_seq, order_id) WHERE gate_id <> ''",
    *LIST_INDEXES,
)
_INSERT = f"INSERT INTO orders ({', '.join(rows.ORDER_COLUMNS)}) VALUES ({', '.join('?' * len(rows.ORDER_COLUMNS))})"
_END = (
    f"UPDATE orders SET {', '.join(f'{name} = ?' for name in rows.END_COLUMNS)} "
    "WHERE order_id = ? AND ended_seq IS NULL"
)
_END_LATE = (
    f"UPDATE orders SET {', '.join(f'{name} = ?' for name in rows.END_COLUMNS)}, found_seq = ? WHERE order_id = ?"
)
_CHUNK = 1000


def project(db: sqlite3.Connection, entry: LedgerEntry) -> None:
    """Apply one event to the orders table, inside the caller's transaction.

    Raises:
        LedgerProblem: an order is issued twice, ended twice, or ended before it was issued; or a late result belongs to
            an order that did not end as unknown.
    """
    match entry.event:
        case OrdersIssued(orders=orders):
            _issue(db, entry, orders)
        case OrdersEnded(results=results):
            _end(db, entry, results)
        case LateResults(results=results):
            _end_late(db, entry, results)
        case EpisodeLabelled() as label:
            _label(db, entry, label)
        case _:
            pass  # other events change no order


def replay(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Build the orders table of `target` from the events of `source`."""
    kinds = kinds_of(OrdersIssued, OrdersEnded, LateResults, EpisodeLabelled)
    after = 0
    while True:
        chunk = run(
            source,
            f"SELECT {COLUMNS} FROM events WHERE seq > ? AND kind IN (?, ?, ?, ?) ORDER BY seq LIMIT ?",
            (after, *kinds, _CHUNK),
        ).fetchall()
        for row in chunk:
            project(target, entry_from(row))
        if len(chunk) < _CHUNK:
            return
        after = int(chunk[-1][0])


def differing_order(db: sqlite3.Connection) -> str:
    """The first order whose row differs from a replay of the events; empty when the table is right."""
    columns = ", ".join(rows.COLUMNS)
    fresh = scratch()
    try:
        run(fresh, ORDERS_SCHEMA[0])  # without its indexes, which only queries need
        replay(db, fresh)
        after = ""
        while True:
            page = f"SELECT {columns} FROM orders WHERE order_id > ? ORDER BY order_id LIMIT {_CHUNK}"
            replayed, kept = (run(one, page, (after,)).fetchall() for one in (fresh, db))
            odd = {row[0] for row in set(replayed) ^ set(kept)}
            if odd or not replayed:
                return min(odd, default="")
            after = replayed[-1][0]
    finally:
        fresh.close()


def _issue(db: sqlite3.Connection, entry: LedgerEntry, orders: Sequence[Order]) -> None:
    for order in orders:
        if order.campaign_id != entry.campaign_id:
            raise LedgerProblem(f"Order {order.order_id} belongs to campaign {order.campaign_id}, its event does not.")
        if run(db, "SELECT 1 FROM orders WHERE order_id = ?", (order.order_id,)).fetchone():
            raise LedgerProblem(f"Order {order.order_id} was issued before; give every order a new id.")
        run(db, _INSERT, rows.order_values(order, entry.seq))


def _end(db: sqlite3.Connection, entry: LedgerEntry, results: Sequence[OrderResult]) -> None:
    for result in results:
        _, outcome = _ending(db, result.order_id, entry.campaign_id, "end")
        if outcome is not None:
            raise LedgerProblem(f"Order {result.order_id} cannot end: it ended before, as {outcome}.")
        run(db, _END, (*rows.end_values(result, entry.seq), result.order_id))


def _end_late(db: sqlite3.Connection, entry: LedgerEntry, results: Sequence[OrderResult]) -> None:
    for result in results:
        ended_seq, outcome = _ending(db, result.order_id, entry.campaign_id, "have a late result")
        if ended_seq is None or outcome != "unknown":
            how = f"it ended as {outcome}" if outcome else "it has not ended"
            raise LedgerProblem(
                f"Order {result.order_id} cannot have a late result: {how}; only an unknown order may have one."
            )
        if result.outcome == "unknown":
            raise LedgerProblem(f"Order {result.order_id} cannot have a late result that is again unknown.")
        run(db, _END_LATE, (*rows.end_values(result, ended_seq), entry.seq, result.order_id))


def _ending(db: sqlite3.Connection, order_id: str, campaign_id: str, what: str) -> tuple[int | None, str | None]:
    """(event that ended an order, its outcome); None for an open one."""
    query = "SELECT ended_seq, outcome FROM orders WHERE order_id = ? AND campaign_id = ?"
    found = run(db, query, (order_id, campaign_id)).fetchone()
    if found is None:
        raise LedgerProblem(f"Order {order_id} cannot {what}: it was never issued in campaign {campaign_id}.")
    return found


def _label(db: sqlite3.Connection, entry: LedgerEntry, label: EpisodeLabelled) -> None:
    done = run(
        db,
        "UPDATE orders SET person_outcome = ? WHERE order_id = ? AND campaign_id = ? AND ended_seq IS NOT NULL",
        (label.outcome or None, label.order_id, entry.campaign_id),
    )
    if done.rowcount != 1:
        raise LedgerProblem(f"Order {label.order_id} cannot be labelled: it has not ended in this campaign.")
