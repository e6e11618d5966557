"""Attacks on the sockets of a campaign, a policy server and a robot server: real processes, with and without keys."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import zmq

from benchmarks.attacks import Result, Run, attack
from enpire.campaign.order_events import OrdersEnded
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode
from enpire.wire.curve_keys import KeyPair, StationKeys, encrypt, enroll, server_keys, station_keys
from enpire.wire.messages import Hello, Orders, Parcel, Welcome, encode
from enpire.wire.rpc import decode as rpc_decode
from enpire.wire.rpc import encode as rpc_encode
from enpire.wire.zmq_link import StationLink
from tests.chaos.harness import Orchestrator, Witness, audit, children, free_port, until
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import PointTask

GATEWAY = "enpire.wire.gateway_process"


@contextlib.contextmanager
def campaign(run: Run, stations: int) -> Iterator[tuple[Orchestrator, str]]:
    """A running campaign with a TCP address, and that address."""
    address = f"tcp://127.0.0.1:{free_port()}"
    lab = Orchestrator(write_campaign(run.folder / "files", stations=stations, bind=address), run.folder / "home")
    lab.start()
    try:
        until(lambda: "Stations connect" in lab.said(), "the campaign")
        yield lab, address
    finally:
        lab.kill_all()


def count(home: Path, kind: str) -> int:
    """Events of a kind in a ledger."""
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        return sum(1 for _ in ledger.events(kinds=(kind,)))
    finally:
        ledger.close()


def joined_stations(home: Path) -> set[str]:
    """Stations that joined a campaign. A station that sends no heartbeats joins again with each hello."""
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        return {str(event.body["station"]) for event in ledger.events(kinds=("station joined",))}
    finally:
        ledger.close()


def hostile(address: str, keys: StationKeys | None) -> zmq.Socket[bytes]:
    """A socket with these keys, or a plain one, which the product's own client refuses to open."""
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    if keys is not None:
        encrypt(socket, keys)
    socket.connect(address)
    return socket


def invented(server: bytes) -> StationKeys:
    """A key pair that was never enrolled."""
    public, secret = zmq.curve_keypair()
    return StationKeys(pair=KeyPair(public=public, secret=secret), server=server)


@attack("a process of this machine without a key", "joins the campaign as a station")
def join_over_the_loopback(run: Run) -> Result:
    """Say hello under the names of the campaign's own and of invented stations: in plain, and with an invented key."""
    seconds = 3.0 if run.quick else 30.0
    names = ("sim-1", "sim-2", "cell-7")
    with campaign(run, stations=0) as (lab, address):
        keys = server_keys(lab.home / "keys").public
        peers = [hostile(address, given) for given in (None, None, None, *[invented(keys) for _ in names])]
        known = StationLink(address, "alpha", station_keys(enroll(lab.home / "keys", "alpha"), keys.decode()))
        sent, end_s = 0, time.monotonic() + seconds
        while time.monotonic() < end_s:
            for index, peer in enumerate(peers):
                with contextlib.suppress(zmq.Again):
                    peer.send(encode(_hello(names[index % 3], 1)), zmq.NOBLOCK)
                    sent += 1
            known.send(_hello("alpha", 1))
            time.sleep(0.05)
        answers = sum(bool(peer.poll(0)) for peer in peers)
        until(lambda: joined_stations(lab.home), "the station with a key")
        joined = joined_stations(lab.home)
        for peer in peers:
            peer.close()
        known.close()
    held = len(peers) - answers if joined == {"alpha"} else 0
    evidence = f"{answers} of {len(peers)} peers were answered; joined: {sorted(joined)}; alpha has an enrolled key"
    return Result(tried=len(peers), held=held, evidence=evidence)


@attack("a peer with an enrolled key", "books successes that no robot showed")
def book_forged_successes(run: Run) -> Result:
    """Join with the digest of the campaign's verifier and with other digests, and report success without arrays."""
    wanted = 8 if run.quick else 200
    with campaign(run, stations=0) as (lab, address):
        keys = lab.home / "keys"
        own = PointTask().verifier().digest
        reports = {"honest-name": own, "other-verifier": "0" * 64, "no-verifier": ""}
        server = server_keys(keys).public.decode()
        links = [StationLink(address, name, station_keys(enroll(keys, name), server)) for name in reports]
        forged, end_s = 0, time.monotonic() + 60.0
        leases: dict[str, int] = {}
        greeted_s = -1e9
        while forged < wanted and time.monotonic() < end_s:
            if time.monotonic() - greeted_s > 1.5 and len(leases) < len(links):
                greeted_s = time.monotonic()
                for link in links:
                    link.send(_hello(link.name, round(greeted_s), reports[link.name]))
            for link in links:
                for envelope in link.receive(0.02):
                    if isinstance(envelope.message, Welcome):
                        leases[link.name] = envelope.lease
                    elif isinstance(envelope.message, Orders):
                        for order in envelope.message.orders:
                            episode = Episode(
                                order=order, outcome="success", cause="", confidence=1.0, ticks=50, began_s=0.0,
                                ran_policy_id=order.policy_id, ended_s=1.0, achieved_start=order.start.values,
                            )  # fmt: skip
                            forged += link.send(Parcel(episode=episode, arrays_file=b""), leases[link.name])
        until(lambda: sum(outcomes(lab.home).values()) >= forged, "the orders that were answered")
        found = outcomes(lab.home)
        for link in links:
            link.close()
    held = forged - found.get("success", 0)
    evidence = f"{forged} successes without arrays were reported; the ledger has {found}"
    return Result(tried=max(1, forged), held=held if forged else 0, evidence=evidence)


def outcomes(home: Path) -> Mapping[str, int]:
    """Outcomes in the ledger."""
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        ends = [entry.event for entry in ledger.events(kinds=(OrdersEnded.KIND,))]
        return Counter(result.outcome for end in ends if isinstance(end, OrdersEnded) for result in end.results)
    finally:
        ledger.close()


@attack("a peer with an enrolled key", "ends the orchestrator, or cuts its robots")
def abort_libzmq(run: Run) -> Result:
    """Send more than is read, with PINGs, and close without reading; the short form also ends the gateway by signal."""
    seconds = 5.0 if run.quick else 300.0
    with campaign(run, stations=2) as (lab, address):
        witness = Witness.of(lab.home)
        witness.start()
        until(lambda: outcomes(lab.home).get("success"), "the first episodes")
        before, began = sum(outcomes(lab.home).values()), time.monotonic()
        secret = enroll(lab.home / "keys", "intruder")
        server = server_keys(lab.home / "keys").public.decode()
        command = [sys.executable, "-m", __name__, address, str(secret), server, str(seconds)]
        floods = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
        gateways: set[int] = set()
        while (now := time.monotonic()) < began + seconds and lab.alive:
            floods = [one if one.poll() is None else subprocess.Popen(command, stderr=-3) for one in floods]
            gateways |= set(children(lab.pid, GATEWAY))
            if run.quick and now > began + seconds / 2 and len(gateways) == 1:
                os.kill(next(iter(gateways)), 6)  # SIGABRT, as libzmq ends it; the short form may be too short for that
            time.sleep(0.05)
        for flood in floods:
            flood.kill()
            flood.wait()
        alive, done = lab.alive, sum(outcomes(lab.home).values()) - before
        left, code = count(lab.home, "station left"), lab.end()
        witness.stop()
        found = audit(lab.home, witness, may_be_open=True)  # a busy machine ends it before every order is back
        problems = replace(found, open=0).problems()
    held = int(alive and left == 0 and not problems and done > 0 and code == 130)
    evidence = (
        f"in {seconds:.0f} s of flood the gateway was started {max(0, len(gateways) - 1)} times again, the "
        f"orchestrator {'lived' if alive else 'ended'}, its own stations left {left} times and ended {done} "
        f"orders; audit: "
        f"{problems or 'nothing lost, nothing doubled'}"
    )
    return Result(tried=1, held=held, evidence=evidence)


SERVERS = {"robot": ("stop", "hello", "spec"), "policy": ("open", "act")}
"""Servers with a socket of their own, by the word of their command -> calls that they answer."""


@contextlib.contextmanager
def serving(run: Run, name: str) -> Iterator[tuple[subprocess.Popen[bytes], Path, str]]:
    """A robot server or a policy server on the loopback: its process, its home and its address."""
    robot, home = run.folder / "arm.yaml", run.folder / name
    robot.write_text("name: arm\ntask: pin_insertion\nhome: arm.enpire\ndriver: mujoco\npace: fast\nreset: teleport\n")
    words = ["robot", "serve", str(robot)] if name == "robot" else ["policy", "serve"]
    command = [sys.executable, "-m", "enpire.cli", *words, "--bind", "tcp://127.0.0.1:*", "--home", str(home)]
    log = run.folder / f"{name}.log"
    with log.open("wb") as written, subprocess.Popen(command, stderr=written) as server:
        try:
            until(lambda: _address(log), "the address of the server")
            yield server, home, _address(log)
        finally:
            server.terminate()


def _address(log: Path) -> str:
    found = re.search(r"tcp://[\d.:]+\d(?=\D)", log.read_text())
    return found[0] if found else ""


def call(peer: zmq.Socket[bytes], verb: str, number: int) -> None:
    """Send one call."""
    asked = {"verb": verb, "sequence": number, "client": "attack", "policy_id": "0" * 64}
    with contextlib.suppress(zmq.Again):
        peer.send(rpc_encode(asked), zmq.NOBLOCK)


@attack("a process of this machine without a key", "commands a robot, or runs inference")
def command_servers_on_the_loopback(run: Run) -> Result:
    """Call a robot server and a policy server that listen on the loopback, in plain and with an invented key."""
    tried = answered = 0
    for name, verbs in SERVERS.items():
        with serving(run, name) as (_, home, address):
            for keys in (None, invented(server_keys(home / "keys").public)):
                peer = hostile(address, keys)
                for number, verb in enumerate(verbs, start=1):
                    call(peer, verb, number)
                    tried += 1
                while peer.poll(1500):
                    rpc_decode(peer.recv())
                    answered += 1
                peer.close()
    return Result(tried=tried, held=tried - answered, evidence=f"{answered} of {tried} calls were answered")


@attack("a peer with an enrolled key", "ends a robot server or a policy server")
def servers_whose_gateway_is_aborted(run: Run) -> Result:
    """Flood each server as `abort_libzmq` does, end its gateway by SIGABRT, then call it with an honest key."""
    seconds, held, told = 2.0 if run.quick else 60.0, 0, list[str]()
    for name, verbs in SERVERS.items():
        with serving(run, name) as (server, home, address):
            public = server_keys(home / "keys").public.decode()
            honest, secret = (enroll(home / "keys", one) for one in ("honest", "intruder"))
            command = [sys.executable, "-m", __name__, address, str(secret), public, str(seconds)]
            flood = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            flood.wait()
            until(lambda server=server: children(server.pid, GATEWAY) or server.poll() is not None, "the gateway")
            for gateway in (gateways := children(server.pid, GATEWAY)):
                os.kill(gateway, 6)
            peer, answered = hostile(address, station_keys(honest, public)), False
            for number in range(1, 121):
                call(peer, verbs[-1], number)
                if answered := bool(peer.poll(500)):
                    break
            alive = server.poll() is None
            peer.close()
        held += alive and answered and bool(gateways)
        told.append(
            f"{name} server: {len(gateways)} gateway aborted after {seconds:.0f} s of flood, "
            f"{'lived' if alive else 'ended'}, {'answered' if answered else 'did not answer'} an honest peer"
        )
    return Result(tried=len(SERVERS), held=held, evidence="; ".join(told))


def _hello(name: str, greeting: int, verifier: str = "") -> Hello:
    facts = {"verifier": verifier} if verifier else {}
    return Hello(station=name, greeting=greeting, lanes=4, running=(), spooled=(), facts=facts)


def flood(address: str, secret: str, server: str, seconds: float) -> None:
    """One flooding process: bursts beyond every limit, PINGs every 10 ms, connections that are closed unread."""
    keys, end_s, burst = station_keys(Path(secret), server), time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        sockets: list[zmq.Socket[bytes]] = []
        context = zmq.Context()
        for _ in range(8):
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            for option in (zmq.HEARTBEAT_IVL, zmq.HEARTBEAT_TTL):
                socket.setsockopt(option, 10 if option == zmq.HEARTBEAT_IVL else 3000)
            encrypt(socket, keys)
            socket.connect(address)
            sockets.append(socket)
        close_s = time.monotonic() + 0.3 + 0.2 * (burst % 5)
        while time.monotonic() < min(close_s, end_s):
            for socket in sockets:
                with contextlib.suppress(zmq.Again):
                    for size in (10, 1000, 20_000) * 40:
                        socket.send(bytes(size), zmq.NOBLOCK)
        burst += 1
        context.destroy(linger=0)


if __name__ == "__main__":
    flood(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
