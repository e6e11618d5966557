"""Whether a ledger is as ENPIRE wrote it: its pages, its tables, the chain of its events, and the orders table.

Bytes that SQLite never reads (free pages, gaps inside pages) are not checked: they hold no value that a query can give.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import LedgerProblem
from enpire.store import head as heads
from enpire.store.connection import run
from enpire.store.copy_names import advice
from enpire.store.head import Head, SignedHead, head_hmac, same_hmac
from enpire.store.migrations import PRESENT_ORDERS, SIGNED, STEPS, require_known
from enpire.store.projection import ORDERS_SCHEMA, differing_order

type Progress = Callable[[int, int], None]
"""Receives the number of checked events and the number of all events."""

EVENTS_SCHEMA: tuple[str, ...] = (
    "CREATE TABLE events (seq INTEGER PRIMARY KEY, stamp_ns INTEGER NOT NULL, kind TEXT NOT NULL, "
    "campaign_id TEXT NOT NULL, body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    "CREATE INDEX events_by_campaign ON events (campaign_id, seq)",
    "CREATE INDEX events_by_kind ON events (kind, seq)",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL) STRICT",
)
_CHUNK = 1000
_AS_BYTES = (
    "seq, stamp_ns, CAST(kind AS BLOB), CAST(campaign_id AS BLOB), CAST(body AS BLOB), CAST(previous AS BLOB), "
    "CAST(hash AS BLOB), CASE WHEN json_valid(body) THEN CAST(body ->> 'campaign_id' AS BLOB) END"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was checked in a ledger without a fault."""

    head: Head
    orders: int
    """Number of orders, each equal to its events."""
    signature: str
    """What the HMAC of the head shows here, in one or two sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What vouches for the head of a ledger besides the ledger itself."""

    secret: bytes | None
    """The lab's secret; None where this process has none."""
    filed: SignedHead | None = None
    """The head in the file next to the ledger, read before the ledger; None without a file."""
    needs_file: bool = True
    """Whether a missing file is a fault; not for a copy of a ledger, which has none."""


def verify(
    db: sqlite3.Connection, path: Path, witness: Witness, progress: Progress = lambda done, total: None
) -> Verified:
    """Check a whole ledger: pages, tables, chain, head, HMAC of the head, and the orders table.

    The orders table of a schema before PRESENT_ORDERS is replayed when it is migrated; before SIGNED there is no HMAC.

    Raises:
        LedgerProblem: names the first fault.
    """
    version = require_known(db, path)
    check_pages(db, path)
    if version == len(STEPS):
        check_tables(db, path)
    else:
        check_old_tables(db, path, version)
    head = check_chain(db, path, progress)
    signature = check_head(db, path, head, witness)
    return Verified(head=head, orders=check_orders(db, path) if version >= PRESENT_ORDERS else 0, signature=signature)


def check_pages(db: sqlite3.Connection, path: Path) -> None:
    """Check every page that SQLite reads: structure, indexes against tables, types.

    Raises:
        LedgerProblem: with the damage that SQLite reports.
    """
    (sound,) = run(db, "PRAGMA integrity_check(1)").fetchone()
    if sound != "ok":
        raise LedgerProblem(f"The ledger {path} is damaged: {' '.join(str(sound).split())}. {advice(path)}")


def check_tables(db: sqlite3.Connection, path: Path) -> None:
    """Check that the newest schema holds exactly the tables and indexes of a ledger, each as ENPIRE defines it.

    Raises:
        LedgerProblem: names a table, index, view or trigger that is missing, changed or foreign.
    """
    ours = {_squeezed(sql) for sql in (*EVENTS_SCHEMA, *ORDERS_SCHEMA, heads.SCHEMA)}
    found = run(db, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    foreign = [f"the {kind} {name!r} is none of ENPIRE's" for kind, name, sql in found if _squeezed(sql) not in ours]
    missing = len(ours) - len({_squeezed(sql) for _, _, sql in found} & ours)
    if foreign or missing:
        why = foreign[0] if foreign else f"{missing} of {len(ours)} tables and indexes are missing"
        raise LedgerProblem(f"The schema of the ledger {path} was changed outside ENPIRE: {why}. {advice(path)}")


def check_old_tables(db: sqlite3.Connection, path: Path, version: int) -> None:
    """Check that an older schema holds the tables of its number, and neither a view nor a trigger.

    Raises:
        LedgerProblem: names the first that does not belong there.
    """
    expected = {"events", "head", *(["orders"] if version > 1 else []), *(["head_hmac"] if version > 5 else [])}
    found = run(db, "SELECT type, name FROM sqlite_schema WHERE type <> 'index'").fetchall()
    if foreign := {(kind, name) for kind, name in found} ^ {("table", name) for name in expected}:
        kind, name = min(foreign)
        raise LedgerProblem(
            f"The schema of the ledger {path} was changed outside ENPIRE: the {kind} {name!r} does not fit its number "
            f"{version}. {advice(path)}"
        )


def check_chain(db: sqlite3.Connection, path: Path, progress: Progress = lambda done, total: None) -> Head:
    """Check the hash of every event and its link to the previous one, and that the chain ends with the recorded head.

    Raises:
        LedgerProblem: names the first event that does not verify.
    """
    seq, previous, after = 0, "", -(2**63)
    (total,) = run(db, "SELECT count(*) FROM events").fetchone()
    while True:
        sql = f"SELECT {_AS_BYTES} FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        chunk = run(db, sql, (after, _CHUNK)).fetchall()
        for row in chunk:
            seq += 1
            previous = _check_link(row, seq, previous, path)
        progress(seq, total)
        if len(chunk) < _CHUNK:
            break
        after = seq
    found = run(db, "SELECT one, seq, hash FROM head").fetchall()
    if found != [(1, seq, previous)]:
        recorded = " and ".join(f"event {number}" for _, number, _ in found) or "none"
        raise LedgerProblem(
            f"The ledger {path} ends with event {seq}, but its head records {recorded}: events after {seq} were "
            f"removed or forged. {advice(path)}"
        )
    return Head(seq, previous)


def check_head(db: sqlite3.Connection, path: Path, head: Head, witness: Witness) -> str:
    """Check the HMAC of the head, and the head file; returns what they show, in one or two sentences.

    Raises:
        LedgerProblem: the HMAC or the file does not fit the chain.
    """
    signed = require_known(db, path) >= SIGNED
    since = _check_hmac(db, path, head, witness.secret) if signed else head.seq
    if witness.filed is not None:
        _check_filed(db, path, head, witness.filed, witness.secret)
    elif signed and witness.secret is not None and witness.needs_file:
        raise LedgerProblem(
            f"{path.with_suffix('.head')} is missing, so it cannot be checked that no event was removed from the "
            f"ledger. If {path.name} is a copy that you put there, put it in place with `enpire ledger restore FILE`. "
            f"{advice(path)}"
        )
    if not signed:
        return "It has no HMAC of its head, which older versions did not write: a rewritten chain would not show."
    if witness.secret is None:
        return (
            f"The HMAC of the head was not checked, because this process has no secret in {path.parent}: a chain that "
            "was rewritten from its first event would not show."
        )
    if since:
        return (
            f"The HMAC of the head is valid. Events 1 to {since} are older than the first HMAC: if they were rewritten "
            "before that, it would not show."
        )
    return "The HMAC of the head is valid and covers every event."


def first_signed(db: sqlite3.Connection, head: Head) -> int:
    """Number of events that are older than the first HMAC of the head: all where an older version wrote the ledger."""
    if db.execute("PRAGMA user_version").fetchone() != (len(STEPS),):
        return head.seq
    return int(db.execute("SELECT since FROM head_hmac").fetchone()[0])


def _check_hmac(db: sqlite3.Connection, path: Path, head: Head, secret: bytes | None) -> int:
    """Check the HMAC of the head; returns the number of events that are older than the first one."""
    rows = run(db, "SELECT one, since, hmac FROM head_hmac").fetchall()
    if len(rows) != 1 or rows[0][0] != 1 or not 0 <= rows[0][1] <= head.seq:
        raise LedgerProblem(f"The HMAC of the head of the ledger {path} was removed or damaged. {advice(path)}")
    _, since, found = rows[0]
    if secret is not None and not same_hmac(found, head_hmac(secret, head, since)):
        raise LedgerProblem(
            f"The HMAC of the head of the ledger {path} does not fit event {head.seq}: the chain was rewritten or cut "
            f"without the lab's secret, or {path.parent / 'secret'} is of another lab. {advice(path)}"
        )
    return int(since)


def _check_filed(db: sqlite3.Connection, path: Path, head: Head, filed: SignedHead, secret: bytes | None) -> None:
    file, known = path.with_suffix(".head"), filed.head
    if secret is not None and not same_hmac(filed.hmac, head_hmac(secret, known, filed.since)):
        raise LedgerProblem(
            f"The HMAC in {file} does not fit the lab's secret: the file was changed, or {path.parent / 'secret'} is "
            f"of another lab. {advice(path)}"
        )
    if known.seq > head.seq:
        raise LedgerProblem(
            f"The ledger {path} ends with event {head.seq}, but {file} records event {known.seq}: "
            f"{known.seq - head.seq} events were removed, or an older copy was put in place. {advice(path)}"
        )
    if hash_at(db, known.seq) != known.hash:
        raise LedgerProblem(
            f"Event {known.seq} of the ledger {path} has another hash than {file} records: the history was rewritten. "
            f"{advice(path)}"
        )


def check_orders(db: sqlite3.Connection, path: Path) -> int:
    """Compare the orders table with a replay of the events; returns the number of orders.

    Raises:
        LedgerProblem: names the first order that differs from the replay.
    """
    if odd := differing_order(db):
        raise LedgerProblem(
            f"Order {odd} in the orders table differs from its events: the table was changed outside ENPIRE. "
            f"{advice(path)}"
        )
    (count,) = run(db, "SELECT count(*) FROM orders").fetchone()
    return int(count)


def hash_at(db: sqlite3.Connection, seq: int) -> str:
    """The recorded hash of an event; empty for 0 and for an event that there is not."""
    found = run(db, "SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone()
    return str(found[0]) if found else ""


def link(seq: int, stamp_ns: int, kind: bytes, body: bytes, previous: bytes) -> str:
    """The hash of one event: sha256 over its fields and the hash of the previous event, one per line."""
    return hashlib.sha256(b"\n".join((b"%d" % seq, b"%d" % stamp_ns, kind, body, previous))).hexdigest()


def _check_link(row: Sequence[object], seq: int, previous: str, path: Path) -> str:
    found, stamp_ns, kind, campaign, body, before, digest, named = row
    linked, why = "", ""
    if not (
        isinstance(stamp_ns, int) and isinstance(kind, bytes) and isinstance(body, bytes) and isinstance(before, bytes)
    ):
        why = "its fields are damaged"
    elif found != seq:
        why = f"event {found} is in its place"
    elif before != previous.encode():
        why = "it does not follow the previous event"
    elif digest != (linked := link(seq, stamp_ns, kind, body, before)).encode():
        why = "its hash does not match its content"
    elif campaign != (named or b""):
        why = "its campaign column and its body name different campaigns"
    if why:
        raise LedgerProblem(
            f"Event {seq} of the ledger does not verify: {why}. The ledger was changed or damaged from this event on. "
            f"{advice(path)}"
        )
    return linked


def _squeezed(sql: str) -> str:
    """A definition without spaces and quotation marks, which differ between the versions that wrote it."""
    return re.sub(r'[\s"\[\]`]', "", sql)
