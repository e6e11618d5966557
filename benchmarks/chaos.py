"""Counts lost and doubled episodes under random failures: `python -m benchmarks.chaos [--events 200] [--seed 1]`.

Real processes of one campaign on the point task: the orchestrator, two stations of its own, one that connects through a
faulty network and records a camera, and a learner. At random moments one process is killed (-9), all are killed at
once, the network is cut or stalls, the orchestrator hangs, or a disk is full. A witness reads every spool, so it knows
which episodes must not be lost; at the end, ledger and files are audited against it. Full disks need root (a tmpfs);
without root they are left out.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.machine import describe
from enpire.requests import operator_commands
from enpire.station.station_file import write_station
from enpire.wire.private_socket import private_address
from sim.lost_network import Relay
from tests.chaos.harness import (
    LEARNER,
    STATION,
    VERDICTS,
    Audit,
    Orchestrator,
    Witness,
    audit,
    children,
    kill_quietly,
    until,
)
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import environment, point_station

PATIENCE_S = 60.0
ENDED_BY_OPERATOR = 3
"""Exit code of a campaign that ended without its goal."""
ROOMY = "4g"
PICTURE_PX = 160
"""Side of the far station's camera image in pixels: noise, so that an episode's images need several parts."""


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
        self.home = root / "disk" / "home"
        address = private_address(root, "lab")
        self.orchestrator = Orchestrator(write_campaign(root / "files", bind=address), self.home)
        self.orchestrator.log = root / "orchestrator.log"
        self.relay = Relay(address)
        options = {"period_s": 0.01, "picture_px": PICTURE_PX}
        self.file = point_station(root / "far-disk", "far", lanes=4, options=options, record="all", min_free_mb=16)
        write_station(self.file, root / "far.yaml")
        spools = [self.home / "stations" / f"sim-{number}" / "spool" for number in (1, 2)]
        self.witness = Witness([*spools, self.file.home / "spool"])
        self.far: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.witness.start()
        self.orchestrator.start()
        self.start_far()

    def start_far(self) -> None:
        command = [sys.executable, "-m", STATION, str(self.root / "far.yaml"), "--connect", self.relay.address]
        with (self.root / "far.log").open("ab") as log:
            self.far = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)

    def events(self) -> Mapping[str, Callable[[], bool]]:
        """Name -> function that causes the failure; it returns whether the failure happened."""
        known: dict[str, Callable[[], bool]] = {
            "kill -9 orchestrator": self._kill_orchestrator,
            "kill -9 everything": self._kill_all,
            "kill -9 local station": lambda: self._kill_child(STATION),
            "kill -9 learner": lambda: self._kill_child(LEARNER),
            "kill -9 far station": self._kill_far,
            "network cut": lambda: self._cut(self.relay.lose),
            "network stalled": lambda: self._cut(self.relay.stall),
            "orchestrator hangs": self._hang,
        }
        if all(disk.mounted for disk in self.disks.values()):
            known |= {f"disk full, {name}": lambda name=name: self._fill(name) for name in self.disks}
        return known

    def works_again(self) -> None:
        """Wait for twelve more episodes."""
        before = len(self.witness.seen)
        deadline = time.monotonic() + PATIENCE_S
        while len(self.witness.seen) <= before + 12:
            if not self.orchestrator.alive or time.monotonic() > deadline:
                raise RuntimeError(f"The campaign has not recovered:\n{self.logs()}")
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
        if self.far is not None:
            self.far.kill()
            self.far.wait()
        self.relay.close()
        self.witness.stop()

    def end(self) -> int:
        """End the campaign by an operator's command; returns the orchestrator's exit code."""
        operator_commands.leave(self.home / "inbox", "end campaign", operator="benchmarks.chaos")
        until(lambda: not self.orchestrator.alive, "the end of the campaign", PATIENCE_S)
        assert self.orchestrator.process is not None
        return int(self.orchestrator.process.returncode)

    def _kill_orchestrator(self) -> bool:
        self.orchestrator.kill()
        self.orchestrator.start()
        return True

    def _kill_all(self) -> bool:
        self._kill_far()
        self.orchestrator.kill_all()
        self.orchestrator.start()
        return True

    def _kill_child(self, module: str) -> bool:
        alive = children(self.orchestrator.pid, module)
        return bool(alive) and kill_quietly(self.draw.choice(alive))

    def _kill_far(self) -> bool:
        assert self.far is not None
        self.far.kill()
        self.far.wait()
        self.start_far()
        return True

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


def break_things(world: World, events: int, limit_s: float, only: str) -> Counter[str]:
    """Cause failures one after the other, each while the campaign works."""
    done = Counter[str]()
    known = {name: happen for name, happen in world.events().items() if only in name}
    began = time.monotonic()
    world.works_again()
    while done.total() < events and time.monotonic() - began < limit_s:
        time.sleep(world.draw.uniform(0.0, 1.0))
        # The rarest first, so that the learner, which seldom runs, is killed too.
        for name in sorted(known, key=lambda name: (done[name], world.draw.random())):
            if known[name]():
                done[name] += 1
                print(f"{done.total():4d}  {time.monotonic() - began:6.0f} s  {name}", file=sys.stderr, flush=True)
                break
        world.works_again()
    return done


def summary(done: Counter[str], found: Audit, witness: Witness, wall_s: float) -> str:
    """The result as text."""
    seen = sum(outcome in VERDICTS for outcome in witness.seen.values())
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in sorted(found.outcomes.items()))
    lines = [f"{number:5d}  {name}" for name, number in sorted(done.items())]
    lines += [
        f"{done.total():5d}  events in {wall_s:.0f} s",
        f"orders    {found.orders}: {outcomes}, {found.open} open",
        f"witnessed {found.witnessed} episodes in spools, {seen} of them with a verdict",
        f"lost      {len(found.lost)} of {seen}: below {bound(len(found.lost), seen)} at 95 %",
        f"doubled   {len(found.doubled)} of {found.orders}: below {bound(len(found.doubled), found.orders)} at 95 %",
        f"per event {bound(len(found.lost) + len(found.doubled), done.total())} at 95 % that one loses or doubles any",
        f"ledger    {found.events} events, the chain verifies; {len(found.different)} decisions recompute differently; "
        f"files: {found.store or 'agree with the ledger'}; {found.refused} deliveries refused",
    ]
    return "\n".join(lines)


def bound(bad: int, n: int) -> str:
    """The rule of three for 0 in n; otherwise the measured rate."""
    if not n:
        return "unknown"
    return f"3/{n} = {3 / n:.2g}" if not bad else f"(seen) {bad / n:.2g}"


def main() -> int:
    """Cause failures, audit, print; returns 1 if anything was lost, doubled, left open or recomputes differently."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=3000.0)
    parser.add_argument("--only", default="", help="only events with these words in their name")
    arguments = parser.parse_args()
    print(describe([arguments.seed]))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="enpire-chaos-") as folder:
        world = World(Path(folder), random.Random(arguments.seed))
        try:
            world.start()
            done = break_things(world, arguments.events, arguments.limit_s, arguments.only)
            code = world.end()
            world.close()
            found = audit(world.home, world.witness)
            if found.problems() or code != ENDED_BY_OPERATOR:
                print(world.logs(), file=sys.stderr)
        finally:
            world.close()
            for disk in world.disks.values():
                disk.close()
    print(summary(done, found, world.witness, time.monotonic() - began))
    for problem in [*found.problems(), *([] if code == ENDED_BY_OPERATOR else [f"the orchestrator ended with {code}"])]:
        print(f"PROBLEM   {problem}")
    return int(bool(found.problems()) or code != ENDED_BY_OPERATOR)


if __name__ == "__main__":
    sys.exit(main())
