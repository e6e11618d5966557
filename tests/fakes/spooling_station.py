"""A station's spool and uplink without a robot, also as a process that a test can kill.

`python -m tests.fakes.spooling_station FOLDER ADDRESS NAME`
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

from enpire.station.spool import Spool
from enpire.station.uplink import Uplink
from enpire.store import durable
from enpire.wire.arrivals import Heartbeat
from enpire.wire.host_services import THIS_HOST
from enpire.wire.messages import Hello, Parcel
from enpire.wire.zmq_link import StationLink
from tests.enpire.wire.test_messages import EPISODE
from tests.fakes.point_task import point_order


class SpoolingStation:
    """Delivers the episodes in its spool, as a station does."""

    def __init__(self, folder: Path, address: str, name: str = "alpha") -> None:
        self.name = name
        self.spool = Spool(folder / name, 0)
        self.link = StationLink(address, name)
        self.said: list[str] = []
        self.uplink = Uplink(self.link, self.spool, self._hello, self.said.append, THIS_HOST)

    def put(self, pictures_bytes: int, seed: int = 0) -> str:
        """Put one more episode into the spool, with or without images; returns its id."""
        order = replace(point_order("a" * 64, seed), station=self.name)
        episode = replace(EPISODE, order=order)
        if pictures_bytes:
            content = random.Random(seed).randbytes(pictures_bytes)
            durable.write(self.spool.pictures(order.order_id), content)
            episode = replace(episode, pictures_sha256=hashlib.sha256(content).hexdigest())
        self.spool.put(Parcel(episode=episode, arrays_file=b"frames"))
        return order.order_id

    def turn(self, timeout_s: float = 0.0) -> None:
        """One turn, as in the loop of a station."""
        self.uplink.hear(timeout_s)
        self.uplink.keep_contact(self._beat)
        self.uplink.ship()

    def close(self) -> None:
        self.uplink.close()
        self.link.close()
        self.spool.close()

    def _hello(self, greeting: int) -> Hello:
        return Hello(station=self.name, greeting=greeting, lanes=1, running=(), spooled=self.spool.ids())

    def _beat(self, lease: int) -> Heartbeat:
        return Heartbeat(
            station=self.name, lease=lease, phase="wait-order", seconds={}, queued=0, running=0, deployed="",
        )  # fmt: skip


def main() -> None:
    station = SpoolingStation(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    while os.getppid() > 1:
        station.turn(0.02)


if __name__ == "__main__":
    main()
