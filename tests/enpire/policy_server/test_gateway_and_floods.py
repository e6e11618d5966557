"""A policy server whose gateway ends, and one that peers flood: the stations that act get their actions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from enpire.policy_server.policy_server import PolicyServer
from enpire.station.remote_policy import PolicyServerLink
from enpire.store import versions
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.curve_keys import enroll, server_keys, station_keys
from tests.enpire.policy_server.test_policy_server import KINDS, answering, looked, made
from tests.fakes.point_task import PointPolicy, environment, write_policy
from tests.fakes.waiting import until

MODULE = "tests.enpire.policy_server.test_gateway_and_floods"
LANES = np.asarray([0])
_CALLS = 20
FLOOD = """
import contextlib, os, sys, time, zmq
from pathlib import Path
from enpire.wire.curve_keys import encrypt, station_keys
from enpire.wire.rpc import encode
address, key, server, count = sys.argv[1:]
context = zmq.Context()
peers = []
for keyed in (False, True, True):
    peer = context.socket(zmq.DEALER)
    if keyed and key:
        encrypt(peer, station_keys(Path(key), server))
    peer.connect(address)
    peers.append(peer)
call = {"verb": "act", "sequence": 1, "policy_id": "0" * 64, "lanes": [1], "begins": [], "client": "flood"}
frames = [
    b"", b"garbage", os.urandom(2000), encode(call), encode({**call, "verb": "open"}), bytes(2**20), b"\\x81" * 3000,
    encode({**call, "verb": "part", "part": 0, "parts": 9, "data": b"x"}), encode({"sequence": "many"}),
]
sent = 0
while True:
    for peer in peers:
        for frame in frames:
            with contextlib.suppress(zmq.Again):
                peer.send_multipart([frame] * (1 + sent % 2), zmq.NOBLOCK)
                sent += 1
        while peer.poll(0):
            peer.recv_multipart()
    with open(count, "w") as file:
        file.write(str(sent))
"""
"""Sends what is no call, and calls of versions that the server lacks, as fast as it can; writes how much it sent."""


class Waits(PointPolicy):
    """Counts its calls in a file, and runs inference until another file exists."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        with (self.folder / "calls").open("a") as file:
            file.write("x")
        until((self.folder / "enough").exists, "the end of the test")
        return super().act(observation, lanes)


def load_waiting(folder: Path) -> Waits:
    return Waits(folder.parent.parent)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def server(tmp_path: Path, keys: Path) -> Iterator[PolicyServer]:
    with answering(tmp_path / "served", keys, kinds=(*KINDS, f"{MODULE}:load_waiting")) as opened:
        yield opened


@pytest.fixture
def link(server: PolicyServer, keys: Path) -> Iterator[PolicyServerLink]:
    own = station_keys(enroll(keys, "alpha"), server_keys(keys).public.decode())
    with closing(PolicyServerLink(server.address, own, decide_s=60.0)) as opened:
        yield opened


def end_gateway(server: PolicyServer) -> None:
    gateway = server._server.gateway
    assert gateway is not None
    until(lambda: gateway.pid, "the gateway")
    before = gateway.pid
    os.kill(before, signal.SIGKILL)  # also ends one that is stopped
    until(lambda: gateway.pid not in (0, before), "the next gateway")


@pytest.mark.parametrize("moment", ["while it runs", "when it has run"])
def test_a_call_whose_gateway_ends_is_answered_and_runs_once(
    server: PolicyServer, link: PolicyServerLink, tmp_path: Path, moment: str
) -> None:
    policy = made(link, tmp_path, f"{MODULE}:load_waiting")
    here = PointPolicy()
    for each in (policy, here):
        each.begin(0, 7)
    gateway = server._server.gateway
    assert gateway is not None
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(policy.act, looked((1.0, 2.0)), LANES)
        until((tmp_path / "calls").exists, "the call")
        if moment == "when it has run":
            os.kill(gateway.pid, signal.SIGSTOP)  # the answer waits in front of it, and is lost with it
            (tmp_path / "enough").touch()
            until(lambda: server.answered == 1, "the answer")
        began_s = time.monotonic()
        end_gateway(server)
        if moment == "while it runs":
            (tmp_path / "enough").touch()
        assert asked.result().tolist() == here.act(looked((1.0, 2.0)), LANES).tolist()
    assert time.monotonic() - began_s < 30.0, "it does not wait until the client gives up"
    assert (tmp_path / "calls").read_text() == "x"
    assert policy.act(looked((1.0, 2.0)), LANES).tolist() == here.act(looked((1.0, 2.0)), LANES).tolist()


def test_a_version_is_uploaded_although_the_gateway_ends_again_and_again(
    server: PolicyServer, link: PolicyServerLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enpire.station.remote_policy.PART", 100)
    folder = write_policy(tmp_path / "files")
    (folder / "weights.safetensors").write_bytes(bytes(range(256)) * 100)

    def end_again() -> None:
        for _ in range(3):
            before = link._prepare._sequence
            until(lambda: link._prepare._sequence > before + 10, "more parts")  # noqa: B023
            end_gateway(server)

    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(end_again)
        policy = link.make(folder, versions.identify(folder))
        ending.result()
    assert policy.horizon == PointPolicy.horizon


@pytest.mark.parametrize("where", ["its address", "its private socket"])
def test_a_flood_keeps_no_station_from_its_actions(
    server: PolicyServer, keys: Path, tmp_path: Path, where: str
) -> None:
    public = server_keys(keys).public.decode()
    private = where == "its private socket"
    address = server._server.private if private else server.address
    flood = [sys.executable, "-c", FLOOD, address, "" if private else str(enroll(keys, "flood")), public]
    count = tmp_path / "count"
    process = subprocess.Popen([*flood, str(count)], env=environment())
    own = None if private else station_keys(enroll(keys, "alpha"), public)
    try:
        until(count.exists, "the flood")
        with closing(PolicyServerLink(address, own, decide_s=60.0)) as link:
            policy, here = made(link, tmp_path, "tests.fakes.point_task:load"), PointPolicy()
            for each in (policy, here):
                each.begin(0, 3)
            before = count.read_text()
            for number in range(_CALLS):
                seen = looked((number / 10, 1.0))
                assert policy.act(seen, LANES).tolist() == here.act(seen, LANES).tolist()
        until(lambda: count.read_text() not in ("", before), "more of the flood")
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
