"""A proxy that drops, repeats, reorders, truncates and damages messages in both directions, from a seed.

TCP hides such faults as delays, so the proxy between stations and orchestrator injects them above TCP.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

import zmq


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probability of each fault, for every message."""

    drop: float = 0.0
    repeat: float = 0.0
    swap: float = 0.0
    damage: float = 0.0


class FaultyProxy:
    """Stations connect to `address`; their messages reach the orchestrator with faults."""

    def __init__(self, upstream: str, faults: Faults, seed: int) -> None:
        self._upstream, self._faults, self._random = upstream, faults, random.Random(seed)
        self._context = zmq.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self._front.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self.address = upstream + "-relay"
        self._front.bind(self.address)
        self._backs: dict[bytes, zmq.Socket[bytes]] = {}
        self._held: dict[tuple[bytes, bool], bytes] = {}
        self.harmed = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._front, zmq.POLLIN)
        while not self._ending.is_set():
            for ready, _ in poller.poll(20):
                if ready is self._front:
                    peer, data = self._front.recv_multipart()
                    if peer not in self._backs:
                        back = self._backs[peer] = self._context.socket(zmq.DEALER)
                        back.setsockopt(zmq.IDENTITY, peer)
                        back.connect(self._upstream)
                        poller.register(back, zmq.POLLIN)
                    for out in self._harm(data, (peer, True)):
                        self._backs[peer].send(out)
                else:
                    peer = next(name for name, back in self._backs.items() if back is ready)
                    for out in self._harm(ready.recv(), (peer, False)):
                        self._front.send_multipart([peer, out])

    def _harm(self, data: bytes, way: tuple[bytes, bool]) -> list[bytes]:
        draw, faults = self._random.random(), self._faults
        before = self._held.pop(way, None)
        after = [before] if before is not None else []
        for kind, share in (("drop", faults.drop), ("repeat", faults.repeat), ("swap", faults.swap)):
            if draw < share:
                self.harmed += 1
                if kind == "swap" and before is None:
                    self._held[way] = data
                    return []
                return {"drop": [], "repeat": [data, data], "swap": [data]}[kind] + after
            draw -= share
        if draw < faults.damage:
            self.harmed += 1
            bad = bytearray(data[: self._random.randrange(1, len(data) + 1)])
            bad[self._random.randrange(len(bad))] ^= 1 << self._random.randrange(8)
            return [bytes(bad), *after]
        return [data, *after]
