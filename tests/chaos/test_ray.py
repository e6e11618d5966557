"""A campaign on a Ray cluster of two machines (both are this one): stations and learner there, one ledger here."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from enpire.campaign.campaign import Campaign, Stations
from enpire.errors import TransportProblem, UsageError
from enpire.fleet import on_ray
from enpire.home import open_home
from enpire.station.station_file import write_station
from enpire.store.ledger import SqliteLedger
from enpire.wire.curve_keys import enroll, server_keys
from enpire.wire.listening_address import FleetAddress
from tests.chaos.harness import Orchestrator, Witness, audit, free_port, until
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import environment, point_station
from tests.fakes.ray_cluster import RayCluster


def shape(home: Path) -> dict[str, set[str]]:
    """Kind of event -> keys that are in all its bodies."""
    found: dict[str, set[str]] = {}
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        for event in ledger.events():
            found[event.kind] = found.get(event.kind, set(event.body)) & set(event.body)
    finally:
        ledger.close()
    return found


def run(lab: Orchestrator, home: Path, meanwhile: Callable[[Witness], None]) -> dict[str, set[str]]:
    """Run one campaign to the end of its budget; returns the event kinds of its ledger, after an audit."""
    witness = Witness.of(home)
    witness.start()
    lab.start()
    try:
        meanwhile(witness)
        assert lab.process is not None
        assert lab.process.wait(600) == 3, lab.said()[-3000:]
    finally:
        lab.kill_all()
        witness.stop()
    found = audit(home, witness)
    assert found.problems() == []
    assert found.outcomes["success"] > 10
    return shape(home)


def one_round(tmp_path: Path, **more: object) -> Path:
    return write_campaign(tmp_path / "files", budget={"wall_s": 0, "rounds": 1}, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
def test_the_same_campaign_runs_locally_encrypted_and_on_a_cluster_with_equal_event_kinds(
    tmp_path: Path, cluster: RayCluster
) -> None:
    port = free_port()
    campaign = one_round(tmp_path, bind=f"tcp://0.0.0.0:{port}")
    homes = {name: tmp_path / name / "home" for name in ("here", "far", "ray")}
    for home in homes.values():
        home.mkdir(parents=True)
    here = run(Orchestrator(campaign, homes["here"]), homes["here"], lambda _: None)
    joined: list[subprocess.Popen[bytes]] = []

    def join_from_far(_: Witness) -> None:
        keys = homes["far"] / "keys"
        until(
            lambda: (keys / "server.secret").is_file() and (keys / "server.secret").stat().st_size,
            "the laboratory's key",
        )
        file = point_station(
            tmp_path, "far-1", key_file=enroll(keys, "far-1"), server_key=server_keys(keys).public.decode(),
            connect=f"tcp://{own_address()}:{port}",
        )  # fmt: skip
        write_station(file, tmp_path / "far-1.yaml")
        command = [sys.executable, "-m", "enpire.cli", "station", str(tmp_path / "far-1.yaml")]
        joined.append(subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL))

    far = run(Orchestrator(campaign, homes["far"]), homes["far"], join_from_far)
    assert joined[0].wait(600) == 0
    assert (tmp_path / "far-1" / "spool").is_dir()
    lab = Orchestrator(campaign, homes["ray"], "--on", "ray", RAY_ADDRESS=cluster.address)
    on_cluster = run(lab, homes["ray"], lambda _: None)
    assert "2 node(s), 4 cores" in lab.said()
    needed = {"campaign started", "order issued", "orders ended", "learner ended", "version made", "gate decided",
              "deployed", "station joined", "campaign ended"}  # fmt: skip
    for found in (far, on_cluster):
        assert needed <= set(found)
        assert {kind: found[kind] for kind in needed} == {kind: here[kind] for kind in needed}


def own_address() -> str:
    """An address of this machine other than the loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends nothing: it only looks up a route
        except OSError:
            return "127.0.0.1"
        return str(asking.getsockname()[0])


@pytest.mark.slow
def test_a_campaign_continues_when_a_machine_of_its_cluster_is_lost(tmp_path: Path, cluster: RayCluster) -> None:
    home = tmp_path / "home"
    lab = Orchestrator(one_round(tmp_path), home, "--on", "ray", RAY_ADDRESS=cluster.address)

    def lose(witness: Witness) -> None:
        until(lambda: len(witness.seen) > 10 or not lab.alive, "episodes from the cluster")
        cluster.machines(0)

    assert {"learner ended", "deployed", "gate decided"} <= set(run(lab, home, lose))


def test_an_address_that_other_machines_cannot_reach_is_refused() -> None:
    assert on_ray.reachable("tcp://0.0.0.0:7000", "10.0.0.1", {"10.0.0.1"}) == "tcp://127.0.0.1:7000"
    assert on_ray.reachable("tcp://0.0.0.0:7000", "10.0.0.1", {"10.0.0.1", "10.0.0.2"}) == "tcp://10.0.0.1:7000"
    with pytest.raises(UsageError, match=r"10\.0\.0\.2.*set stations\.bind"):
        on_ray.reachable("tcp://127.0.0.1:7000", "10.0.0.1", {"10.0.0.1", "10.0.0.2"})


class TwoMachines:
    """The part of the module `ray` that is used before a station begins."""

    gone = False
    util = SimpleNamespace(get_node_ip_address=lambda: "10.0.0.1")

    def nodes(self) -> list[dict[str, object]]:
        return [{"NodeManagerAddress": f"10.0.0.{number}", "Alive": True} for number in (1, 2)]

    def shutdown(self) -> None:
        self.gone = True


def test_a_policy_server_that_other_machines_cannot_reach_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = TwoMachines()
    monkeypatch.setattr(on_ray, "join", lambda _: cluster)
    stations = Stations(bind="tcp://0.0.0.0:7000", policy_server="tcp://127.0.0.1:7100")
    campaign = Campaign(name="far", task="point", recipe="r", stations=stations)
    at = FleetAddress(private="ipc:///nowhere/fleet", public="tcp://0.0.0.0:7000")
    with pytest.raises(UsageError, match=r"10\.0\.0\.2\) .*cannot reach tcp://127\.0\.0\.1:7100.*policy_server"):
        on_ray.start_on_ray(campaign, open_home(tmp_path / "home"), at, print)
    assert cluster.gone


def test_a_station_on_another_machine_keeps_its_state_on_that_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    file = replace(point_station(tmp_path), home=Path("/nowhere/stations/sim-1"))
    actor = on_ray.StationActor(file, "inproc://nobody", Path("/nowhere/stations/logs"), None, on_ray.__version__)
    try:
        until(lambda: list((tmp_path / "disk").glob("enpire-*/*/*/spool")), "the station's own folder")
    finally:
        actor.end()
    assert actor.poll() is not None
    assert not Path("/nowhere").exists()


def test_a_machine_with_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TransportProblem, match="install the same"):
        on_ray.StationActor(point_station(tmp_path), "inproc://nobody", tmp_path / "logs", None, "0.0.0")


JOINS = """
import os, signal, sys
from enpire.fleet.on_ray import join
signal.signal(signal.SIGINT, print)
join(sys.argv[1]).shutdown()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, signal.getsignal(signal.SIGTERM)
assert signal.getsignal(signal.SIGINT) is print, signal.getsignal(signal.SIGINT)
status = open("/proc/self/status").read()
caught = int(status.partition("SigCgt:")[2].split()[0], 16)
assert not caught >> signal.SIGTERM - 1 & 1, "a handler of SIGTERM is left"
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_process_that_joined_a_cluster_has_its_own_handlers_of_signals_again(cluster: RayCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOINS, cluster.address], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGTERM, done.stderr[-2000:]
