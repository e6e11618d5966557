"""Stations join, leave and lose their network, and the orchestrator hangs, with real processes and a real campaign."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from enpire.errors import LedgerProblem
from enpire.requests import operator_commands
from enpire.station.station_file import StationFile, write_station
from enpire.store.ledger import SqliteLedger
from enpire.wire.curve_keys import enroll, server_keys
from enpire.wire.private_socket import private_address
from sim.lost_network import Relay
from tests.chaos.harness import Orchestrator, Witness, audit, free_port, newest_event, until
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import KINDS, environment, point_station

REST_S = 2.0
"""Without a new episode for so long, a station rests."""


@dataclass
class Lab:
    """A campaign that starts no station of its own."""

    root: Path
    address: str = ""
    """Where stations connect with keys; empty: a private socket."""
    stations: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, subprocess.Popen[bytes]])

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.address = self.address or private_address(self.root, "lab")
        campaign = write_campaign(self.root / "files", stations=0, bind=self.address)
        self.orchestrator = Orchestrator(campaign, self.home)
        self.witness = Witness([self.root / name / "spool" for name in ("alpha", "beta", "gamma")])
        self.witness.start()
        self.orchestrator.start()

    def station(self, name: str, connect: str = "", **more: object) -> StationFile:
        file = point_station(self.root, name, lanes=2, options={"period_s": 0.01}, **more)
        path = self.root / f"{name}.yaml"
        write_station(file, path)
        connect = connect or self.address
        command = [sys.executable, "-m", "enpire.cli", "station", str(path), "--connect", connect]
        with (self.root / f"{name}.log").open("ab") as log:
            self.stations[name] = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)
        return file

    def count(self, kind: str, station: str = "") -> int:
        if not (self.home / "ledger.db").exists():
            return 0
        ledger = SqliteLedger(self.home / "ledger.db", read_only=True)
        try:
            found = list(ledger.events(kinds=(kind,)))
        finally:
            ledger.close()
        return sum(not station or event.body.get("station") == station for event in found)

    def works(self, station: str) -> None:
        """Wait until two more of its episodes are in the store."""
        before = self.kept(station)
        until(lambda: self.kept(station) >= before + 2, f"episodes of {station}")

    def rests(self, station: str) -> None:
        """Wait until no episode of it comes any more; those that ended before it was stopped still arrive."""
        known = [self.kept(station), time.monotonic()]

        def rests() -> bool:
            if (now := self.kept(station)) != known[0]:
                known[:] = [now, time.monotonic()]
            return time.monotonic() - known[1] > REST_S

        until(rests, f"{station} to rest")

    def kept(self, station: str) -> int:
        if not (self.home / "ledger.db").exists():
            return 0
        try:
            ledger = SqliteLedger(self.home / "ledger.db", read_only=True)
        except LedgerProblem:
            return 0  # the orchestrator is creating its tables
        try:
            row = ledger.database.execute(
                "SELECT count(*) FROM orders WHERE station = ? AND outcome IN ('success', 'failure')", [station]
            ).fetchone()
        finally:
            ledger.close()
        return int(row[0])

    def close(self) -> None:
        for process in self.stations.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.orchestrator.kill_all()
        self.witness.stop()

    def nothing_is_lost(self) -> None:
        self.orchestrator.end()
        found = audit(self.home, self.witness, may_be_open=True)
        assert found.problems() == [] or found.problems() == [f"{found.open} open"]
        assert found.outcomes["success"] >= 2


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    opened = Lab(tmp_path)
    yield opened
    opened.close()


def test_stations_join_and_leave_at_any_time(lab: Lab) -> None:
    lab.station("alpha")
    lab.works("alpha")
    lab.station("beta")
    lab.works("beta")
    lab.stations["alpha"].send_signal(signal.SIGTERM)
    assert lab.stations["alpha"].wait(600) == 0
    until(lambda: lab.count("station left", "alpha"), "the goodbye of alpha")
    lab.works("beta")
    lab.stations["beta"].kill()
    lab.station("alpha")
    lab.works("alpha")
    assert lab.count("station joined", "alpha") == 2
    lab.nothing_is_lost()


def test_a_stop_requested_while_a_station_was_away_holds_when_it_is_back(lab: Lab) -> None:
    lab.station("alpha")
    lab.works("alpha")
    os.kill(lab.stations["alpha"].pid, signal.SIGSTOP)
    until(lambda: lab.count("station left", "alpha"), "the loss of alpha")
    operator_commands.leave(lab.home / "inbox", "stop", "alpha", "anna")
    until(lambda: lab.count("command accepted"), "the stop to be written down")
    assert not lab.count("command effective")
    os.kill(lab.stations["alpha"].pid, signal.SIGCONT)
    until(lambda: lab.count("command effective"), "the stop to hold")
    lab.stations["alpha"].kill()
    lab.stations["alpha"].wait()
    lab.station("alpha")
    until(lambda: lab.count("station held", "alpha") >= 2, "the new process to hear of the stop")
    lab.rests("alpha")
    operator_commands.leave(lab.home / "inbox", "resume", "alpha", "anna", seen=newest_event(lab.home))
    lab.works("alpha")
    lab.nothing_is_lost()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["lose", "stall"])
def test_a_station_resumes_after_a_lost_network(lab: Lab, how: str) -> None:
    relay = Relay(lab.address)
    try:
        lab.station("alpha", relay.address)
        lab.works("alpha")
        for away_s in (0.5, 3.0, 9.0):
            getattr(relay, how)()
            time.sleep(away_s)
            relay.restore()
            lab.works("alpha")
        lab.nothing_is_lost()
    finally:
        relay.close()


def test_an_orchestrator_that_hangs_for_six_seconds_continues_with_the_same_stations(lab: Lab) -> None:
    lab.station("alpha")
    lab.works("alpha")
    os.kill(lab.orchestrator.pid, signal.SIGSTOP)
    time.sleep(6.0)
    os.kill(lab.orchestrator.pid, signal.SIGCONT)
    lab.works("alpha")
    assert lab.stations["alpha"].poll() is None
    lab.nothing_is_lost()


def test_the_same_campaign_runs_over_an_address_that_needs_keys(tmp_path: Path) -> None:
    lab = Lab(tmp_path, f"tcp://127.0.0.1:{free_port()}")
    keys = lab.home / "keys"
    try:
        made = keys / "server.secret"
        until(lambda: made.is_file() and made.stat().st_size, "the key of the orchestrator")
        server_key = server_keys(keys).public.decode()
        lab.station("gamma", key_file=enroll(tmp_path / "elsewhere", "gamma"), server_key=server_key)
        lab.station("alpha", key_file=enroll(keys, "alpha"), server_key=server_key)
        lab.works("alpha")
        until(lambda: lab.count("peer refused"), "the refusal of the unknown key")
        assert lab.count("station joined", "gamma") == 0
        assert "with keys" in lab.orchestrator.said()
        lab.nothing_is_lost()
    finally:
        lab.close()


def test_an_enrolled_station_joins_a_running_campaign(tmp_path: Path) -> None:
    """The steps of docs/fleet.md: enroll, copy two files, set the driver, start."""
    lab, there = Lab(tmp_path, f"tcp://127.0.0.1:{free_port()}"), tmp_path / "there"
    there.mkdir()
    enpire = [sys.executable, "-m", "enpire.cli", "station"]
    try:
        until(lambda: "with keys" in lab.orchestrator.said(), "the campaign")
        made = ["enroll", "cell-7", "--connect", lab.address, "--home", str(lab.home)]
        subprocess.run([*enpire, *made], env=environment(), check=True, capture_output=True)
        for name in ("cell-7.secret", "cell-7.yaml"):
            (lab.home / "keys" / name).rename(there / name)
        (there / "cell-7.secret").chmod(0o600)
        told = yaml.safe_load((there / "cell-7.yaml").read_text())
        assert told["task"].endswith(":PointTask"), "the task of the running campaign"
        told |= {
            "driver": point_station(there).driver,
            "lanes": 2,
            "pace": "fast",
            "reset": "teleport",
            "policy_kinds": list(KINDS),
        }
        (there / "cell-7.yaml").write_text(yaml.safe_dump(told))
        with (there / "log").open("ab") as log:
            lab.stations["cell-7"] = subprocess.Popen(
                [*enpire, "cell-7.yaml"], env=environment(), cwd=there, stdout=log, stderr=log
            )
        lab.works("cell-7")
        lab.nothing_is_lost()
    finally:
        lab.close()
