"""Many fake stations in one process: they use the real protocol over real sockets and move nothing.

An episode takes a few seconds, like a robot's, and succeeds with probability 0.5; its recording has the size of a real
one. Each station measures the delays of replies. With images, a station records new ones whenever the last ones have
arrived, so that it always sends some next to its small episodes.
"""

from __future__ import annotations

import hashlib
import io
import random
import time
import zipfile
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import zmq

from enpire.station.robot_time import RobotTime
from enpire.store import arrays
from enpire.types import Episode, EpisodeArrays, Order
from enpire.wire.arrivals import Heartbeat
from enpire.wire.host_services import THIS_HOST, HostServices
from enpire.wire.messages import (
    Acknowledge,
    Alive,
    ControlMessage,
    Envelope,
    Goodbye,
    Hello,
    Orders,
    Parcel,
    PicturesPart,
    Rejoin,
    Release,
    WantPictures,
    Welcome,
    encode,
)
from enpire.wire.zmq_link import StationLink
from tests.fakes.point_task import PointTask

FRAMES = 120
RESET_S = 0.5


def recording() -> bytes:
    """The arrays file of an episode of `FRAMES` periods of a six-axis arm."""
    noise = np.random.default_rng(0)
    state = noise.normal(size=(FRAMES + 1, 12)).astype(np.float32)
    action = noise.normal(size=(FRAMES, 6)).astype(np.float32)
    source, chunk = np.zeros(FRAMES, np.uint8), np.arange(FRAMES, dtype=np.int32) // 8
    return arrays.pack(EpisodeArrays(state=state, action=action, source=source, chunk=chunk))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the fake stations do."""

    stations: int
    seconds: float
    """Length of the measurement, which begins when every station has ended an episode."""
    episode_s: float = 6.0
    heartbeat_hz: float = 10.0
    pictures_bytes: int = 0
    """Size of the image file of an episode of a station with images."""
    pictured: float = 1.0
    """Share of the stations with images."""


@dataclass
class Delays:
    """Delays in seconds, one list for each kind."""

    heartbeat: list[float] = field(default_factory=list[float])
    """From a heartbeat to its reply: how long a message waits for the orchestrator."""
    keep: list[float] = field(default_factory=list[float])
    """From the delivery of an episode to its acknowledgement."""
    refill: list[float] = field(default_factory=list[float])
    """From the delivery of an episode to the next orders."""
    pictures: list[float] = field(default_factory=list[float])
    """From the announcement of an episode with images to its acknowledgement."""

    def add(self, other: Delays) -> None:
        """Add the delays of another station."""
        self.heartbeat += other.heartbeat
        self.keep += other.keep
        self.refill += other.refill
        self.pictures += other.pictures


class Pictures:
    """One image file (noise) for all episodes, and the thread that reads it, as in a station's uplink."""

    def __init__(self, size: int) -> None:
        self.content = b""
        if size:
            file, noise = io.BytesIO(), np.random.default_rng(0)
            with zipfile.ZipFile(file, "w") as archive:
                for tick in range(size // 2**20):
                    archive.writestr(zipfile.ZipInfo(f"top_{tick:05d}.jpg"), noise.bytes(2**20))
            self.content = file.getvalue()
        self.sha256 = hashlib.sha256(self.content).hexdigest() if size else ""
        self.reader = ThreadPoolExecutor(1)

    def part(self, want: WantPictures, lease: int) -> bytes:
        """The encoded reply to a request for a part."""
        data = self.content[want.offset : want.offset + want.size]
        part = PicturesPart(order_id=want.order_id, offset=want.offset, total=len(self.content), data=data)
        return encode(part, lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a station does for an order."""

    episode_s: float
    """Mean length of an episode."""
    data: bytes
    """Its arrays file."""
    pictures: Pictures


class FakeStation:
    """One station with one lane."""

    def __init__(self, address: str, name: str, work: Work, host: HostServices) -> None:
        self.link = StationLink(address, name, host=host)
        self.name, self.delays, self.ended = name, Delays(), 0
        self._episode_s, self._data, self._sha = work.episode_s, work.data, hashlib.sha256(work.data).hexdigest()
        self._draw = random.Random(name)
        self._pictures, self._pictured = work.pictures, ""
        self._parts: deque[Future[bytes]] = deque()
        self._lease, self._greeting, self._greeted_s = 0, 0, -1e9
        self.time = RobotTime(1)
        self._queue: deque[Order] = deque()
        self._running: Order | None = None
        self._switch_s = 0.0
        self._unkept: dict[str, float] = {}
        self._parcels: dict[str, Parcel] = {}
        self._wanting: deque[float] = deque()
        self._heartbeats: deque[float] = deque()
        self._heartbeat_s = time.monotonic() + self._draw.random()
        self._champion = ""

    @property
    def joined(self) -> bool:
        return self._lease > 0

    def hear(self) -> None:
        """Handle the messages of the orchestrator."""
        for envelope in self.link.receive(0.0):
            if isinstance(envelope.message, Welcome):
                self._lease = envelope.lease
            elif isinstance(envelope.message, Rejoin):
                self._lease = 0
            elif envelope.lease == self._lease:
                self._handle(envelope)

    def work(self, now: float, every_s: float) -> None:
        """Begin and end orders, deliver episodes and send a heartbeat if they are due."""
        if not self._lease:
            if now - self._greeted_s > 1.0:
                self._greet(now)
            return
        if self._running is not None and now >= self._switch_s:
            if self.time.phase(0) == "reset":
                self.time.switch([0], "rollout")
                self._switch_s = now + self._episode_s * self._draw.uniform(0.5, 1.5)
            else:
                self._end(now)
        if self._running is None and self._queue:
            self._running = self._queue.popleft()
            self.time.switch([0], "reset")
            self._switch_s = now + RESET_S
        while self._parts and self._parts[0].done():
            self.link.post(self._parts.popleft().result())
        if now >= self._heartbeat_s:
            self._heartbeat_s = now + every_s
            self._heartbeat(now)

    def leave(self) -> None:
        self.link.send(Goodbye(cause="the benchmark is over"), self._lease)

    def _handle(self, envelope: Envelope) -> None:
        now = time.monotonic()
        match envelope.message:
            case Orders(orders=orders):
                self._take(orders, now)
            case Acknowledge(order_ids=order_ids):
                self._forget(order_ids, now)
            case Alive() if self._heartbeats:
                # Only the newest waiting heartbeat gets a reply: the oldest one gives the delay.
                self.delays.heartbeat.append(now - self._heartbeats[0])
                self._heartbeats.clear()
            case WantPictures() as want:
                self._parts.append(self._pictures.reader.submit(self._pictures.part, want, self._lease))
            case Release(order_ids=order_ids):
                self._release(order_ids, now)
            case ControlMessage(control="deploy", argument=policy_id):
                self._champion = policy_id
            case _:
                pass

    def _take(self, orders: Sequence[Order], now: float) -> None:
        self._queue.extend(orders)
        for _ in orders:
            if self._wanting:
                self.delays.refill.append(now - self._wanting.popleft())

    def _forget(self, order_ids: Sequence[str], now: float) -> None:
        for order_id in order_ids:
            if order_id in self._unkept:
                waited = self.delays.pictures if order_id == self._pictured else self.delays.keep
                waited.append(now - self._unkept.pop(order_id))
            if order_id == self._pictured:
                self._pictured = ""
            self._parcels.pop(order_id, None)

    def _release(self, order_ids: Sequence[str], now: float) -> None:
        for order in [order for order in self._queue if order.order_id in order_ids]:
            self._queue.remove(order)
            self._deliver(order, replace(self._ending(order, now), outcome="aborted", cause="released"), b"")

    def _greet(self, now: float) -> None:
        self._greeted_s, self._greeting = now, self._greeting + 1
        running = [order.order_id for order in [*self._queue, *([self._running] if self._running else [])]]
        hello = Hello(
            station=self.name, greeting=self._greeting, lanes=1, running=tuple(running), spooled=tuple(self._parcels),
            facts={"driver": "fake", "verifier": PointTask().verifier().digest},
        )  # fmt: skip
        self.link.send(hello)

    def _heartbeat(self, now: float) -> None:
        phase = self.time.phase(0)
        heartbeat = Heartbeat(
            station=self.name, lease=self._lease, phase=phase, seconds=self.time.seconds(), queued=len(self._queue),
            running=int(self._running is not None), deployed=self._champion,
        )  # fmt: skip
        if self.link.send(heartbeat, self._lease):
            self._heartbeats.append(now)

    def _end(self, now: float) -> None:
        order, self._running = self._running, None
        assert order is not None
        self.time.switch([0], "wait-order")
        self.ended += 1
        self._wanting.append(now)
        self._deliver(order, self._ending(order, now), self._data)

    def _deliver(self, order: Order, episode: Episode, data: bytes) -> None:
        seen = ""
        if data and not self._pictured and self._pictures.content:
            self._pictured, seen = order.order_id, self._pictures.sha256
        episode = replace(episode, sha256=self._sha if data else "", pictures_sha256=seen)
        parcel = Parcel(episode=episode, arrays_file=data)
        self._parcels[order.order_id] = parcel
        self._unkept[order.order_id] = time.monotonic()
        self.link.send(parcel, self._lease)

    def _ending(self, order: Order, now: float) -> Episode:
        outcome = "success" if self._draw.random() < 0.5 or order.purpose == "demonstrate" else "failure"
        return Episode(
            order=order, outcome=outcome, cause="", confidence=0.9, ran_policy_id=order.policy_id, ticks=FRAMES,
            began_s=now - self._episode_s, ended_s=now, achieved_start=order.start.values,
        )  # fmt: skip


class Host:
    """Runs all stations in one thread."""

    def __init__(self, address: str, load: Load) -> None:
        self.pictures = Pictures(load.pictures_bytes)
        none = Work(episode_s=load.episode_s, data=recording(), pictures=Pictures(0))
        pictured, every = replace(none, pictures=self.pictures), round(1 / load.pictured)
        sockets: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        sockets.set(zmq.MAX_SOCKETS, 4 * load.stations + 1000)
        host = replace(THIS_HOST, sockets=lambda: sockets)
        self.stations = [
            FakeStation(address, f"p-{index}", none if index % every else pictured, host)
            for index in range(load.stations)
        ]
        self._every_s = 1.0 / load.heartbeat_hz

    def run_until(self, end_s: float) -> None:
        """Work until `end_s` on the monotonic clock."""
        poller = zmq.Poller()
        by_socket = {station.link._socket: station for station in self.stations}
        for socket in by_socket:
            poller.register(socket, zmq.POLLIN)
        while (now := time.monotonic()) < end_s:
            for station in self.stations:
                station.work(now, self._every_s)
            for socket, _ in poller.poll(5):
                by_socket[socket].hear()

    def forget_delays(self) -> None:
        for station in self.stations:
            station.delays = Delays()

    def close(self) -> None:
        self.pictures.reader.shutdown()
        for station in self.stations:
            station.leave()
        for station in self.stations:
            station.link.close()
