from collections import Counter
from pathlib import Path

import pytest

from enpire.types import Episode, Order
from enpire.wire.arrivals import Delivered, Joined
from tests.fakes.faulty_proxy import Faults, FaultyProxy
from tests.fakes.fleet_harness import FleetHarness
from tests.fakes.point_task import point_order, point_station


class TinyLab:
    """Ends every order once, as the loop does: the first delivery counts, orders missing in a hello are lost."""

    def __init__(self, harness: FleetHarness, policy_id: str, total: int) -> None:
        self.harness, self.policy_id, self.total = harness, policy_id, total
        self.open: dict[str, Order] = {}
        self.ends: dict[str, str] = {}
        self.kept: dict[str, Episode] = {}
        self.again = Counter[str]()
        self.read = 0

    def step(self) -> None:
        self.harness.poll()
        for arrival in self.harness.arrivals[self.read :]:
            if isinstance(arrival, Joined):
                held = {*arrival.running, *arrival.spooled}
                for order_id in [order_id for order_id in self.open if order_id not in held]:
                    self.end(order_id, "lost")
                self.give(arrival.lease)
            elif isinstance(arrival, Delivered):
                self.deliver(arrival)
        self.read = len(self.harness.arrivals)

    def give(self, lease: int) -> None:
        room = min(12 - len(self.open), self.total - len(self.ends) - len(self.open))
        orders = [point_order(self.policy_id, index, lease=lease) for index in range(room)]
        self.open |= {order.order_id: order for order in orders}
        self.harness.fleet.send("alpha", orders)

    def deliver(self, arrival: Delivered) -> None:
        order_id = arrival.episode.order.order_id
        if order_id in self.open:
            assert arrival.episode.order == self.open[order_id]
            self.kept[order_id] = arrival.episode
            self.end(order_id, arrival.episode.outcome)
            if len(self.open) < 8:
                self.give(arrival.lease)
        else:
            self.again[order_id] += 1
            assert self.kept.get(order_id, arrival.episode) == arrival.episode

    def end(self, order_id: str, how: str) -> None:
        del self.open[order_id]
        assert order_id not in self.ends
        self.ends[order_id] = how


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_on_a_faulty_network_every_order_ends_exactly_once(tmp_path: Path, seed: int) -> None:
    harness = FleetHarness(tmp_path)
    policy_id = harness.policy("p")
    proxy = FaultyProxy(harness.bind, Faults(drop=0.03, repeat=0.03, swap=0.03, damage=0.02), seed)
    harness.bind = proxy.address
    lab = TinyLab(harness, policy_id, 40)
    try:
        harness.start(point_station(tmp_path, lanes=4))
        harness.until(lambda: lab.step() or (len(lab.ends) >= lab.total and not lab.open))
    finally:
        proxy.close()
        harness.close()
    assert proxy.harmed > 5
    assert len(lab.ends) == lab.total
    assert set(lab.ends.values()) <= {"success", "lost", "aborted"}
    assert Counter(lab.ends.values())["success"] >= 10
