"""Start campaigns from the page: the queue of a home, the process that runs it, and what earlier campaigns cost."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Self

from enpire.campaign.campaign import ANY_PORT, Campaign, read_campaign
from enpire.campaign.recipe import read_recipe
from enpire.errors import EnpireError, UsageError
from enpire.files import configs_root
from enpire.home import Home
from enpire.ids import file_name
from enpire.plugins import listed, names
from enpire.processes.child_process import start_python
from enpire.queries.campaigns import campaign_view, campaigns, is_driven, open_records
from enpire.requests.campaign_queue import CampaignQueue, Queued
from enpire.session import require_parts
from enpire.wire.curve_keys import allowed

__all__ = [
    "CampaignQueue",
    "Choices",
    "Cost",
    "Descriptions",
    "QueueRunner",
    "Queued",
    "choices",
    "costs",
    "descriptions",
    "enrolled",
    "require_startable",
]

LOOK_EVERY_S = 0.5
STARTS_S = 60.0
"""Longest time until a started campaign holds the ledger, in seconds."""
ENDINGS = frozenset({0, 3, 130})
"""Exit codes of a campaign that ran: goal reached, goal missed, interrupted."""
COUNTED = 5
"""Most earlier campaigns that an estimate reads."""
WRITE = "write tcp://ADDRESS:PORT with an IP address of this machine, such as tcp://0.0.0.0:7000 for all of them"
READS = 4096
"""Bytes at the end of a log in which the reason of a failed start is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a new campaign may name, from the installed parts and the shipped files."""

    templates: tuple[Campaign, ...]
    tasks: tuple[str, ...]
    recipes: tuple[str, ...]
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptions:
    """Name -> what it is, one sentence from the file or the code itself; a part without one is left out."""

    templates: Mapping[str, str]
    tasks: Mapping[str, str]
    recipes: Mapping[str, str]
    agents: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one earlier campaign used, and what it reached."""

    id: str
    name: str
    state: str
    wall_s: float
    robot_h: float
    tokens: int
    success: float | None
    """Of its champion on hidden starts."""


def choices() -> Choices:
    """What a new campaign may name."""
    root = configs_root()
    return Choices(
        templates=tuple(read_campaign(name) for name in _stems(root / "campaigns")),
        tasks=tuple(sorted(names("tasks"))),
        recipes=tuple(_stems(root / "recipes")),
        agents=tuple(sorted(names("agents"))),
    )


def descriptions() -> Descriptions:
    """What everything is that a new campaign may name."""
    return Descriptions(
        templates=_about_files("campaigns"), tasks=_about_parts("tasks"), recipes=_about_files("recipes"),
        agents=_about_parts("agents"),
    )  # fmt: skip


def _about_files(folder: str) -> Mapping[str, str]:
    """Shipped file -> the first sentence of the comment with which it begins."""
    files = (configs_root() / folder).glob("*.yaml")
    return {path.stem: sentence for path in files if (sentence := first_sentence(path))}


def _about_parts(group: str) -> Mapping[str, str]:
    """Part -> the first line of its module, without a name of the part before it."""
    lines = {part.name: re.sub(rf"^`{re.escape(part.name)}`: ", "", part.what) for part in listed(group)}
    return {name: line[:1].upper() + line[1:] for name, line in lines.items() if line}


def first_sentence(path: Path) -> str:
    """The first sentence of the comment with which a file begins; empty where it has none."""
    lines = takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    return re.split(r"(?<=\.)\s", " ".join(line.removeprefix("#").strip() for line in lines))[0]


def _stems(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def require_startable(campaign: Campaign, home: Home) -> None:
    """Check every part that a campaign names.

    Raises:
        EnpireError: a part is missing, or refuses its settings; the sentence names it. Or no result can reach the goal,
            or no station can join.
    """
    campaign.goal.require_possible()
    if campaign.stations.bind != ANY_PORT:
        require_listening(campaign.stations.bind)
    elif not campaign.stations.count:
        raise UsageError(f"Without simulated stations the campaign needs an address where stations connect; {WRITE}.")
    for recipe in campaign.recipes:
        read_recipe(recipe)
    require_parts(campaign, home, "local")


def require_listening(bind: str) -> None:
    """Check that stations can connect at an address of this machine. Whether its port is free shows at the start.

    Raises:
        UsageError: it has another form than tcp://ADDRESS:PORT, with a port from 1 to 65535, or is of another machine.
    """
    found = re.fullmatch(r"tcp://(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})", bind)
    try:
        ip = ipaddress.ip_address((found[1] or found[2]) if found else "")
    except ValueError:
        ip = None
    if not found or ip is None or (ip.version == 6) != bool(found[1]) or not 1 <= int(found[3]) <= 65535:
        raise UsageError(f"Stations cannot connect at {bind[:80]!r}; {WRITE}.")
    try:
        socket.create_server((str(ip), 0), family=socket.AF_INET6 if ip.version == 6 else socket.AF_INET).close()
    except OSError as problem:
        raise UsageError(f"{ip} is no address of this machine; {WRITE}.") from problem


def enrolled(home: Home) -> tuple[str, ...]:
    """Names of the stations whose keys the home allows."""
    return tuple(sorted({*allowed(home.keys).values()}))


def costs(home: Home, task: str) -> tuple[Cost, ...]:
    """What the newest ended campaigns of a task used, newest first."""
    if not home.ledger.is_file():
        return ()
    with open_records(home.root) as records:
        over = [line for line in campaigns(records) if line.task == task and line.state in {"reached", "ended"}]
        views = [campaign_view(records, line.id) for line in over[:COUNTED]]
    return tuple(
        Cost(
            id=view.id, name=view.name, state=view.state, wall_s=view.wall_s, robot_h=view.robot_h,
            tokens=view.tokens.fresh + view.tokens.output,
            success=view.champion.success if view.champion is not None else None,
        )
        for view in views
    )  # fmt: skip


class QueueRunner:
    """While entered, starts the next waiting campaign of a home whenever none runs there, each in its own process.

    The processes outlive this one: a campaign does not end with the page.
    """

    def __init__(self, home: Home, log: Callable[[str], None]) -> None:
        """Start nothing before it is entered; `log` prints one line."""
        self._home = home
        self._queue = CampaignQueue(home)
        self._log = log
        self._running: tuple[Queued, subprocess.Popen[bytes]] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="campaign queue", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        """End the thread; say which campaign keeps running."""
        self._ended.set()
        self._thread.join()
        if self._running is not None and self._running[1].poll() is None:
            name, process = self._running[0].campaign.name, self._running[1].pid
            self._log(
                f"The campaign {name!r} keeps running (process {process}): "
                f"`enpire campaign stop --home {self._home.root}` ends it."
            )

    def _follow(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                self.look()
            except (EnpireError, OSError) as problem:
                self._log(f"The queue of campaigns waits: {problem}")
                self._ended.wait(10 * LOOK_EVERY_S)

    def look(self) -> None:
        """Start the next campaign if none runs; note how a started one ended."""
        if self._running is not None:
            queued, process = self._running
            if process.poll() is None:
                return
            self._running = None
            if process.returncode not in ENDINGS:
                self._queue.fail(queued, _last_line(self._log_of(queued)))
        if not self._queue.waiting() or is_driven(self._home.root):
            return
        with self._queue.held() as mine:
            waiting = self._queue.waiting()
            if not mine or not waiting or is_driven(self._home.root):
                return
            path = self._queue.start(waiting[0])
            self._log(f"Starting the campaign {waiting[0].campaign.name!r} for {waiting[0].by}: {path}")
            arguments = ["run", str(path), "--home", str(self._home.root), "--headless"]
            try:
                process = start_python("enpire.cli", arguments, self._log_of(waiting[0]), environment=dict(os.environ))
            except OSError as problem:
                self._queue.fail(waiting[0], f"Its process could not be started: {problem.strerror or problem}.")
                return
            self._running = waiting[0], process
            self._wait_until_it_runs(process)

    def _wait_until_it_runs(self, process: subprocess.Popen[bytes]) -> None:
        """Hold the queue until the campaign holds the ledger, so that no other process starts the next one."""
        for _ in range(int(STARTS_S / LOOK_EVERY_S)):
            if process.poll() is not None or is_driven(self._home.root) or self._ended.wait(LOOK_EVERY_S):
                return

    def _log_of(self, queued: Queued) -> Path:
        return self._home.root / "queue" / "started" / f"{file_name(queued.id, 'a waiting campaign')}.log"


def _last_line(log: Path) -> str:
    """The last line of a log, which says why its process ended."""
    try:
        lines = log.read_bytes()[-READS:].decode("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:500] if lines else "its process ended without a message"
