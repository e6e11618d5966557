"""Old ledgers are copied and migrated, newer ones refused, foreign ones left alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from enpire.errors import LedgerProblem
from enpire.store import connection, durable, migrations
from enpire.store.head import HeadFile
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.store.reading import Reading
from tests.enpire.store.store_samples import a_closed_ledger, an_episode, an_order, ended, issued


def _old_schema(path: Path, version: int) -> None:
    """The ledger as the software of that schema would have left it: later tables gone, the events the same."""
    path.with_suffix(".head").unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        assert version == 1
        editor.execute("DROP TABLE orders")
        editor.execute("DROP TABLE head_hmac")
        editor.execute(f"PRAGMA user_version = {version}")


def test_an_old_ledger_is_copied_then_migrated(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    orders = [an_order() for _ in range(5)]
    a_closed_ledger(path, issued(*orders), ended(*(an_episode(order) for order in orders[:3])))
    with closing(Reading.open(path)) as reading:
        before = [reading.order(order.order_id) for order in orders]
    _old_schema(path, 1)
    with pytest.raises(LedgerProblem, match="has an old schema: open it once for writing"):
        SqliteLedger(path, read_only=True)
    with closing(open_to_read(path)) as ledger:
        assert ledger.verify() == 2
        assert [Reading(ledger.database).order(order.order_id) for order in orders] == before
    with closing(sqlite3.connect(tmp_path / "ledger.db.schema-1")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (1,)
        assert copy.execute("SELECT count(*) FROM events").fetchone() == (2,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not [file.name for file in tmp_path.iterdir() if file.name.startswith(durable.STAGED)]


def test_a_ledger_of_the_schema_before_branches_is_read_and_migrated(tmp_path: Path) -> None:
    """Schema 6 has the HMAC of the head; its orders table has no column for the branch."""
    path, orders = tmp_path / "ledger.db", [an_order() for _ in range(3)]
    a_closed_ledger(path, issued(*orders), ended(*map(an_episode, orders)))
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        editor.execute("ALTER TABLE orders DROP COLUMN branch")
        editor.execute("PRAGMA user_version = 6")
    with closing(open_to_read(path)) as ledger:
        assert ledger.verify() == 2
        rows = [Reading(ledger.database).order(order.order_id) for order in orders]
        assert [row.order for row in rows if row is not None] == orders
    with closing(sqlite3.connect(path)) as migrated:
        assert migrated.execute("PRAGMA user_version").fetchone() == (len(migrations.STEPS),)
        assert migrated.execute("SELECT count(*) FROM head_hmac").fetchone() == (1,)


def test_the_head_file_of_the_first_schema_that_has_one_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    a_closed_ledger(path, issued(an_order()))
    earlier = path.with_suffix(".head").read_bytes()
    a_closed_ledger(path, issued(an_order()))
    path.with_suffix(".head").write_bytes(earlier)
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        editor.execute("ALTER TABLE orders DROP COLUMN branch")
        editor.execute(f"PRAGMA user_version = {migrations.SIGNED}")
    SqliteLedger(path).close()
    filed = HeadFile(path).read()
    assert filed is not None
    assert filed.head.seq == 2


def test_a_ledger_without_the_indexes_of_lists_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    a_closed_ledger(path, issued(an_order()))
    names = "SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name"
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        whole = editor.execute(names).fetchall()
        for name in ("page_of_purpose", "page_of_hidden", "page_of_train", "labelled"):
            editor.execute(f"DROP INDEX orders_{name}")
        editor.execute("PRAGMA user_version = 7")
    with closing(open_to_read(path)) as ledger:
        assert ledger.verify() == 1
    with closing(sqlite3.connect(path)) as migrated:
        assert migrated.execute(names).fetchall() == whole


def test_a_failing_step_leaves_the_old_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    a_closed_ledger(path, issued(an_order()))

    def failing(db: object, path: Path) -> None:
        connection.run(database, "CREATE TABLE half (x INTEGER) STRICT")
        raise LedgerProblem("This step fails.")

    database = connection.open_writer(path)
    with pytest.raises(LedgerProblem, match="This step fails"):
        migrations.migrate(database, path, (*migrations.STEPS, failing))
    database.close()
    with closing(SqliteLedger(path)) as ledger:
        assert ledger.verify() == 1
        assert connection.run(ledger.database, "SELECT 1 FROM sqlite_schema WHERE name = 'half'").fetchone() is None


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_ledger_is_refused(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "ledger.db"
    a_closed_ledger(path)
    with closing(sqlite3.connect(path)) as editor:
        editor.execute("PRAGMA user_version = 99")
    with pytest.raises(
        LedgerProblem, match=f"has schema 99, this version of ENPIRE reads up to {len(migrations.STEPS)}"
    ):
        SqliteLedger(path, read_only=read_only)
    with pytest.raises(LedgerProblem, match="has schema 99"):
        Reading.open(path)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_foreign_database_is_left_alone(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as editor:
        editor.execute("CREATE TABLE recipes (x)")
    before = path.read_bytes()
    with pytest.raises(LedgerProblem, match="not an ENPIRE ledger"):
        SqliteLedger(path, read_only=read_only)
    assert path.read_bytes() == before


def test_an_edited_orders_table_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    order = an_order()
    a_closed_ledger(path, issued(order, an_order()), ended(an_episode(order, "failure")))
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        editor.execute("UPDATE orders SET outcome = 'success' WHERE outcome = 'failure'")
    differs = f"Order {order.order_id} in the orders table differs from its events"
    with closing(SqliteLedger(path, read_only=True)) as ledger, pytest.raises(LedgerProblem, match=differs):
        ledger.verify()
    with pytest.raises(LedgerProblem, match=differs):
        SqliteLedger(path)


def test_a_fault_of_the_disk_while_a_ledger_is_made_leaves_out_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sqlite_utils takes a refused write of its probe as a SQLite without STRICT tables."""
    from sqlite_utils import Database

    monkeypatch.setattr(Database, "supports_strict", property(lambda _: False))
    SqliteLedger(tmp_path / "ledger.db").close()
    SqliteLedger(tmp_path / "ledger.db").close()


def _schema_7(path: Path, change: str = "") -> None:
    """The ledger as schema 7 had it, after a change from outside."""
    with closing(sqlite3.connect(path, isolation_level=None)) as editor:
        for name in ("orders_page_of_purpose", "orders_page_of_hidden", "orders_page_of_train", "orders_labelled"):
            editor.execute(f"DROP INDEX {name}")
        editor.execute("ALTER TABLE orders DROP COLUMN explored")
        editor.execute("PRAGMA user_version = 7")
        if change:
            editor.execute(change)


def test_a_ledger_of_an_older_schema_that_was_changed_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    a_closed_ledger(path, issued(an_order(), an_order()))
    _schema_7(path, "UPDATE head_hmac SET hmac = '00'")
    for _ in range(2):
        with pytest.raises(LedgerProblem, match="HMAC of the head"):
            SqliteLedger(path)


def test_an_orders_table_that_was_changed_before_a_migration_is_replayed(tmp_path: Path) -> None:
    path, order = tmp_path / "ledger.db", an_order()
    a_closed_ledger(path, issued(order))
    _schema_7(path, "UPDATE orders SET station = 'other'")
    with closing(SqliteLedger(path)) as ledger:
        row = Reading(ledger.database).order(order.order_id)
        assert row is not None
        assert row.order == order


def test_a_migration_keeps_since_when_heads_have_an_hmac(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    a_closed_ledger(path, issued(an_order()))
    before = path.with_suffix(".head").read_text()
    _schema_7(path)
    SqliteLedger(path).close()
    assert path.with_suffix(".head").read_text() == before


def test_evidence_of_an_older_version_is_read_without_the_secret(tmp_path: Path) -> None:
    path = tmp_path / "there" / "ledger.db"
    path.parent.mkdir()
    a_closed_ledger(path, issued(an_order(), an_order()))
    away = tmp_path / "away" / "ledger.db"
    away.parent.mkdir()
    with closing(sqlite3.connect(path)) as editor, closing(sqlite3.connect(away, isolation_level=None)) as copy:
        editor.backup(copy)
    _schema_7(away)
    with closing(open_to_read(away)) as ledger:
        assert ledger.verify() == 1
    assert not (away.parent / "secret").exists(), "a new secret would fit no HMAC"
    with pytest.raises(LedgerProblem, match="secret .* is missing"):
        SqliteLedger(away)
