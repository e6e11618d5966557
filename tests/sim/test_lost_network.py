"""The network is lost in the middle of the work: the station goes on, and every order ends exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from enpire.fleet.station_processes import StationProcesses
from enpire.wire.arrivals import Delivered
from sim import lost_network
from sim.lost_network import Relay
from tests.fakes.fleet_harness import FleetHarness
from tests.fakes.point_task import point_order, point_station


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[FleetHarness]:
    opened = FleetHarness(tmp_path)
    yield opened
    opened.close()


def test_episodes_of_a_lost_network_arrive_when_it_is_back(harness: FleetHarness) -> None:
    relay = Relay(harness.bind)
    harness.bind = relay.address
    policy = harness.policy("p")
    home = harness.root / "stations"
    harness.start(point_station(home, lanes=2, options={"period_s": 0.01}))
    lease = harness.join()
    first = [point_order(policy, index, lease=lease) for index in range(4)]
    harness.fleet.send("alpha", first)
    harness.until_all(first)
    second = [point_order(policy, index, lease=lease) for index in range(4, 16)]
    harness.fleet.send("alpha", second)
    harness.until(lambda: len(harness.delivered()) > len(first))
    relay.lose()
    harness.poll()
    arrived, kept = len(harness.delivered()), _spooled(home)
    harness.until(lambda: _spooled(home) > kept)
    assert arrived < 16
    assert harness.processes[0].poll() is None
    relay.restore()
    delivered = harness.until_all([*first, *second])
    outcomes = Counter(arrival.episode.outcome for arrival in delivered.values())
    assert outcomes["success"] >= 14
    assert set(outcomes) <= {"success", "failure"}
    sent = [arrival.episode.order.order_id for arrival in harness.arrivals if isinstance(arrival, Delivered)]
    assert set(sent) == {order.order_id for order in [*first, *second]}
    relay.close()


def test_stations_whose_network_is_lost_again_and_again_end_every_order_once(
    harness: FleetHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_network, "LOST_S", (0.5, 1.0))
    policy, said = harness.policy("p"), list[str]()
    file = point_station(harness.root / "stations", lanes=2, options={"period_s": 0.01})
    network = lost_network.LossyNetwork(harness.bind, said.append, every_s=1.0)
    stations = StationProcesses([file], network.address, harness.root / "logs", said.append, network)
    stations.start()
    try:
        lease = harness.join()
        orders = [point_order(policy, index, lease=lease) for index in range(24)]
        harness.fleet.send("alpha", orders)
        harness.until(harness.delivered)
        harness.until(lambda: stations.supervise() or network.lost >= 2)
        harness.until(lambda: stations.supervise() or len(harness.delivered()) == len(orders))
    finally:
        stations.stop()
        stations.stop()
    assert {arrival.episode.outcome for arrival in harness.delivered().values()} <= {"success", "failure"}
    assert said[0].startswith("The network is lost for ")


def _spooled(home: Path) -> int:
    spool = home / "alpha" / "spool"
    return sum(1 for path in spool.rglob("*") if path.is_file()) if spool.is_dir() else 0
