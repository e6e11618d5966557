"""Stops during floods: how long until every robot holds, and whether anything moves one again too early."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from enpire.ids import mint
from enpire.requests import agent_requests, operator_commands
from tests.chaos.harness import newest_event, rows, until

FLOOD_S, WATCH_S, MOVING_S = 0.5, 0.5, 1.0
"""Length of a flood before its stop; of the watch after it; and how recently a robot must have acted to count."""
LIMIT_MS = 300.0
"""Largest p99 from the accepted command to the robot that holds."""


@dataclass
class Stops:
    """The results of all stops of one run."""

    from_accepted_ms: list[float] = field(default_factory=list[float])
    """Of each moving robot: the event `command accepted` -> the robot's driver was told to stop."""
    from_request_ms: list[float] = field(default_factory=list[float])
    """The same from the moment at which the operator's command was durable."""
    problems: list[str] = field(default_factory=list[str])
    trials: int = 0
    sent: int = 0
    """Requests and connections of the floods."""

    def lines(self) -> list[str]:
        """The results as text."""
        return [
            f"stops     {self.trials} of {len(self.from_accepted_ms)} robots, in floods of {self.sent} requests and "
            "connections",
            f"          accepted -> robot holds: {_quantiles(self.from_accepted_ms)}",
            f"          requested -> robot holds: {_quantiles(self.from_request_ms)}",
        ]

    @property
    def slow(self) -> bool:
        """Whether the p99 exceeds its limit."""
        return bool(self.from_accepted_ms) and quantile(self.from_accepted_ms, 0.99) > LIMIT_MS


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _quantiles(values: Sequence[float]) -> str:
    if not values:
        return "none measured"
    return f"p50 {quantile(values, 0.5):.0f} ms, p99 {quantile(values, 0.99):.0f} ms, max {max(values):.0f} ms"


def stop_in_a_flood(home: Path, address: str, robots: Path, results: Stops) -> bool:
    """Flood the lab, stop all robots, let an older resume arrive, watch them, and resume them."""
    inbox, seen = home / "inbox", newest_event(home)
    with flood(home, address, results):
        time.sleep(FLOOD_S)
        logs = Logs(robots)
        stop = operator_commands.leave(inbox, "stop", operator="ann")
        requested_ns = time.time_ns()
        until(lambda: event(home, "command effective", stop), "every station to hold")
        older = operator_commands.leave(inbox, "resume", operator="bob", seen=seen)
        until(lambda: event(home, "command refused", older), "the older resume to be refused")
        time.sleep(WATCH_S)
        resumed_ns = time.time_ns()
    accepted, effective = event(home, "command accepted", stop), event(home, "command effective", stop)
    assert accepted is not None
    assert effective is not None
    for robot in logs.read(requested_ns, accepted):
        holds_ns = robot.stopped_ns or effective
        if late := [moment for moment in robot.acts_ns if holds_ns < moment < resumed_ns]:
            results.problems.append(f"the robot {robot.name} acted {len(late)} times after it was stopped")
        if robot.moving and robot.stopped_ns:
            results.from_accepted_ms.append((robot.stopped_ns - accepted) / 1e6)
            results.from_request_ms.append((robot.stopped_ns - requested_ns) / 1e6)
    results.trials += 1
    resume = operator_commands.leave(inbox, "resume", operator="ann", seen=newest_event(home))
    until(lambda: event(home, "command effective", resume), "every station to be resumed")
    return True


def event(home: Path, kind: str, command_id: str) -> int | None:
    """Time stamp of an event of a command, in ns since 1970; None before it is in the ledger."""
    query = "SELECT stamp_ns FROM events WHERE kind = ? AND body ->> 'command_id' = ?"
    found = rows(home, query, (kind, command_id))
    return int(found[0][0]) if found else None


@dataclass(frozen=True, kw_only=True)
class Robot:
    """What one robot did since a request, by its own log."""

    name: str
    moving: bool
    """Whether it acted shortly before the request, or after it."""
    stopped_ns: int
    """When it was first told to stop since the command was accepted, in ns since 1970; 0 if it was not."""
    acts_ns: Sequence[int]
    """When it acted since then."""


class Logs:
    """The logs of the robots from now on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes = {path: path.stat().st_size for path in folder.iterdir()}

    def read(self, requested_ns: int, accepted_ns: int) -> list[Robot]:
        """What each robot did since a request; also robots that were opened since.

        A stop before the command was accepted has another cause: a guard stops a robot whose station was killed.
        """
        found: list[Robot] = []
        for path in self._folder.iterdir():
            with path.open("rb") as file:
                file.seek(max(0, self._sizes.get(path, 0) - 64))
                lines = [line.split() for line in file.read().splitlines()[1:]]
            moments = [(line[0], int(line[1])) for line in lines if len(line) == 2]
            acts = [moment for kind, moment in moments if kind == b"act"]
            stops = [moment for kind, moment in moments if kind == b"stop" and moment > accepted_ns]
            moving = any(abs(moment - requested_ns) < MOVING_S * 1e9 for moment in acts)
            acted = [moment for moment in acts if moment > requested_ns]
            found.append(Robot(name=path.name, moving=moving, stopped_ns=min(stops, default=0), acts_ns=acted))
        return found


@contextmanager
def flood(home: Path, address: str, results: Stops) -> Generator[None]:
    """A hostile agent fills its lane with requests, and a hostile peer connects and sends bytes, without pause."""
    ending = threading.Event()
    counts = [0, 0]

    def repeat(number: int, attempt: Callable[[], None]) -> None:
        while not ending.is_set():
            with contextlib.suppress(OSError):
                attempt()
                counts[number] += 1

    lane, request = _lane(home)
    host, _, port = address.removeprefix("tcp://").rpartition(":")

    def ask() -> None:
        request_id = mint()
        (lane / f"{request_id}.json").write_text(json.dumps({**request, next(iter(request)): request_id}))

    def connect() -> None:
        with socket.create_connection((host, int(port)), 1.0) as peer:
            peer.sendall(os.urandom(4096))

    threads = [threading.Thread(target=repeat, args=pair) for pair in ((0, ask), (1, connect))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()
        shutil.rmtree(lane, ignore_errors=True)  # the hostile agent's session ends
        results.sent += sum(counts)


def _lane(home: Path) -> tuple[Path, dict[str, object]]:
    """The folder of a hostile agent's lane, and one of its requests, with the id as the first key."""
    campaign_id = str(rows(home, "SELECT campaign_id FROM events ORDER BY seq LIMIT 1")[0][0])
    sender = agent_requests.Sender(author="mallory", lane="flood", campaign_id=campaign_id)
    content = {"statement": "a flood hides a stop", "prediction": "the stop waits", "expected": {}}
    request_id = agent_requests.leave(home / "inbox", sender, "hypothesis", content)
    lane = agent_requests.folder_of(home / "inbox", "mallory", "flood")
    written = cast("dict[str, object]", json.loads((lane / f"{request_id}.json").read_text()))
    key = next(name for name, value in written.items() if value == request_id)
    return lane, {key: request_id, **{name: value for name, value in written.items() if name != key}}
