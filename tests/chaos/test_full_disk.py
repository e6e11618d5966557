"""A stop on the page reaches every robot while the disk of the home is full: a real page, stations and small disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from enpire.home import Home, open_home
from enpire.monitor.live_lab import LiveLab
from enpire.requests.operator_commands import CommandInbox
from enpire.session import RunOptions, run_campaign
from enpire.station.station_file import write_station
from enpire.store.ledger import SqliteLedger
from enpire.wire.private_socket import private_address
from tests.chaos.harness import until
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import environment, point_station
from web_ui import accounts
from web_ui.server import Server

STOPPED_S = 4.0
"""A stop reaches every station within a second or two; the margin is for a machine that runs other tests."""
NAMES = ("alpha", "beta")


@dataclass
class SmallDisk:
    """A file system in memory that a test fills and frees."""

    folder: Path

    def mount(self) -> None:
        self.folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", self.folder], check=True)

    def fill(self) -> None:
        while subprocess.run(["mount", "-o", f"remount,size={self._used()}", self.folder], check=False).returncode:
            pass

    def free(self) -> None:
        subprocess.run(["mount", "-o", "remount,size=1g", self.folder], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=False)

    def _used(self) -> int:
        now = os.statvfs(self.folder)
        return (now.f_blocks - now.f_bfree) * now.f_frsize


@dataclass
class Lab:
    """The loop and the page's live object in this process, the stations in processes on another disk."""

    root: Path
    disk: SmallDisk
    home: Home = field(init=False)
    live: LiveLab = field(init=False)
    loop: threading.Thread = field(init=False)
    page: Server = field(init=False)
    token: str = field(init=False)
    stations: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, subprocess.Popen[bytes]])

    def start(self) -> None:
        self.home, address = open_home(self.disk.folder / "home"), private_address(self.root, "lab")
        campaign = write_campaign(self.root / "files", stations=0, bind=address)
        inbox = CommandInbox(self.home.inbox)
        self.live = LiveLab(self.home, inbox)
        options = RunOptions(observers=(self.live,), inbox=inbox)
        self.loop = threading.Thread(target=run_campaign, args=(campaign, self.home, options), daemon=True)
        self.loop.start()
        users = accounts.Accounts(self.home.root / "web.db")
        users.add_user("anna", "admin", "ten letters or more")
        self.token = users.open_key("token", "anna", "test")
        users.close()
        self.page = Server(self.home.root, self.live)
        self.page.start()
        for name in NAMES:
            path = self.root / f"{name}.yaml"
            write_station(point_station(self.root, name, lanes=2, options={"period_s": 0.01}), path)
            command = [sys.executable, "-m", "enpire.cli", "station", str(path)]
            with (self.root / f"{name}.log").open("ab") as log:
                self.stations[name] = subprocess.Popen(
                    [*command, "--connect", address], env=environment(), stdout=log, stderr=log
                )

    def ask(self, path: str, body: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Send the page a request; its answer."""
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"{self.page.address}/api/v1/{path}", data, {**headers, "Idempotency-Key": "one-click"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return cast("Mapping[str, str]", json.load(answer))

    def stopped(self) -> set[str]:
        """The stations that report a stop."""
        seen = self.live.snapshot()
        return {line.name for line in seen.stations if line.stopped} if seen is not None else set()

    def works(self) -> bool:
        seen = self.live.snapshot()
        return seen is not None and len(seen.stations) == len(NAMES) and all(line.episodes for line in seen.stations)

    def waits_for_space(self) -> bool:
        seen = self.live.snapshot()
        return seen is not None and "waiting for disk space" in seen.phase_text

    def events(self, kind: str) -> list[str]:
        """Command ids of the events of a kind."""
        ledger = SqliteLedger(self.home.ledger, read_only=True)
        try:
            return [str(event.body["command_id"]) for event in ledger.events(kinds=(kind,))]
        finally:
            ledger.close()

    def end(self) -> None:
        for process in self.stations.values():
            process.kill()
            process.wait()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    disk = SmallDisk(tmp_path / "small")
    disk.mount()
    opened = Lab(tmp_path, disk)
    yield opened
    disk.free()
    opened.live.command("end campaign", "", "anna", "the end")
    opened.loop.join(300)
    opened.end()
    opened.page.stop()
    disk.unmount()
    assert not opened.loop.is_alive()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the loop notices", "while the loop waits for space"])
def test_a_stop_reaches_every_station_while_the_disk_is_full(
    lab: Lab, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "SEEN_EVERY_S", -1.0)  # the page tries to write with every request
    lab.start()
    until(lab.works, "episodes of both stations")
    lab.disk.fill()
    if when == "while the loop waits for space":
        until(lab.waits_for_space, "the loop to notice that the disk is full")
    asked_s = time.monotonic()
    stop = lab.ask("commands", {"verb": "stop"})["id"]
    assert lab.ask("commands", {"verb": "stop"})["id"] == stop
    until(lambda: lab.stopped() == set(NAMES), "every station to stop")
    assert time.monotonic() - asked_s < STOPPED_S
    until(lambda: lab.ask(f"commands/{stop}")["state"] == "effective", "the page to hear of it")
    assert "the disk cannot record it yet" in lab.ask(f"commands/{stop}")["why"]
    lab.disk.free()
    until(lambda: lab.events("command effective") == [stop], "the ledger")
    assert lab.events("command requested") == lab.events("command accepted") == [stop]
    until(lambda: lab.ask(f"commands/{stop}")["why"] == "", "the page to hear that it is recorded")
