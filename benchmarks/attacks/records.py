"""Attacks on the records of a home: the ledger, its orders table, its history, the files of its episodes."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from typer.testing import CliRunner
from typer.testing import Result as Answer

from benchmarks.attacks import Result, Run, attack
from enpire.cli import app
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from tests.enpire.store.store_samples import (
    a_recording,
    an_episode,
    an_order,
    chained_again,
    ended,
    issued,
    signed_again,
)
from tests.fakes.sample_campaign import record_campaign
from tests.fakes.sample_events import append

OWNER = "another user or program that may write the home's files, without its secret"


def enpire(*words: str | Path) -> Answer:
    """Run one command line."""
    return CliRunner().invoke(app, [str(word) for word in words])


def verified(home: Path, *words: str) -> bool:
    """Whether `enpire ledger verify` finds no fault."""
    return enpire("ledger", "verify", "--home", home, *words).exit_code == 0


def edit(home: Path, *statements: str) -> None:
    """Change the ledger's database past ENPIRE."""
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as editor:
        for statement in statements:
            editor.execute(statement)


def recorded_home(home: Path) -> Path:
    """A home with 20 orders, of which 4 have recorded files."""
    store = FolderStore(home / "episodes")
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        for number in range(20):
            order = an_order()
            episode, data = a_recording(order, seed=number) if number < 4 else (an_episode(order, sha256=""), b"")
            append(ledger, [issued(order)])
            if data:
                store.put(episode, data)
            append(ledger, [ended(episode)])
    return home


def readings(home: Path) -> object:
    """Every value that the tables of the ledger and the episodes give; None where they cannot be read."""
    try:
        with closing(sqlite3.connect(f"file:{home / 'ledger.db'}?mode=ro", uri=True)) as database:
            rows = [database.execute(f"SELECT * FROM {table}").fetchall() for table in ("events", "head", "orders")]
        store = FolderStore(home / "episodes")
        return rows, [(store.facts(store.folder(name)), str(store.get(name).arrays)) for name in store.ids()]
    except Exception:  # noqa: BLE001 - damaged files fail in many ways
        return None


def flips(path: Path, where: random.Random, count: int) -> Iterator[None]:
    """Flip bits of a file, one at a time; four of five in bytes that are not 0."""
    whole = path.read_bytes()
    told = [place for place, byte in enumerate(whole) if byte]
    for _ in range(count):
        damaged = bytearray(whole)
        place = where.choice(told) if where.random() < 0.8 else where.randrange(len(whole))
        damaged[place] ^= 1 << where.randrange(8)
        path.write_bytes(damaged)
        yield
    path.write_bytes(whole)


@attack("a disk that flips single bits", "a changed verdict counts unnoticed")
def a_flipped_bit_in_the_records(run: Run) -> Result:
    """Flip bits of the database, of the episodes' files, of the head file and of the secret, and verify the home."""
    home, where = recorded_home(run.folder / "home"), random.Random(run.seed)
    before, tried, found, equal = readings(home), 0, 0, 0
    arrays, facts = (next((home / "episodes").glob(f"*/*/{name}")) for name in ("arrays.npz", "episode.json"))
    per_file = {home / "ledger.db": 36, arrays: 4, facts: 4, home / "ledger.head": 3, home / "secret": 3}
    for path, count in per_file.items():
        for _ in flips(path, where, count if run.quick else 10 * count):
            tried += 1
            if not verified(home):
                found += 1
            elif readings(home) == before:
                equal += 1
    evidence = f"of {tried} flipped bits {found} were found, {equal} changed no reading"
    return Result(tried=tried, held=found + equal, evidence=evidence)


@attack(OWNER, "failures count as successes")
def verdicts_rewritten_in_the_orders_table(run: Run) -> Result:
    """Make every failure a success in the orders table, then verify, recompute, report, and start to write."""
    home = run.folder / "home"
    record_campaign(home)
    edit(home, "UPDATE orders SET outcome = 'success' WHERE outcome = 'failure'")
    damaged = (home / "ledger.db").read_bytes()
    report = enpire("report", "--home", home)
    told = Path(report.stdout.strip()).read_text(encoding="utf-8") if report.exit_code == 0 else ""
    found = {
        "verify": not verified(home, "--ledger-only"),
        "recompute": enpire("ledger", "recompute", "--home", home).exit_code != 0,
        "report": "in the orders table differs from its events" in told,
        "a writer": enpire("campaign", "stop", "--home", home).exit_code != 0
        and (home / "ledger.db").read_bytes() == damaged,
    }
    refused = ", ".join(name for name, refuses in found.items() if refuses)
    return Result(
        tried=len(found),
        held=sum(found.values()),
        evidence=f"noticed by {sum(found.values())} of {len(found)}: {refused}",
    )


FORGERIES = {
    "the last 50 events removed": "DELETE FROM events WHERE seq > (SELECT max(seq) - 50 FROM events)",
    "one decision removed": "DELETE FROM events WHERE seq = (SELECT min(seq) FROM events WHERE kind = 'gate decided')",
    "all failures made successes": "UPDATE events SET body = replace(body, '\"failure\"', '\"success\"')",
    "all times shifted by a day": "UPDATE events SET stamp_ns = stamp_ns - 86400000000000",
}  # fmt: skip


def forged(home: Path, forgery: str) -> None:
    """Rewrite the history, every hash of the chain, the head, and the orders table from it."""
    edit(home, forgery)
    chained_again(home / "ledger.db")


@attack(OWNER, "another history passes as the recorded one")
def a_history_rewritten_with_all_its_hashes(run: Run) -> Result:
    """Change or remove events and compute the whole chain anew, also as if an older version had written it."""
    tried = held = 0
    for number, forgery in enumerate(list(FORGERIES.values())[: 2 if run.quick else None]):
        home = run.folder / str(number)
        record_campaign(home)
        forged(home, forgery)
        tried, held = tried + 1, held + (not verified(home, "--ledger-only"))
        edit(home, "DROP TABLE head_hmac", "PRAGMA user_version = 5")
        tried, held = tried + 1, held + (not verified(home, "--ledger-only"))
    return Result(tried=tried, held=held, evidence=f"{held} of {tried} rewritten histories were found")


@attack("the owner of the home, with its secret", "another history passes as the one that was published")
def a_history_rewritten_and_signed_anew(run: Run) -> Result:
    """Rewrite the history with the secret, and compare it with a head that was noted before."""
    tried = held = 0
    for number, forgery in enumerate(list(FORGERIES.values())[: 2 if run.quick else None]):
        home = run.folder / str(number)
        record_campaign(home)
        noted = enpire("ledger", "head", "--home", home).stdout.strip()
        forged(home, forgery)
        signed_again(home / "ledger.db")
        tried, held = tried + 1, held + (not verified(home, "--ledger-only", "--expect", noted))
    return Result(tried=tried, held=held, evidence=f"{held} of {tried} differed from the head that was noted before")


@attack(OWNER, "the newest events are forgotten")
def an_older_copy_in_place_of_the_ledger(run: Run) -> Result:
    """Put yesterday's ledger back, alone, or remove the ledger or its head file."""
    home = recorded_home(run.folder / "home")
    shutil.copytree(home, before := run.folder / "before")
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        append(ledger, [issued(an_order())])
    held = 0
    for number, files in enumerate((("ledger.db",), ("ledger.head",), ("ledger.db", "ledger.head"))):
        forgery = shutil.copytree(home, run.folder / str(number))
        for name in files:
            if files == ("ledger.head",):
                (forgery / name).unlink()
            elif name == "ledger.db":
                shutil.copy(before / name, forgery / name)
            else:
                text = (before / name).read_text()
                (forgery / name).write_text(text.replace('"hmac": "', '"hmac": "0')[: len(text)] + "\n")
        held += not verified(forgery, "--ledger-only")
    return Result(
        tried=3, held=held, evidence=f"{held} of 3 were found; with the old head file too, only a noted head helps"
    )


WRITER = """
import sys
from pathlib import Path
from tests.enpire.store.store_samples import an_episode, an_order, ended, issued
from tests.fakes.sample_events import append
from enpire.store.ledger import SqliteLedger
ledger = SqliteLedger(Path(sys.argv[1]))
print("open", flush=True)
while True:
    order = an_order()
    append(ledger, [issued(order), ended(an_episode(order))])
"""


@attack("kill -9 at any moment of a writer", "a sound ledger is refused")
def writers_killed_between_the_ledger_and_its_head_file(run: Run) -> Result:
    """Kill a writer at random moments, and verify after each kill without touching anything."""
    home, where = run.folder / "home", random.Random(run.seed)
    kills, held = (6 if run.quick else 60), 0
    for _ in range(kills):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home / "ledger.db")], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(where.uniform(0.0, 0.2))
            writer.send_signal(signal.SIGKILL)
        held += verified(home, "--ledger-only")
    return Result(tried=kills, held=held, evidence=f"{held} of {kills} ledgers verified after the kill, none by hand")
