"""Real processes that are killed, and an audit that trusts none of them.

The witness reads every episode that lies in a spool before anybody acknowledged it, so it knows what must not be lost.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from enpire.campaign.events import LedgerEntry
from enpire.errors import TransportProblem
from enpire.queries.decision_audit import recompute
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.reconcile import compare
from enpire.wire.messages import Parcel, decode
from tests.fakes.free_port import free_port as free_port
from tests.fakes.point_task import environment
from tests.fakes.waiting import until as until

WAIT_S = 300.0
VERDICTS = frozenset({"success", "failure", "unsafe"})
STATION, LEARNER = "enpire.station.station", "enpire.processes.learner_process"


def rows(home: Path, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """What a query finds in a lab's ledger.

    After a kill inside a commit a reader is refused until the next orchestrator has undone the half-written page.
    """
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            with closing(sqlite3.connect(f"file:{home / 'ledger.db'}?mode=ro", uri=True, timeout=30.0)) as ledger:
                return ledger.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)


def newest_event(home: Path) -> int:
    """Number of the newest ledger event: what an operator who looks now has seen."""
    return int(rows(home, "SELECT coalesce(max(seq), 0) FROM events")[0][0])


def children(pid: int, module: str = "") -> list[int]:
    """Living child processes whose command line names the module, from /proc."""
    listed: list[str] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # the thread, or the process, has ended
            listed += (task / "children").read_text().split()
    return [int(child) for child in listed if module in command_line(int(child))]


def command_line(pid: int) -> str:
    """The command line of a process; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Orchestrator:
    """`enpire run` of one campaign in one home, started as often as needed."""

    words: Sequence[str] = ("run",)
    headless: Sequence[str] = ("--headless",)

    def __init__(self, campaign: Path, home: Path, *options: str, **around: str) -> None:
        self.campaign, self.home, self.options, self.around = campaign, home, options, around
        self.log = home.parent / "orchestrator.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        command = [sys.executable, "-m", "enpire.cli", *self.words, str(self.campaign), "--home", str(self.home)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, *self.headless, *self.options], env=environment() | self.around, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.starts += 1

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        """kill -9; the kernel ends its child processes."""
        if self.alive:
            os.kill(self.pid, number)
            if number == signal.SIGKILL:
                cast("subprocess.Popen[bytes]", self.process).wait()

    def kill_all(self) -> None:
        """Kill all processes at once, as in a power failure."""
        family = [self.pid, *children(self.pid)] if self.alive else []
        for pid in family:
            kill_quietly(pid)
        if self.process is not None:
            self.process.wait()

    def end(self, number: int = signal.SIGINT, patience_s: float = WAIT_S) -> int:
        """Ask it to end; returns its exit code."""
        assert self.process is not None
        self.kill(number)
        return self.process.wait(patience_s)

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def kill_quietly(pid: int, number: int = signal.SIGKILL) -> bool:
    """Kill a process; returns whether it was alive."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def own_spools(home: Path, stations: int) -> list[Path]:
    """The spools of the stations that a campaign starts itself."""
    return [home / "stations" / f"sim-{number}" / "spool" for number in range(1, stations + 1)]


@dataclass
class Witness:
    """Reads the spools often enough to see nearly every episode before it is acknowledged."""

    spools: Sequence[Path]
    seen: dict[str, str] = field(default_factory=dict[str, str])
    """order_id -> outcome, of every episode that was durable at a station."""
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @classmethod
    def of(cls, home: Path, stations: int = 2) -> Witness:
        """A witness of the stations that a campaign starts itself."""
        return cls(own_spools(home, stations))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        for spool in self.spools:
            try:
                names = os.listdir(spool)  # noqa: PTH208 - a hundred times a second
            except OSError:
                continue
            for name in names:
                if name.endswith(".episode") and name[:-8] not in self.seen:
                    self._read(spool / name)

    def _watch(self) -> None:
        while not self._ending.wait(0.02):
            self.look()

    def _read(self, path: Path) -> None:
        try:
            message = decode(path.read_bytes()[65:]).message
        except (OSError, TransportProblem):
            return
        if isinstance(message, Parcel):
            self.seen[path.stem] = message.episode.outcome


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Result of an audit of the records."""

    events: int
    orders: int
    outcomes: Mapping[str, int]
    open: int
    doubled: tuple[str, ...]
    """Orders that were issued, ended or recorded late more than once."""
    lost: tuple[str, ...]
    """Episodes with a verdict that the witness saw and that are missing or different in the ledger."""
    witnessed: int
    refused: int
    different: tuple[str, ...]
    """Decisions that recompute differently from the records."""
    store: str
    """Differences between the ledger and the files."""

    def problems(self) -> list[str]:
        found = [f"lost {order_id}" for order_id in self.lost] + [f"doubled {order_id}" for order_id in self.doubled]
        found += [f"recomputed otherwise: {sentence}" for sentence in self.different]
        return found + ([self.store] if self.store else []) + ([f"{self.open} open"] if self.open else [])


def audit(home: Path, witness: Witness, *, may_be_open: bool = False) -> Audit:
    """Audit the ledger and the files.

    Raises:
        LedgerProblem: the chain or the table of orders does not verify.
    """
    witness.look()
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        events = ledger.verify()
        issued, ended, found = Counter[str](), Counter[str](), Counter[str]()
        outcome_of: dict[str, str] = {}
        refused = 0
        for event in ledger.events():
            refused += event.kind == "episode refused"
            issued.update(_ids(event, "order issued", "orders"))
            ended.update(_ids(event, "orders ended", "episodes"))
            found.update(_ids(event, "orders found", "episodes"))
            outcome_of |= _outcomes(event)
        different = [check.sentence for check in recompute(ledger) if not check.equal]
        differences = compare(Reading(ledger.database), FolderStore(home / "episodes"), deep=True)
    finally:
        ledger.close()
    lost = [key for key, seen in witness.seen.items() if seen in VERDICTS and outcome_of.get(key) != seen]
    doubled = [key for count in (issued, ended, found) for key, times in count.items() if times > 1]
    still_open = set(issued) - set(ended)
    if may_be_open:
        lost = [key for key in lost if key not in still_open]
    return Audit(
        events=events, orders=len(issued), outcomes=Counter(outcome_of.values()), open=len(still_open),
        doubled=tuple(doubled), lost=tuple(lost), witnessed=len(witness.seen), refused=refused,
        different=tuple(different), store="" if differences.none else differences.sentence(),
    )  # fmt: skip


def _ids(event: LedgerEntry, kind: str, key: str) -> list[str]:
    if event.kind != kind:
        return []
    return [str(item["order_id"]) for item in cast("Sequence[Mapping[str, object]]", event.body[key])]


def _outcomes(event: LedgerEntry) -> dict[str, str]:
    if event.kind not in ("orders ended", "orders found"):
        return {}
    items = cast("Sequence[Mapping[str, object]]", event.body["episodes"])
    return {str(item["order_id"]): str(item["outcome"]) for item in items}
