"""A network between stations and the orchestrator that can be lost: a relay of TCP connections with a switch.

`enpire run CAMPAIGN --on lossy` has the campaign's own stations behind one.
"""

from __future__ import annotations

import random
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from enpire.campaign.campaign import Campaign
from enpire.fleet.local import station_files, with_key
from enpire.fleet.station_processes import StationProcesses
from enpire.home import Home
from enpire.station.station_file import StationFile
from enpire.wire.listening_address import local_address

LOST_EVERY_S, LOST_S = 60.0, (1.0, 8.0, 35.0)
"""The network is there for about so long, and gone for one of these: less than a station may be silent (5 s), more, and
more than orders wait for it (30 s)."""


class Relay:
    """Stations connect to `address`; what is said goes on to `upstream` while the network is there.

    Args:
        upstream: tcp://HOST:PORT of the orchestrator.
    """

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.removeprefix("tcp://").rpartition(":")
        self._upstream = (host, int(port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self._door.setblocking(False)
        self.address = f"tcp://127.0.0.1:{self._door.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._door, selectors.EVENT_READ)
        self._other: dict[socket.socket, socket.socket] = {}
        self._lost, self._stalled, self._ending = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def lose(self) -> None:
        """The network is gone: connections break, and new ones are closed at once."""
        self._lost.set()

    def stall(self) -> None:
        """Connections stay and nothing comes through, as on a link that is open at one end."""
        self._stalled.set()

    def find(self) -> None:
        """The network is back."""
        self._stalled.clear()
        self._lost.clear()

    def close(self) -> None:
        """End the relay. Allowed twice."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.02 if self._stalled.is_set() else 0.0):
            if self._lost.is_set():
                self._drop_all()
            if not self._stalled.is_set():
                for key, _ in self._selector.select(0.02):
                    self._ready(key.fileobj)  # pyright: ignore[reportArgumentType]
        self._drop_all()
        self._door.close()
        self._selector.close()

    def _ready(self, ready: socket.socket) -> None:
        if ready is self._door:
            self._accept()
        elif ready in self._other:
            self._pass_on(ready)

    def _accept(self) -> None:
        near, _ = self._door.accept()
        if self._lost.is_set():
            near.close()
            return
        try:
            far = socket.create_connection(self._upstream, timeout=1.0)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.settimeout(1.0)
            self._other[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        try:
            data = source.recv(65536)
            if data:
                self._other[source].sendall(data)
                return
        except OSError:
            pass  # One of the two broke: both end.
        self._drop(source)

    def _drop(self, one: socket.socket) -> None:
        for side in (one, self._other.get(one)):
            if side is not None and self._other.pop(side, None) is not None:
                self._selector.unregister(side)
                side.close()

    def _drop_all(self) -> None:
        for one in list(self._other):
            self._drop(one)


class LossyStations(StationProcesses):
    """Stations of this machine over a network that is lost now and then.

    Args:
        files, address, logs, say: as for any stations of this machine.
        every_s: the network is there for about so long.
    """

    def __init__(
        self, files: Sequence[StationFile], address: str, logs: Path, say: Callable[[str], None],
        every_s: float = LOST_EVERY_S,
    ) -> None:  # fmt: skip
        self._relay, self._every_s, self._draw = Relay(address), every_s, random.Random(0)
        super().__init__(files, self._relay.address, logs, say)
        self._there, self._turn_s = True, time.monotonic() + every_s
        self.lost = 0
        """How often it was lost."""

    def supervise(self) -> None:
        """Restart what died, and lose or find the network when it is time; call it now and then."""
        super().supervise()
        if (now := time.monotonic()) < self._turn_s:
            return
        if self._there:
            self._relay.lose()
            self.lost += 1
            gone_s = self._draw.choice(LOST_S)
            self._turn_s = now + gone_s
            self._say(f"The network is lost for {gone_s:g} s.")
        else:
            self._relay.find()
            self._turn_s = now + self._every_s * self._draw.uniform(0.5, 1.5)
        self._there = not self._there

    def stop(self) -> None:
        """End all of them, and the relay. Allowed twice."""
        super().stop()
        self._relay.close()


def start_lossy(campaign: Campaign, home: Home, address: str, say: Callable[[str], None]) -> LossyStations:
    """The host `lossy`: the campaign's stations as on `local`, over a network that is lost now and then."""
    files = [with_key(file, address, home) for file in station_files(campaign, home)]
    stations = LossyStations(files, local_address(address), home.stations / "logs", say)
    stations.start()
    return stations
