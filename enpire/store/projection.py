"""The orders table: what the events say about every order, so that questions need no replay.

It is a view that can be dropped and replayed at any time; counters are queries on it, never columns.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import cast

from enpire.codec import read_result
from enpire.errors import FileProblem, LedgerProblem
from enpire.store import records, rows
from enpire.store.connection import run, scratch
from enpire.types import OUTCOME_KINDS

_TYPES = {
    "round": "INTEGER", "pair": "INTEGER", "start_index": "INTEGER", "lease": "INTEGER", "supervised": "INTEGER",
    "issued_seq": "INTEGER", "ended_seq": "INTEGER", "ticks": "INTEGER", "reset_attempts": "INTEGER",
    "clipped": "INTEGER", "hopeless_at": "INTEGER", "confidence": "REAL", "began_s": "REAL", "ended_s": "REAL",
}  # fmt: skip
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
)
_INSERT = f"INSERT INTO orders ({', '.join(rows.ORDER_COLUMNS)}) VALUES ({', '.join('?' * len(rows.ORDER_COLUMNS))})"
_END = (
    f"UPDATE orders SET {', '.join(f'{name} = ?' for name in rows.END_COLUMNS)} "
    "WHERE order_id = ? AND ended_seq IS NULL"
)
_FIND = f"UPDATE orders SET {', '.join(f'{name} = ?' for name in rows.END_COLUMNS)}, found_seq = ? WHERE order_id = ?"
_CHUNK = 1000


def project(db: sqlite3.Connection, seq: int, kind: str, body: Mapping[str, object]) -> None:
    """Apply one event to the orders table, inside the caller's transaction.

    LedgerProblem when an order is issued twice, ended twice, or ended without having been issued; and when one is
    found that had not ended as unknown.
    """
    try:
        match kind:
            case records.ORDER_ISSUED:
                _issue(db, seq, body)
            case records.ORDERS_ENDED:
                _end(db, seq, body)
            case records.ORDERS_FOUND:
                _find(db, seq, body)
            case records.PERSON_JUDGED:
                _judge(db, body)
            case _:
                return
    except FileProblem as error:
        raise LedgerProblem(f"The event '{kind}' cannot be recorded: {error}") from error


def replay(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Build the orders table of `target` from the events of `source`."""
    kinds = (records.ORDER_ISSUED, records.ORDERS_ENDED, records.ORDERS_FOUND, records.PERSON_JUDGED)
    after = 0
    while True:
        chunk = run(
            source,
            "SELECT seq, kind, body FROM events WHERE seq > ? AND kind IN (?, ?, ?, ?) ORDER BY seq LIMIT ?",
            (after, *kinds, _CHUNK),
        ).fetchall()
        for seq, kind, body in chunk:
            project(target, seq, kind, json.loads(body))
        if len(chunk) < _CHUNK:
            return
        after = int(chunk[-1][0])


def differing_order(db: sqlite3.Connection) -> str:
    """The first order whose row is not what a replay of the events gives; empty when the table is right."""
    columns = ", ".join(rows.COLUMNS)
    fresh = scratch()
    try:
        for statement in ORDERS_SCHEMA:
            run(fresh, statement)
        replay(db, fresh)
        after = ""
        while True:
            page = f"SELECT {columns} FROM orders WHERE order_id > ? ORDER BY order_id LIMIT {_CHUNK}"
            said, kept = (run(one, page, (after,)).fetchall() for one in (fresh, db))
            odd = {row[0] for row in set(said) ^ set(kept)}
            if odd or not said:
                return min(odd, default="")
            after = said[-1][0]
    finally:
        fresh.close()


def _issue(db: sqlite3.Connection, seq: int, body: Mapping[str, object]) -> None:
    orders = [records.order_from(order) for order in _objects(body, "orders")]
    for order in orders:
        if order.campaign_id != body.get("campaign_id"):
            raise LedgerProblem(f"Order {order.order_id} is of campaign {order.campaign_id}, its event is not.")
        if run(db, "SELECT 1 FROM orders WHERE order_id = ?", (order.order_id,)).fetchone():
            raise LedgerProblem(f"Order {order.order_id} was issued before; every order needs an id of its own.")
        run(db, _INSERT, rows.order_values(order, seq))


def _end(db: sqlite3.Connection, seq: int, body: Mapping[str, object]) -> None:
    for said in _objects(body, "episodes"):
        row = _row(db, said, body, "end")
        if row.episode is not None:
            raise LedgerProblem(f"Order {row.order.order_id} cannot end: it ended before, as {row.episode.outcome}.")
        run(db, _END, (*rows.end_values(read_result(said, FileProblem), seq), row.order.order_id))


def _find(db: sqlite3.Connection, seq: int, body: Mapping[str, object]) -> None:
    for said in _objects(body, "episodes"):
        row = _row(db, said, body, "be found")
        if row.episode is None or row.ended_seq is None or row.episode.outcome != "unknown":
            how = f"it ended as {row.episode.outcome}" if row.episode else "it has not ended"
            raise LedgerProblem(f"Order {row.order.order_id} cannot be found: {how}, and only unknown ones are sought.")
        episode = read_result(said, FileProblem)
        if episode.outcome == "unknown":
            raise LedgerProblem(f"Order {row.order.order_id} cannot be found as unknown: that is what it was.")
        run(db, _FIND, (*rows.end_values(episode, row.ended_seq), seq, row.order.order_id))


def _row(db: sqlite3.Connection, said: Mapping[str, object], body: Mapping[str, object], what: str) -> rows.OrderRow:
    found = run(
        db,
        f"SELECT {', '.join(rows.COLUMNS)} FROM orders WHERE order_id = ? AND campaign_id = ?",
        (said.get("order_id"), body.get("campaign_id")),
    ).fetchone()
    if found is None:
        raise LedgerProblem(
            f"Order {said.get('order_id')} cannot {what}: it was never issued in campaign {body.get('campaign_id')}."
        )
    return rows.read(found)


def _judge(db: sqlite3.Connection, body: Mapping[str, object]) -> None:
    if body.get("outcome") not in OUTCOME_KINDS:
        raise LedgerProblem(f"A person cannot judge {body.get('outcome')!r}; allowed are {list(OUTCOME_KINDS)}.")
    done = run(
        db,
        "UPDATE orders SET person_outcome = ? WHERE order_id = ? AND campaign_id = ? AND ended_seq IS NOT NULL",
        (cast(str, body["outcome"]), body.get("order_id"), body.get("campaign_id")),
    )
    if done.rowcount != 1:
        raise LedgerProblem(f"Order {body.get('order_id')} cannot be judged: it has not ended in this campaign.")


def _objects(body: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    listed = body.get(key)
    if not isinstance(listed, list):
        raise LedgerProblem(f"The event's body must have a list of {key}.")
    items = cast(list[object], listed)
    if not all(isinstance(item, dict) for item in items):
        raise LedgerProblem(f"Each of the event's {key} must be an object.")
    return cast(list[Mapping[str, object]], items)
