"""The network is lost in the middle of the work: the station goes on, and every order ends exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from enpire.wire.arrivals import Delivered
from sim import lost_network
from sim.lost_network import Relay
from tests.enpire.fleet.bench import Bench
from tests.enpire.fleet.point_task import point_order, point_station


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    opened = Bench(tmp_path)
    yield opened
    opened.close()


def test_episodes_of_a_lost_network_arrive_when_it_is_back(bench: Bench) -> None:
    relay = Relay(bench.bind)
    bench.bind = relay.address
    policy = bench.policy("p")
    home = bench.root / "stations"
    bench.start(point_station(home, lanes=2, options={"period_s": 0.01}))
    lease = bench.join()
    first = [point_order(policy, index, lease=lease) for index in range(4)]
    bench.fleet.send("alpha", first)
    bench.until_all(first)
    second = [point_order(policy, index, lease=lease) for index in range(4, 16)]
    bench.fleet.send("alpha", second)
    bench.until(lambda: len(bench.delivered()) > len(first))
    relay.lose()
    bench.poll()
    arrived, kept = len(bench.delivered()), _spooled(home)
    bench.until(lambda: _spooled(home) > kept)
    assert arrived < 16
    assert bench.processes[0].poll() is None
    relay.find()
    delivered = bench.until_all([*first, *second])
    outcomes = Counter(arrival.episode.outcome for arrival in delivered.values())
    assert outcomes["success"] >= 14
    assert set(outcomes) <= {"success", "failure"}
    sent = [arrival.episode.order.order_id for arrival in bench.arrivals if isinstance(arrival, Delivered)]
    assert set(sent) == {order.order_id for order in [*first, *second]}
    relay.close()


def test_stations_whose_network_is_lost_again_and_again_end_every_order_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_network, "LOST_S", (0.5, 1.0))
    policy, said = bench.policy("p"), list[str]()
    file = point_station(bench.root / "stations", lanes=2, options={"period_s": 0.01})
    stations = lost_network.LossyStations([file], bench.bind, bench.root / "logs", said.append, every_s=1.0)
    stations.start()
    try:
        lease = bench.join()
        orders = [point_order(policy, index, lease=lease) for index in range(24)]
        bench.fleet.send("alpha", orders)
        bench.until(bench.delivered)
        bench.until(lambda: stations.supervise() or stations.lost >= 2)
        bench.until(lambda: stations.supervise() or len(bench.delivered()) == len(orders))
    finally:
        stations.stop()
        stations.stop()
    assert {arrival.episode.outcome for arrival in bench.delivered().values()} <= {"success", "failure"}
    assert said[0].startswith("The network is lost for ")


def _spooled(home: Path) -> int:
    spool = home / "alpha" / "spool"
    return sum(1 for path in spool.rglob("*") if path.is_file()) if spool.is_dir() else 0
