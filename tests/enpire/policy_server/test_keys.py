"""A policy server on another address answers enrolled stations alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq

from enpire.errors import TransportProblem
from enpire.policy_server.policy_server import PolicyServer
from enpire.station.remote_policy import PolicyServerLink
from enpire.store import versions
from enpire.wire.curve_keys import StationKeys, enroll, read_pair, server_keys
from tests.enpire.policy_server.test_policy_server import answering
from tests.fakes.point_task import PointPolicy, write_policy


def test_only_enrolled_stations_are_answered_on_another_address(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    card = enroll(keys, "alpha")
    folder = write_policy(tmp_path / "files")
    public, secret = zmq.curve_keypair()
    lab = server_keys(keys).public
    with answering(tmp_path / "s", keys) as server:
        known = PolicyServerLink(server.address, StationKeys(pair=read_pair(card), server=lab))
        assert known.make(folder, versions.identify(folder)).horizon == PointPolicy.horizon
        known.close()
        stranger = read_pair(card).__class__(public=public, secret=secret)
        barred = PolicyServerLink(server.address, StationKeys(pair=stranger, server=lab), decide_s=0.5)
        with pytest.raises(TransportProblem, match="did not answer"):
            barred.make(folder, versions.identify(folder))
        barred.close()
        with pytest.raises(TransportProblem, match="needs keys"):
            PolicyServerLink(server.address)
    for host in ("gpu.example", "127.0.0.1", "localhost"):
        with pytest.raises(TransportProblem, match="needs keys"):
            PolicyServerLink(f"tcp://{host}:7100")
        with pytest.raises(TransportProblem, match="needs keys"):
            PolicyServer(tmp_path / "t", f"tcp://{host}:7100")
