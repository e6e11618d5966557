"""The processes, networks and disks of `benchmarks.chaos`, and the failures that it causes in them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from enpire.requests import operator_commands
from enpire.station.station_file import StationFile, write_station
from enpire.wire.curve_keys import enroll, server_keys
from sim.lost_network import Relay
from tests.chaos import point_lab
from tests.chaos.harness import (
    LEARNER,
    STATION,
    VERDICTS,
    Orchestrator,
    Witness,
    children,
    free_port,
    kill_quietly,
    own_spools,
    rows,
    until,
)
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import environment, point_station
from tests.faults.cut_commit import is_cut

PATIENCE_S = 600.0
"""A busy machine starts seven processes in minutes."""
SYNCS, COMMIT_S = 12, 20.0
"""A kill inside a commit comes at one of the next syncs of the ledger, of which a commit has five, within a time."""
LOCAL = 4
"""Stations that the campaign starts itself; two more connect: one far away, one with a guard."""
GUARD = "robot_drivers.guard"
ROOMY = "4g"
PICTURE_PX = 160
"""Side of the far station's camera image in pixels: noise, so that an episode's images need several parts."""
OFTEN: Mapping[str, int] = {"kill -9 orchestrator inside a commit": 5, "kill -9 orchestrator": 2, "stop in a flood": 3}
"""Failures that are caused more often than the others."""


class SmallDisk:
    """A tmpfs that can be filled and cleared; an ordinary folder for users who may not mount."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        options = ["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs", str(folder)]
        self.mounted = subprocess.run(options, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        while True:
            now = os.statvfs(self.folder)
            used = (now.f_blocks - now.f_bfree) * now.f_frsize
            if self._resize(str(used)):
                return

    def clear(self) -> None:
        self._resize(ROOMY)

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)

    def _resize(self, size: str) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self.folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


class World:
    """The processes, network and disks that fail and recover."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.draw, self.root = draw, root
        self.disks = {"orchestrator": SmallDisk(root / "disk"), "far": SmallDisk(root / "far-disk")}
        self.home, self.robots = root / "disk" / "home", root / "robots"
        self.robots.mkdir()
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        # In real time, because fast simulations get the processor time that is left, which on a busy machine is none.
        campaign = write_campaign(
            root / "files", stations=LOCAL, bind=self.address, log=self.robots / "sim", pace="realtime"
        )
        self.orchestrator = Orchestrator(campaign, self.home)
        self.orchestrator.log = root / "orchestrator.log"
        self.relay = Relay(self.address)
        self.files = {"far": self._far_file(), "guarded": self._guarded_file()}
        self.witness = Witness([*own_spools(self.home, LOCAL), *(file.home / "spool" for file in self.files.values())])
        self.others: dict[str, subprocess.Popen[bytes]] = {}
        self.restarted = Counter[str]()
        """Stations that ended by themselves and were started again."""
        self.hot = Counter[str]()
        """Kills inside a commit: `hot` left a journal that a reader cannot undo, `whole` did not."""

    def _far_file(self) -> StationFile:
        options = {"period_s": 0.01, "picture_px": PICTURE_PX, "log": str(self.robots / "far")}
        file = point_station(self.root / "far-disk", "far", lanes=4, options=options, record="all", min_free_mb=16)
        return replace(file, driver=f"{point_lab.MODULE}:open_logged")

    def _guarded_file(self) -> StationFile:
        folder = self.root / "guard"
        guard = {
            "driver": f"{point_lab.MODULE}:open_limited", "folder": str(folder), "pace": "fast", "watchdog_s": 0.5,
            "person_to_resume": False,
        }  # fmt: skip
        options = {"guard": guard, "options": {"period_s": 0.01, "log": str(self.robots / "guarded")}}
        file = point_station(self.root / "guarded-home", "guarded", lanes=1, options=options)
        return replace(file, driver="robot_drivers.guard_client:open_rig")

    def start(self) -> None:
        self.witness.start()
        self.orchestrator.start()
        keys = self.home / "keys"
        until(lambda: _size(keys / "server.secret"), "the key of the orchestrator")
        server_key = server_keys(keys).public.decode()
        for name, file in self.files.items():
            write_station(replace(file, key_file=enroll(keys, name), server_key=server_key), self.root / f"{name}.yaml")
            self.start_other(name)
        self.all_join()

    def all_join(self) -> None:
        """Wait until every station has joined the present session of the orchestrator."""

        def have_joined() -> bool:
            self.supervise()
            return joined(self.home) >= LOCAL + len(self.files)

        until(have_joined, "all stations to join", PATIENCE_S)

    def all_delivered(self) -> None:
        """Wait until the ledger has every verdict that lies in a spool now: a late one goes to the next campaign."""
        seen = {key: outcome for key, outcome in self.witness.seen.items() if outcome in VERDICTS}
        until(lambda: seen.items() <= outcomes(self.home).items(), "all stations to deliver", PATIENCE_S)

    def supervise(self) -> None:
        """Start the other stations again that ended by themselves, as a service manager does."""
        for name, process in self.others.items():
            if process.poll() is not None:
                self.restarted[name] += 1
                self.start_other(name)

    def start_other(self, name: str) -> None:
        address = self.relay.address if name == "far" else self.address
        command = [sys.executable, "-m", STATION, str(self.root / f"{name}.yaml"), "--connect", address]
        with (self.root / f"{name}.log").open("ab") as log:
            self.others[name] = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)

    def events(self) -> dict[str, Callable[[], bool]]:
        """Name -> function that causes the failure; it returns whether the failure happened."""
        known: dict[str, Callable[[], bool]] = {
            "kill -9 orchestrator": self._kill_orchestrator,
            "kill -9 everything": self._kill_all,
            "kill -9 local station": lambda: self._kill_child(STATION),
            "kill -9 learner": lambda: self._kill_child(LEARNER),
            "kill -9 far station": lambda: self._kill_other("far"),
            "kill -9 guarded station": lambda: self._kill_other("guarded"),
            "kill -9 guard": self._kill_guard,
            "network cut": lambda: self._cut(self.relay.lose),
            "network stalled": lambda: self._cut(self.relay.stall),
            "orchestrator hangs": self._hang,
        }
        if shutil.which("strace") is not None:
            known["kill -9 orchestrator inside a commit"] = self._kill_in_commit
        if all(disk.mounted for disk in self.disks.values()):
            known |= {f"disk full, {name}": lambda name=name: self._fill(name) for name in self.disks}
        return known

    def works_again(self) -> None:
        """Wait for twelve more episodes."""
        before = len(self.witness.seen)
        deadline = time.monotonic() + PATIENCE_S
        while len(self.witness.seen) <= before + 12:
            if not self.orchestrator.alive or time.monotonic() > deadline:
                raise RuntimeError("The campaign has not recovered.")
            self.supervise()
            time.sleep(0.05)

    def logs(self) -> str:
        """The last lines of every log."""
        causes = sqlite3.connect(f"file:{self.home / 'ledger.db'}?mode=ro", uri=True).execute(
            "SELECT station, purpose, outcome, cause, count(*) FROM orders GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC LIMIT 12"
        )
        files = [*self.root.glob("*.log"), *(self.home / "stations" / "logs").glob("*.log")]
        ends = "\n".join(str(row) for row in causes.fetchall())
        return f"{ends}\n" + "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in files)

    def close(self) -> None:
        self.orchestrator.kill_all()
        for name, process in self.others.items():
            guards = children(process.pid, GUARD) if name == "guarded" else []
            process.kill()
            process.wait()
            for pid in guards:
                kill_quietly(pid)
        self.relay.close()
        self.witness.stop()

    def end(self) -> int:
        """End the campaign by an operator's command; returns the orchestrator's exit code."""
        self.all_join()
        self.all_delivered()
        operator_commands.leave(self.home / "inbox", "end campaign", operator="benchmarks.chaos")
        until(lambda: not self.orchestrator.alive, "the end of the campaign", PATIENCE_S)
        assert self.orchestrator.process is not None
        return int(self.orchestrator.process.returncode)

    def _kill_in_commit(self) -> bool:
        """Kill the orchestrator inside a commit of its ledger. Some command then comes first and must work."""
        sync = self.draw.randint(1, SYNCS)
        inject = ["-e", "trace=fdatasync", "-e", f"inject=fdatasync:signal=SIGKILL:when={sync}"]
        command = ["strace", "-f", "-p", str(self.orchestrator.pid), "-o", "/dev/null", *inject]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as killer:
            try:
                until(lambda: not self.orchestrator.alive, "the orchestrator to die in a commit", COMMIT_S)
            except AssertionError:
                return False
            finally:
                killer.kill()
        self.hot["hot" if is_cut(self.home) else "whole"] += 1
        first = self.draw.choice((["ledger", "verify"], ["campaign", "show"], ["ledger", "tail"], []))
        if first:
            command = [sys.executable, "-m", "enpire.cli", *first, "--home", str(self.home)]
            found = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
            if found.returncode:
                raise RuntimeError(f"enpire {' '.join(first)} failed after a kill in a commit: {found.stderr}")
        self.orchestrator.options = ("--resume",) if self.draw.random() < 0.5 else ()
        self.orchestrator.start()
        return True

    def _kill_orchestrator(self) -> bool:
        self.orchestrator.kill()
        self.orchestrator.start()
        return True

    def _kill_all(self) -> bool:
        for name in self.files:
            self._kill_other(name)
        self.orchestrator.kill_all()
        self.orchestrator.start()
        return True

    def _kill_child(self, module: str) -> bool:
        alive = children(self.orchestrator.pid, module)
        return bool(alive) and kill_quietly(self.draw.choice(alive))

    def _kill_other(self, name: str) -> bool:
        self.others[name].kill()
        self.others[name].wait()
        self.start_other(name)
        return True

    def _kill_guard(self) -> bool:
        alive = children(self.others["guarded"].pid, GUARD)
        return bool(alive) and kill_quietly(alive[0])

    def _cut(self, how: Callable[[], None]) -> bool:
        how()
        time.sleep(self.draw.choice((0.2, 1.0, 4.0, 8.0)))
        self.relay.restore()
        return True

    def _hang(self) -> bool:
        os.kill(self.orchestrator.pid, signal.SIGSTOP)
        time.sleep(self.draw.choice((0.5, 3.0, 7.0)))
        os.kill(self.orchestrator.pid, signal.SIGCONT)
        return True

    def _fill(self, name: str) -> bool:
        self.disks[name].fill()
        time.sleep(self.draw.uniform(0.5, 4.0))
        self.disks[name].clear()
        if not self.orchestrator.alive:
            # An orchestrator that was starting ends with one sentence; a service manager would restart it.
            self.orchestrator.start()
        return True


def joined(home: Path) -> int:
    """How many stations have joined since the campaign last began or resumed."""
    query = (
        "SELECT count(DISTINCT body ->> 'station') FROM events WHERE kind = 'station joined' AND seq > "
        "(SELECT max(seq) FROM events WHERE kind IN ('campaign started', 'campaign resumed'))"
    )
    return int(rows(home, query)[0][0])


def outcomes(home: Path) -> dict[str, str]:
    """Outcome of every order of the ledger that ended."""
    return {order: outcome for order, outcome in rows(home, "SELECT order_id, outcome FROM orders") if outcome}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
