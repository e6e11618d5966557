"""Attacks through the inbox of a home: floods during stops of a real campaign, and files that claim another author."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from benchmarks.attacks import Result, Run, attack
from enpire.campaign.command_events import CommandEffective
from enpire.campaign.events import kinds_of
from enpire.home import Home, open_home
from enpire.ids import mint
from enpire.requests import agent_requests, operator_commands
from enpire.store.reading import Reading
from tests.agent_loop.pretend_lab import Running
from tests.chaos.harness import Orchestrator, newest_event, until
from tests.chaos.point_lab import write_campaign

AGENT = "a process that writes into an agent's lane"
LIMIT_MS, QUICK_LIMIT_MS = 300.0, 1000.0
"""Longest time from a stop to its effect. The quick form runs next to other tests, so it allows more."""
LANES = 3
FLOOD = """
import os, sys, time
from pathlib import Path
from benchmarks.attacks.inbox import request
from enpire.ids import mint
folders, count, campaign = [Path(folder) for folder in sys.argv[3:]], int(sys.argv[1]), sys.argv[2]
for number in range(count):
    folder, name = folders[number % len(folders)], mint()
    try:
        (folder / f".{name}").write_text(request(name, campaign))
        (folder / f".{name}").rename(folder / f"{name}.json")
        if number % 500 == 0:
            (folder / f"{name}-tree.json" / "x").mkdir(parents=True)
            os.mkfifo(folder / f"{name}-pipe.json")
            (folder / f"{name}-huge.json").touch()
            os.truncate(folder / f"{name}-huge.json", 2**40)
    except FileNotFoundError:
        continue
print("all", flush=True)
time.sleep(3600)
"""
"""A process that writes valid requests as fast as it can, with other kinds of files among them."""


def request(request_id: str, campaign: str, **claimed: str) -> str:
    """A valid request; `claimed` names an author and a lane."""
    fields = {"campaign_id": campaign, "verb": "turn", "said": {"text": "x" * 200}, **claimed}
    return json.dumps({"wish_id": request_id, **fields})


@contextmanager
def flooding(home: Path, campaign: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """A flood of the lanes of several agent sessions, from another process."""
    folders = [agent_requests.folder_of(home / "inbox", "search", f"search-{number}") for number in range(LANES)]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-c", FLOOD, str(count), campaign, *map(str, folders)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as flood:
        try:
            yield flood
        finally:
            flood.kill()


def seconds_to_effect(home: Path, reading: Reading, kind: str) -> float:
    """Leave a command for all stations and wait until every station shows its effect, in seconds."""
    after, began_s = newest_event(home), time.monotonic()
    command_id = operator_commands.leave(home / "inbox", kind, operator="anna", seen=after)
    while time.monotonic() - began_s < 60:
        events = [entry.event for entry in reading.events(after, kinds=kinds_of(CommandEffective))]
        if any(isinstance(event, CommandEffective) and event.command_id == command_id for event in events):
            return time.monotonic() - began_s
        time.sleep(0.002)
    return 60.0


def stops(home: Path, count: int) -> list[float]:
    """Seconds to the effect of each of some stops; the stations are resumed in between."""
    found: list[float] = []
    with closing(Reading.open(home / "ledger.db")) as reading:
        for _ in range(count):
            found.append(seconds_to_effect(home, reading, "stop"))
            seconds_to_effect(home, reading, "resume")
    return found


@attack(AGENT, "delays a stop of an operator")
def flood_during_stops(run: Run) -> Result:
    """Valid requests and other files without end in the lanes of agents, while an operator stops all stations."""
    count, tries = (4_000, 6) if run.quick else (60_000, 200)
    home = run.folder / "home"
    lab = Orchestrator(write_campaign(run.folder / "files"), home)
    lab.start()
    try:
        until(lambda: "base policy" in lab.said(), "the campaign")
        calm = stops(home, tries)
        with closing(Reading.open(home / "ledger.db")) as reading:
            campaign = reading.campaigns()[0].campaign_id
        with flooding(home, campaign, count) as flood:
            until(lambda: len(os.listdir(next((home / "inbox" / "lanes").iterdir()))) > 500, "the flood")  # noqa: PTH208
            flooded = stops(home, tries)
            running = flood.poll() is None
    finally:
        lab.kill_all()
    p50 = 1000 * float(np.median(flooded))
    p99, calm_p99 = (1000 * float(np.percentile(times, 99)) for times in (flooded, calm))
    limit = QUICK_LIMIT_MS if run.quick else LIMIT_MS
    held = sum(1000 * seconds <= limit for seconds in flooded)
    if running and p99 <= limit:
        held = tries  # one stop in a hundred may take longer
    waiting = sum(1 for _ in (home / "inbox" / "lanes").rglob("*.json"))
    return Result(
        tried=tries, held=held,
        evidence=f"stop to effect at every station: p50 {p50:.0f} ms, p99 {p99:.0f} ms over {tries} stops, "
        f"{waiting} files waiting in {LANES} lanes at the end; without a flood p99 {calm_p99:.0f} ms",
    )  # fmt: skip


@attack(AGENT, "speaks for another agent session, or for an operator")
def claim_another_lane(run: Run) -> Result:
    """Requests that name another author and lane, commands of operators in a lane, and names that leave the folder."""
    home = open_home(run.folder / "home")
    with Running(home, paused=True) as lab:
        folder = agent_requests.folder_of(home.inbox, "search", "search-1")
        folder.mkdir(parents=True)
        campaign = lab.lab.state.campaign_id
        for claimed in ("operator", "search-2", "../../operator", ""):
            request_id = mint()
            (folder / f"{request_id}.json").write_text(request(request_id, campaign, author="human", lane=claimed))
        for kind in ("end campaign", "promote", "stop"):
            command_id = mint()
            command = {"command_id": command_id, "verb": kind, "station": "", "by": "anna"}
            (folder / f"{command_id}.json").write_text(json.dumps(command))
        (folder / "link.json").symlink_to(home.root / "secret")
        (folder / "..json").mkdir()
        tried = len(list(folder.iterdir()))
        lab.until(lambda _: not any(folder.iterdir()), turns=100_000)
        answers = [event.body for event in lab.ledger.events(kinds=("agent turned", "wish refused"))]
        commands = list(lab.ledger.events(kinds=("command requested", "command accepted", "command refused")))
    own = [body for body in answers if (body["author"], body["lane"]) == ("search", "search-1")]
    return Result(
        tried=tried, held=len(own) if not commands and secret_is_whole(home) else 0,
        evidence=f"{tried} files in one lane: {len(own)} recorded under that lane, {len(answers) - len(own)} under "
        f"another; {len(commands)} taken as commands of operators",
    )  # fmt: skip


def secret_is_whole(home: Home) -> bool:
    """Whether a link to the secret was neither followed nor did it move the secret."""
    return (home.root / "secret").is_file() and not list((home.root / "inbox").rglob("secret"))
