"""The gateway: names that no peer can forge, started again when it ends, nothing lost, and gone with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from enpire.errors import TransportProblem
from enpire.fleet.zmq_transport import ZmqFleet
from enpire.wire.arrivals import Heartbeat, Joined, Left, Refused
from enpire.wire.curve_keys import EncryptedBind, StationKeys, encrypt, enroll, server_keys, station_keys
from enpire.wire.messages import Alive, encode
from enpire.wire.zmq_link import StationLink
from tests.chaos.harness import until as happens
from tests.enpire.fleet.test_zmq_transport import beat, hear, hello, join, say, until
from tests.fakes.fleet_harness import FleetHarness
from tests.fakes.point_task import point_order, point_station
from tests.fakes.waiting import has_ended


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def fleet(keys: Path, tmp_path: Path) -> Iterator[ZmqFleet]:
    bind = EncryptedBind(address="tcp://127.0.0.1:*", keys=keys)
    opened = ZmqFleet(bind, tmp_path / "versions", tmp_path / "incoming", silent_s=30.0)
    yield opened
    opened.close()


def own(keys: Path, station: str) -> StationKeys:
    return station_keys(enroll(keys, station), server_keys(keys).public.decode())


def kill(fleet: ZmqFleet, number: int = signal.SIGABRT) -> int:
    """Abort the gateway, as libzmq does; returns its process id."""
    gateway = fleet._server.gateway
    assert gateway is not None
    happens(lambda: gateway.pid, "the gateway")
    pid = gateway.pid
    os.kill(pid, number)
    happens(lambda: gateway.pid not in (0, pid), "the next gateway")
    return pid


def test_a_station_keeps_its_lease_when_the_gateway_is_aborted(fleet: ZmqFleet, keys: Path) -> None:
    link = StationLink(fleet.address, "alpha", own(keys, "alpha"))
    lease = join(fleet, link).lease
    kill(fleet)
    cut_s = time.monotonic()
    heard: list[object] = []
    while not any(isinstance(item, Heartbeat) for item in heard):
        assert time.monotonic() < cut_s + 300
        link.send(beat("alpha"), lease)
        heard += fleet.poll(0.02)
    assert not [item for item in heard if isinstance(item, Left | Joined)]
    assert [item.why for item in heard if isinstance(item, Refused) and "ended with SIGABRT" in item.why]
    hear(link, Alive)
    link.close()


def test_orders_and_episodes_pass_a_gateway_that_is_killed_again_and_again(tmp_path: Path, keys: Path) -> None:
    harness = FleetHarness(tmp_path)
    harness.fleet.close()
    bind = EncryptedBind(address="tcp://127.0.0.1:0", keys=keys)
    fleet = harness.fleet = ZmqFleet(bind, harness.versions, harness.root / "incoming", heartbeat_s=0.05)
    harness.bind = fleet.address
    policy_id = harness.policy("p")
    try:
        harness.start(point_station(
            tmp_path, key_file=enroll(keys, "alpha"), server_key=server_keys(keys).public.decode()
        ))  # fmt: skip
        lease = harness.join()
        orders = [point_order(policy_id, index, lease=lease) for index in range(8)]
        fleet.send("alpha", orders)
        harness.until(lambda: (now := harness.beat()) and now.running + now.queued + len(harness.delivered()) >= 8)
        for _ in range(3):
            kill(fleet)
            harness.until(lambda: True)
        harness.until_all(orders)
    finally:
        harness.close()


def test_the_campaigns_own_stations_do_not_notice_that_the_gateway_is_down(fleet: ZmqFleet, keys: Path) -> None:
    link = StationLink(fleet.addresses.private, "sim-1")
    lease = join(fleet, link).lease
    gateway = fleet._server.gateway
    assert gateway is not None
    happens(lambda: gateway.pid, "the gateway")
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        say(link, beat("sim-1"), lease)
        assert isinstance(until(fleet, Heartbeat)[-1], Heartbeat)
        hear(link, Alive)
    finally:
        os.kill(gateway.pid, signal.SIGKILL)
    link.close()


def test_a_peer_cannot_choose_its_name_nor_its_place_in_the_frames(fleet: ZmqFleet, keys: Path) -> None:
    """A peer with the key of beta sends frames as the gateway builds them, to speak for alpha."""
    alpha = StationLink(fleet.address, "alpha", own(keys, "alpha"))
    lease = join(fleet, alpha).lease
    context = zmq.Context()
    beta = context.socket(zmq.DEALER)
    encrypt(beta, own(keys, "beta"))
    beta.connect(fleet.address)
    gateway = fleet._server.gateway
    assert gateway is not None
    for prefix in ([], [b"alpha"], [b"", b"alpha"], [gateway.identity, b"x", b"alpha"], [b"", b""]):
        beta.send_multipart([*prefix, encode(hello("alpha", 9))])
        beta.send_multipart([*prefix, encode(beat("alpha"), lease)])
    seen: list[object] = []
    deadline = time.monotonic() + 300
    while len([item for item in seen if isinstance(item, Refused)]) < 4 and time.monotonic() < deadline:
        seen += fleet.poll(0.05)
    refused = [item for item in seen if isinstance(item, Refused)]
    assert not [item for item in seen if isinstance(item, Joined | Heartbeat)]
    assert any("key of beta was used under the name alpha" in item.why for item in refused)
    assert any("it must have one" in item.why for item in refused)
    context.destroy(linger=0)
    alpha.close()


def test_a_gateway_ends_with_its_parent(keys: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from enpire.fleet.zmq_transport import ZmqFleet\n"
        "from enpire.wire.curve_keys import EncryptedBind\n"
        "root = Path(sys.argv[1]); bind = EncryptedBind(address='tcp://127.0.0.1:*', keys=root / 'keys')\n"
        "fleet = ZmqFleet(bind, root / 'v', root / 'i'); gateway = fleet._server.gateway\n"
        "while not gateway.pid: time.sleep(0.01)\n"
        "print(gateway.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    happens(lambda: has_ended(pid), "its end")


def test_a_port_in_use_and_a_wrong_address_are_named(fleet: ZmqFleet, keys: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "keys"
    for address, why in (
        (fleet.address, "Cannot listen"),
        ("tcp://no such host:1", "listen"),
        ("udp://1.2.3.4:5", "tcp"),
    ):
        with pytest.raises(TransportProblem, match=why):
            ZmqFleet(EncryptedBind(address=address, keys=other), tmp_path, tmp_path)
