"""Queries of the ledger with typed results. Every count is computed by a query; nothing here writes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from enpire.campaign.events import LedgerEntry, kinds_of
from enpire.campaign.session_events import CampaignResumed, CampaignStarted
from enpire.store import connection, rows
from enpire.store.connection import run
from enpire.store.entries import COLUMNS, entry_from
from enpire.store.ledger import SqliteLedger
from enpire.store.migrations import require_known
from enpire.store.order_page import OPEN, Page, conditions
from enpire.store.rows import OrderRow
from enpire.types import IMPORTED_STATION, Order, OutcomeKind, Purpose, never_began

if TYPE_CHECKING:
    from enpire.store.reset_accuracy import CheckedReset

_ROW = ", ".join(rows.COLUMNS)


class OutcomeCounts(NamedTuple):
    """Number of successes, of orders that ended with a verdict, and of all issued orders.

    `successes / n_ended` is the success rate. `successes / n_all` is its worst case: every order without a verdict
    (aborted, invalid, unknown or open) counts as a failure.
    """

    successes: int
    n_ended: int
    n_all: int


class Rollouts(NamedTuple):
    """Rollouts and their commanded periods."""

    n: int
    ticks: int


class Attempts(NamedTuple):
    """Trials of one policy version that took the same number of attempts and ended with a verdict."""

    policy_id: str
    attempts: int
    """1 + the in-episode retries."""
    successes: int
    n_ended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Number of a campaign's orders by outcome. Each order is counted once, so the counts add up to `started`."""

    started: int
    success: int = 0
    failure: int = 0
    unsafe: int = 0
    aborted: int = 0
    invalid: int = 0
    unknown: int = 0
    open: int = 0
    released: int = 0
    """Those of `aborted` that were released or refused before the robot moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One ended order of a gate."""

    ended_seq: int
    order_id: str
    pair: int
    side: str
    outcome: OutcomeKind
    cause: str
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSpan:
    """The first and the last event of one campaign in the ledger."""

    campaign_id: str
    first_seq: int
    last_seq: int
    first_ns: int
    """Wall clock, in nanoseconds since 1970."""
    last_ns: int


class Reading:
    """Queries of one ledger, over the writer's connection or over a read-only connection that `open` makes."""

    def __init__(self, database: sqlite3.Connection, path: Path = Path("ledger.db")) -> None:
        self._db = database
        self._path = path

    @classmethod
    def open(cls, path: Path) -> Reading:
        """A reader with its own connection, for any thread or process; LedgerProblem when there is no ledger."""
        database = connection.open_reader(path)
        with connection.sentences(path):
            require_known(database, path)
        return cls(database, path)

    @classmethod
    def of(cls, ledger: SqliteLedger) -> Reading:
        """A reader over the connection of an open ledger, for the thread that uses the ledger."""
        return cls(ledger.database, ledger.path)

    def close(self) -> None:
        """Close the connection. Allowed twice."""
        self._db.close()

    def order(self, order_id: str) -> OrderRow | None:
        """One order and its episode; None when it was never issued."""
        found = self.select(f"SELECT {_ROW} FROM orders WHERE order_id = ?", order_id)
        return rows.read(found[0]) if found else None

    def order_ids(self, part: str, limit: int = 2) -> list[str]:
        """At most `limit` ids of orders that begin or end with a text."""
        sql = "SELECT order_id FROM orders WHERE substr(order_id, 1, ?) = ? OR substr(order_id, -?) = ? LIMIT ?"
        return [row[0] for row in self.select(sql, len(part), part, len(part), part, limit)]

    def open_orders(self, campaign_id: str) -> list[Order]:
        """Orders that were issued and have not ended, oldest first."""
        sql = f"SELECT {_ROW} FROM orders WHERE campaign_id = ? AND ended_seq IS NULL ORDER BY order_id"
        return [rows.read(row).order for row in self.select(sql, campaign_id)]

    def ends(self, campaign_id: str) -> Ends:
        """The orders of a campaign by outcome, each counted once."""
        counts: dict[str, int] = {}
        for (outcome, cause), n in self.causes(campaign_id).items():
            for kind in (outcome, "released") if never_began(outcome, cause) else (outcome,):
                counts[kind] = counts.get(kind, 0) + n
        (started,) = self.select("SELECT count(*) FROM orders WHERE campaign_id = ?", campaign_id)[0]
        return Ends(started=started, **counts)

    def causes(self, campaign_id: str) -> Mapping[tuple[str, str], int]:
        """Number of orders by (outcome, cause); open orders are counted as (OPEN, "")."""
        sql = "SELECT outcome, cause, count(*) FROM orders WHERE campaign_id = ? GROUP BY outcome, cause"
        counted: list[tuple[str | None, str | None, int]] = self.select(sql, campaign_id)
        return {(outcome or OPEN, cause or ""): n for outcome, cause, n in counted}

    def successes(
        self, campaign_id: str, purpose: Purpose, policy_id: str = "", round: int | None = None
    ) -> OutcomeCounts:
        """Outcome counts of the orders of a purpose, of all policies and rounds or of one."""
        where, values = conditions(
            {"campaign_id": campaign_id, "purpose": purpose, "policy_id": policy_id or None, "round": round}
        )
        # Names the index: without statistics SQLite prefers the index on outcome and reads every row.
        sql = f"SELECT outcome, count(*) FROM orders INDEXED BY orders_by_purpose WHERE {where} GROUP BY outcome"
        counted: dict[str | None, int] = dict(self.select(sql, *values))
        verdicts = [counted.get(kind, 0) for kind in ("success", "failure", "unsafe")]
        return OutcomeCounts(verdicts[0], sum(verdicts), sum(counted.values()))

    def success_ticks(self, campaign_id: str, purpose: Purpose, policy_id: str) -> list[int]:
        """Commands of each success of a version, for one purpose."""
        sql = (
            "SELECT ticks FROM orders INDEXED BY orders_by_purpose "
            "WHERE campaign_id = ? AND purpose = ? AND policy_id = ? AND outcome = 'success'"
        )
        return [row[0] for row in self.select(sql, campaign_id, purpose, policy_id)]

    def attempts(self, campaign_id: str, purposes: Sequence[Purpose]) -> list[Attempts]:
        """Orders of some purposes that ended with a verdict, counted by policy version and number of attempts."""
        purpose_in = ", ".join("?" * len(purposes))
        sql = (
            "SELECT policy_id, 1 + json_array_length(coalesce(attempts_json, '[]')), sum(outcome = 'success'), "
            "count(*) FROM orders INDEXED BY orders_by_purpose "
            f"WHERE campaign_id = ? AND purpose IN ({purpose_in}) AND outcome IN ('success', 'failure', 'unsafe') "
            "GROUP BY 1, 2 ORDER BY 1, 2"
        )
        return [Attempts(*row) for row in self.select(sql, campaign_id, *purposes)]

    def gate_trials(self, gate_id: str) -> list[Trial]:
        """The ended orders of a gate, in the order in which they ended."""
        columns = ("ended_seq", "order_id", "pair", "side", "outcome", "cause", "ticks")
        sql = (
            f"SELECT {', '.join(columns)} FROM orders WHERE gate_id = ? AND gate_id <> '' AND ended_seq IS NOT NULL "
            "ORDER BY ended_seq, order_id"
        )
        named = (dict(zip(columns, row, strict=True)) for row in self.select(sql, gate_id))
        return [Trial(**row) for row in named]  # pyright: ignore[reportArgumentType]

    def episodes(self, page: Page) -> list[OrderRow]:
        """One page of orders with their episodes, newest first; for the next page set `before` to the last order_id."""
        where, values = page.conditions()
        sql = f"SELECT {_ROW} FROM orders WHERE {where} ORDER BY order_id DESC LIMIT ?"
        return [rows.read(row) for row in self.select(sql, *values, page.limit)]

    def same_start(self, row: OrderRow, limit: int = 20) -> list[OrderRow]:
        """At most `limit` other ended episodes of the campaign from the start of an order, newest first."""
        start = row.order.start
        sql = (
            f"SELECT {_ROW} FROM orders WHERE campaign_id = ? AND split = ? AND start_index = ? AND order_id <> ? "
            "AND ticks > 0 ORDER BY order_id DESC LIMIT ?"
        )
        found = self.select(sql, row.order.campaign_id, start.split, start.index, row.order.order_id, limit)
        return [rows.read(one) for one in found]

    def stamps(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """Event number -> wall clock of that event, in nanoseconds since 1970."""
        sql = f"SELECT seq, stamp_ns FROM events WHERE seq IN ({', '.join('?' * len(numbers))})"
        return dict(self.select(sql, *numbers))

    def labels(self, campaign_id: str) -> list[tuple[str, str]]:
        """(verdict, newest label) of every episode with a label."""
        sql = "SELECT outcome, person_outcome FROM orders WHERE campaign_id = ? AND person_outcome IS NOT NULL"
        return self.select(sql, campaign_id)

    def unchecked(self, campaign_id: str, limit: int) -> list[OrderRow]:
        """At most `limit` recorded successes without a label, drawn at random."""
        sql = (
            f"SELECT {_ROW} FROM orders WHERE campaign_id = ? AND outcome = 'success' AND person_outcome IS NULL "
            "AND sha256 <> '' ORDER BY random() LIMIT ?"
        )
        return [rows.read(row) for row in self.select(sql, campaign_id, limit)]

    def training_episodes(self, campaign_id: str, rounds: Sequence[int] = ()) -> list[str]:
        """Ids of recorded episodes that a learner may read, oldest first; empty `rounds` selects all rounds.

        Only successes and failures on train starts: episodes on holdout and confirm starts are never included.
        """
        allowed = f"AND round IN ({', '.join('?' * len(rounds))})" if rounds else ""
        sql = (
            f"SELECT order_id FROM orders {'INDEXED BY orders_by_round' if rounds else ''} "
            "WHERE campaign_id = ? AND split = 'train' AND sha256 <> '' "
            "AND purpose IN ('demonstrate', 'collect', 'extra', 'base') AND outcome IN ('success', 'failure') "
            f"{allowed} ORDER BY order_id"
        )
        return [row[0] for row in self.select(sql, campaign_id, *rounds)]

    def recorded_on_train_starts(self, campaign_id: str) -> list[str]:
        """Ids of ended orders on train starts whose recording the episode store must hold, oldest first."""
        sql = "SELECT order_id FROM orders WHERE campaign_id = ? AND split = 'train' AND sha256 <> '' ORDER BY order_id"
        return [row[0] for row in self.select(sql, campaign_id)]

    def recorded(self, campaign_id: str = "") -> list[str]:
        """Ids of all ended orders, of one or of every campaign, whose recording the episode store must hold."""
        where, values = conditions({"campaign_id": campaign_id or None})
        sql = f"SELECT order_id FROM orders WHERE {where} AND (sha256 <> '' OR pictures_sha256 <> '') ORDER BY order_id"
        return [row[0] for row in self.select(sql, *values)]

    def file_hashes(self) -> list[tuple[str, str, str, str]]:
        """(campaign id, order id, sha256 of the arrays, of the camera images) of every recorded episode."""
        sql = "SELECT campaign_id, order_id, sha256, pictures_sha256 FROM orders"
        return self.select(f"{sql} WHERE sha256 <> '' OR pictures_sha256 <> ''")

    def recordings(self, campaign_id: str) -> list[tuple[str, str]]:
        """(sha256 of the arrays, outcome) of every recorded episode of a campaign."""
        sql = "SELECT sha256, outcome FROM orders WHERE campaign_id = ? AND sha256 <> ''"
        return self.select(sql, campaign_id)

    def uniform_success(self, campaign_id: str, policy_id: str) -> float | None:
        """Success rate of a version in data collection, on uniformly drawn train starts; None without a verdict.

        Rollouts of its collector do not count, as they have more noise than the version has when it is deployed.

        Hard-start sampling draws the odd train starts, so only the even ones are uniform.
        """
        sql = (
            "SELECT avg(outcome = 'success') FROM orders WHERE campaign_id = ? AND purpose IN ('collect', 'extra') "
            "AND policy_id = ? AND outcome IN ('success', 'failure', 'unsafe') AND start_index % 2 = 0 "
            "AND NOT explored"
        )
        return self.select(sql, campaign_id, policy_id)[0][0]

    def judged(self, campaign_id: str, purposes: Sequence[Purpose], since: int, until: int | None = None) -> int:
        """Episodes of these purposes with a verdict that ended after event `since` and, if given, before `until`."""
        sql = (
            f"SELECT count(*) FROM orders WHERE campaign_id = ? AND purpose IN ({', '.join('?' * len(purposes))}) "
            "AND outcome IN ('success', 'failure', 'unsafe') AND ended_seq > ? AND (? IS NULL OR ended_seq < ?)"
        )
        return self.select(sql, campaign_id, *purposes, since, until, until)[0][0]

    def outcomes(self, order_ids: Iterable[str]) -> Mapping[str, int]:
        """Outcome -> how many of these orders ended so."""
        sql = "SELECT outcome, count(*) FROM orders WHERE order_id IN (SELECT value FROM json_each(?)) GROUP BY outcome"
        return dict(self.select(sql, json.dumps(list(order_ids))))

    def demonstrations(self, campaign_id: str) -> list[str]:
        """Ids of the orders of demonstrations."""
        sql = "SELECT order_id FROM orders WHERE campaign_id = ? AND purpose = 'demonstrate'"
        return [row[0] for row in self.select(sql, campaign_id)]

    def imported(self, campaign_id: str) -> list[str]:
        """Ids of the episodes that were imported."""
        sql = f"SELECT order_id FROM orders WHERE campaign_id = ? AND station = '{IMPORTED_STATION}'"
        return [row[0] for row in self.select(sql, campaign_id)]

    def rollouts(self, campaign_id: str) -> Rollouts:
        """Rollouts of the campaign's robots that have sent a command, without imported episodes."""
        sql = (
            "SELECT count(*), coalesce(sum(ticks), 0) FROM orders WHERE campaign_id = ? AND ticks > 0 "
            f"AND station <> '{IMPORTED_STATION}'"
        )
        return Rollouts(*self.select(sql, campaign_id)[0])

    def is_event_of(self, seq: int, campaign_id: str) -> bool:
        """Whether the event with this number belongs to a campaign."""
        return bool(self.select("SELECT 1 FROM events WHERE seq = ? AND campaign_id = ?", seq, campaign_id))

    def early_stops(self, campaign_id: str) -> tuple[int, int, int, float]:
        """Predicted failures: (stopped, continued in the control arm, successes of these, seconds continued)."""
        armed = "json_extract(early_stop_json, '$.armed')"
        control = f"NOT {armed} AND outcome IN ('success', 'failure', 'unsafe')"
        sql = (
            f"SELECT coalesce(sum({armed} AND outcome = 'aborted'), 0), coalesce(sum({control}), 0), "
            f"coalesce(sum({control} AND outcome = 'success'), 0), "
            f"coalesce(sum(CASE WHEN {control} THEN (ended_s - began_s) * (ticks - hopeless_at) / ticks END), 0.0) "
            "FROM orders WHERE campaign_id = ? AND hopeless_at >= 0 AND ticks > 0"
        )
        return self.select(sql, campaign_id)[0]

    def resets(self, campaign_id: str) -> list[CheckedReset]:
        """The reset of every order whose reset was checked (`enpire.store.reset_accuracy`)."""
        sql = (
            "SELECT json_extract(start_json, '$.values'), achieved_start_json, reset_attempts, cause <> 'reset failed' "
            "FROM orders WHERE campaign_id = ? AND achieved_start_json <> '[]' AND reset_attempts > 0"
        )
        found: list[tuple[str, str, int, int]] = self.select(sql, campaign_id)
        return [
            (tuple(json.loads(start)), tuple(json.loads(achieved)), tries, bool(reached))
            for start, achieved, tries, reached in found
        ]

    def tail(self, limit: int = 50, campaign_id: str = "") -> list[LedgerEntry]:
        """The newest entries for display, oldest first; an empty `campaign_id` selects all campaigns."""
        where, values = conditions({"campaign_id": campaign_id or None})
        found = self.select(f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY seq DESC LIMIT ?", *values, limit)
        return [entry_from(row, shown_only=True) for row in reversed(found)]

    def events(
        self, after: int = 0, campaign_id: str = "", kinds: Sequence[str] = (), limit: int = 1000
    ) -> list[LedgerEntry]:
        """At most `limit` entries with seq > `after`, in order; empty filters select all campaigns and all kinds."""
        where, values = conditions({"campaign_id": campaign_id or None})
        if kinds:
            where, values = f"{where} AND kind IN ({', '.join('?' * len(kinds))})", [*values, *kinds]
        sql = f"SELECT {COLUMNS} FROM events WHERE {where} AND seq > ? ORDER BY seq LIMIT ?"
        return [entry_from(row) for row in self.select(sql, *values, after, limit)]

    def verifiers(self, campaign_id: str) -> tuple[str, ...]:
        """The digests that the campaign's sessions recorded, newest first. All of them give the same verdicts."""
        sql = (
            "SELECT json_extract(body, '$.verifier') FROM events WHERE campaign_id = ? AND kind IN (?, ?) "
            "AND json_extract(body, '$.verifier') > '' ORDER BY seq DESC"
        )
        found = self.select(sql, campaign_id, *kinds_of(CampaignStarted, CampaignResumed))
        return tuple(dict.fromkeys(str(row[0]) for row in found))

    def campaigns(self) -> list[CampaignSpan]:
        """The span of every campaign, newest first."""
        # Reads one index entry per campaign, so that the cost does not grow with the number of events.
        sql = (
            "WITH RECURSIVE known(id) AS (SELECT min(campaign_id) FROM events WHERE campaign_id > '' UNION ALL "
            "SELECT (SELECT min(campaign_id) FROM events WHERE campaign_id > known.id) FROM known "
            "WHERE known.id IS NOT NULL) SELECT id FROM known WHERE id IS NOT NULL"
        )
        named: list[str] = [row[0] for row in self.select(sql)]
        return sorted((self._span(name) for name in named), key=lambda span: span.first_seq, reverse=True)

    def _span(self, campaign_id: str) -> CampaignSpan:
        sql = "SELECT seq, stamp_ns FROM events WHERE campaign_id = ? ORDER BY seq {} LIMIT 1"
        ends: list[tuple[int, int]] = [self.select(sql.format(way), campaign_id)[0] for way in ("ASC", "DESC")]
        (first_seq, first_ns), (last_seq, last_ns) = ends
        return CampaignSpan(
            campaign_id=campaign_id, first_seq=first_seq, last_seq=last_seq, first_ns=first_ns, last_ns=last_ns
        )

    def select(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query. An open cursor would keep the writer from committing."""
        with connection.sentences(self._path):
            return run(self._db, sql, values).fetchall()
