"""ZeroMQ sockets over a simulated network: ROUTER and DEALER, virtual time, faults by seed.

What the fleet and the stations use of `zmq.Context` and its sockets, with the same errors: nothing of their own code is
replaced. A message may be lost, repeated or delayed (so that a later one overtakes it); a link may be cut, wholly or in
one direction. A cut is noticed after three seconds, as ZeroMQ's heartbeat does.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import zmq

NOTICED_S = 3.0
ADDRESS = "inproc://lab"


class Killed(BaseException):
    """Raised in a simulated process that was killed: it must not act any more."""


class World:
    """Virtual time and its events: callbacks in the order of their times."""

    def __init__(self, seed: int) -> None:
        self.now_s = 1000.0
        self.random = random.Random(seed)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def clock(self) -> float:
        return self.now_s

    def at(self, moment_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._due, (max(moment_s, self.now_s), next(self._numbers), happen))

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        self.at(self.now_s + seconds, happen)

    def run_for(self, seconds: float, enough: Callable[[], object] = bool) -> None:
        """Let time pass, or less once `enough` is true."""
        end_s = self.now_s + seconds
        while not enough() and self._due and self._due[0][0] <= end_s:
            moment_s, _, happen = heapq.heappop(self._due)
            self.now_s = moment_s
            happen()
        if not enough():
            self.now_s = max(self.now_s, end_s)


@dataclass(slots=True)
class Link:
    """The connection of one station."""

    up: bool = True
    """Whether messages from the station arrive."""
    down: bool = True
    """Whether messages to the station arrive."""
    cut_s: float = -1e9
    """When the last direction was cut."""
    whole_s: float = 0.0
    """When it works again."""

    def connected(self, now_s: float) -> bool:
        """The connection state that both ends see."""
        return (self.up and self.down) or now_s - self.cut_s < NOTICED_S


@dataclass(slots=True)
class Noise:
    """Probabilities per message, and the mean delay in seconds."""

    lose: float = 0.0
    repeat: float = 0.0
    delay_s: float = 0.002
    in_order: bool = True
    """Whether messages keep their order, as over TCP."""


class Network:
    """The connections between one orchestrator and its stations."""

    def __init__(self, world: World) -> None:
        self.world, self.noise = world, Noise()
        self.links: dict[str, Link] = {}
        self.router: Router | None = None
        self.dealers: dict[bytes, Dealer] = {}
        self.messages = self.harmed = 0
        self._last_s: dict[object, float] = {}

    def link(self, identity: bytes) -> Link:
        return self.links.setdefault(identity.partition(b"/")[0].decode(), Link())

    def reaches(self, identity: bytes) -> bool:
        return self.router is not None and self.link(identity).connected(self.world.now_s)

    def carry(self, way: object, arrive: Callable[[], None], open_way: Callable[[], bool]) -> None:
        """Carry one message to the other end, or apply the network's faults to it."""
        draw, noise = self.world.random, self.noise
        self.messages += 1
        copies = 1
        if draw.random() < noise.lose:
            copies = 0
        elif draw.random() < noise.repeat:
            copies = 2
        self.harmed += copies != 1

        def arrived() -> None:
            if open_way():
                arrive()

        for _ in range(copies):
            moment_s = self.world.now_s + draw.expovariate(1.0 / noise.delay_s)
            if noise.in_order:
                moment_s = self._last_s[way] = max(moment_s, self._last_s.get(way, 0.0))
            self.world.at(moment_s, arrived)


@dataclass(eq=False)
class Process:
    """The simulated process that owns sockets; once it is killed, every operation raises `Killed`."""

    name: str
    dead: bool = False
    dies_in: int = -1
    """Operations left before it is killed; -1 for any number."""

    def act(self) -> None:
        """Count one external operation; a process can be killed at each of them."""
        if self.dies_in > 0:
            self.dies_in -= 1
        elif self.dies_in == 0:
            self.dead = True
        if self.dead:
            raise Killed(self.name)


@dataclass(eq=False)
class Inert:
    """A socket without a peer, for live images, which are not simulated."""

    network: Network
    process: Process

    def setsockopt(self, option: int, value: object) -> None: ...
    def bind(self, address: str) -> None: ...
    def connect(self, address: str) -> None: ...

    def getsockopt_string(self, _: int) -> str:
        return "tcp://127.0.0.1:0"

    def poll(self, milliseconds: int) -> int:
        time.sleep(0.005)  # its thread runs in real time
        return 0

    def close(self, linger: int = 0) -> None: ...


@dataclass(eq=False)
class Router(Inert):
    """The orchestrator's end."""

    waiting: deque[list[bytes]] = field(default_factory=deque)

    def bind(self, address: str) -> None:
        self.network.router = self

    def poll(self, milliseconds: int) -> int:
        self.process.act()
        self.network.world.run_for(milliseconds / 1000, lambda: self.waiting)
        return len(self.waiting)

    def recv_multipart(self, flags: int, copy: bool = True) -> list[Any]:
        if not self.waiting:
            raise zmq.Again
        return [SimpleNamespace(bytes=part, buffer=memoryview(part)) for part in self.waiting.popleft()]

    def send_multipart(self, parts: list[bytes], flags: int) -> None:
        self.process.act()
        identity, data = parts
        dealer = self.network.dealers.get(identity)
        if dealer is None or not self.network.reaches(identity):
            raise zmq.ZMQError(zmq.EHOSTUNREACH)
        link = self.network.link(identity)
        way = (identity, "down")
        self.network.carry(way, lambda: dealer.waiting.append(data), lambda: link.down and not dealer.closed)
        self.process.act()

    def close(self, linger: int = 0) -> None:
        if self.network.router is self:
            self.network.router = None


@dataclass(eq=False)
class Dealer(Inert):
    """A station's end."""

    waiting: deque[bytes] = field(default_factory=deque)
    identity: bytes = b""
    closed: bool = False

    def setsockopt(self, option: int, value: object) -> None:
        if option == zmq.IDENTITY and isinstance(value, bytes):
            self.identity = value

    def connect(self, address: str) -> None:
        self.network.dealers[self.identity] = self

    def poll(self, milliseconds: int) -> int:
        self.process.act()
        return len(self.waiting)

    def recv_multipart(self, flags: int) -> list[bytes]:
        if not self.waiting:
            raise zmq.Again
        return [self.waiting.popleft()]

    def send(self, data: bytes, flags: int) -> None:
        self.process.act()
        network, link = self.network, self.network.link(self.identity)
        if not network.reaches(self.identity):
            raise zmq.Again
        router = network.router
        assert router is not None
        frames = [self.identity, data]
        way = (self.identity, "up")
        network.carry(way, lambda: router.waiting.append(frames), lambda: link.up and network.router is router)
        self.process.act()

    def close(self, linger: int = 0) -> None:
        self.closed = True
        if self.network.dealers.get(self.identity) is self:
            del self.network.dealers[self.identity]


class Context:
    """Replaces `zmq.Context` in one simulated process."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process
        self._made: list[Inert] = []

    def socket(self, kind: int) -> Any:
        kinds: dict[int, type[Inert]] = {zmq.ROUTER: Router, zmq.DEALER: Dealer}
        made = kinds.get(kind, Inert)(self._network, self._process)
        self._made.append(made)
        return made

    def destroy(self, linger: int = 0) -> None:
        for made in self._made:
            made.close()
