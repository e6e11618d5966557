"""A small orchestrator for tests: acknowledges delivered episodes and keeps a list of all arrivals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from enpire.fleet.zmq_transport import ZmqFleet
from enpire.station.station_file import StationFile, write_station
from enpire.store import versions
from enpire.types import Order
from enpire.wire.arrivals import Announced, Arrival, Delivered, Heartbeat, Joined
from enpire.wire.private_socket import private_address
from tests.fakes.point_task import environment, write_policy
from tests.fakes.waiting import PATIENCE_S, until

WAIT_S = PATIENCE_S


class FleetHarness:
    """One fleet, its station processes, and every arrival in order."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.versions = root / "versions"
        self.arrivals: list[Arrival] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.acknowledging = True
        self.fleet = self.open()
        self.bind = self.fleet.address

    def open(self, bind: str = "", first_lease: int = 1, silent_s: float = 5.0) -> ZmqFleet:
        incoming = self.root / "incoming"
        bind = bind or private_address(self.root, "fleet")
        self.fleet = ZmqFleet(bind, self.versions, incoming, first_lease, heartbeat_s=0.05, silent_s=silent_s)
        return self.fleet

    def policy(self, name: str, **says: object) -> str:
        return versions.publish(write_policy(self.root / name, **says), self.versions)

    def start(self, file: StationFile) -> subprocess.Popen[bytes]:
        path = self.root / f"{file.name}.yaml"
        write_station(file, path)
        command = [sys.executable, "-m", "enpire.station.station", str(path), "--connect", self.bind]
        self.processes.append(subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL))
        return self.processes[-1]

    def poll(self) -> None:
        for arrival in self.fleet.poll(0.02):
            self.arrivals.append(arrival)
            if isinstance(arrival, Announced):
                self.fleet.fetch(arrival)
            if isinstance(arrival, Delivered) and self.acknowledging:
                self.fleet.acknowledge(arrival.station, [arrival.episode.order.order_id])

    def until(self, condition: Callable[[], object]) -> None:
        """Poll until the condition holds."""
        try:
            until(condition, turn=self.poll)
        except AssertionError as late:
            raise AssertionError(f"{late}; the last arrivals: {self.arrivals[-5:]}") from late

    def join(self, count: int = 1) -> int:
        """Wait for `count` more hellos; returns the newest lease."""
        before = len(self.joined())
        self.until(lambda: len(self.joined()) >= before + count)
        return self.joined()[-1].lease

    def joined(self) -> list[Joined]:
        return [arrival for arrival in self.arrivals if isinstance(arrival, Joined)]

    def delivered(self) -> dict[str, Delivered]:
        """Order id -> its first delivery."""
        found: dict[str, Delivered] = {}
        for arrival in self.arrivals:
            if isinstance(arrival, Delivered):
                found.setdefault(arrival.episode.order.order_id, arrival)
        return found

    def beat(self) -> Heartbeat | None:
        return next((arrival for arrival in reversed(self.arrivals) if isinstance(arrival, Heartbeat)), None)

    def until_all(self, orders: Sequence[Order]) -> dict[str, Delivered]:
        self.until(lambda: {order.order_id for order in orders} <= set(self.delivered()))
        return self.delivered()

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.fleet.close()
