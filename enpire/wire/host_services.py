"""What a fleet or a station has of the machine that it runs on. A simulation of many machines gives another."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zmq


def _sockets() -> zmq.Context[zmq.Socket[bytes]]:
    import zmq

    return zmq.Context()


def _helper() -> Executor:
    return ThreadPoolExecutor(1, "helper")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """A clock, sockets, and a helper beside the control loop."""

    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds: all deadlines and durations go by it, none by the wall clock."""
    sockets: Callable[[], zmq.Context[zmq.Socket[bytes]]] = _sockets
    """Makes the ZeroMQ context of whoever asks."""
    helper: Callable[[], Executor] = _helper
    """Makes a thread for what takes long: loading policies, reading and writing pictures."""


THIS_HOST = HostServices()
"""This machine."""
