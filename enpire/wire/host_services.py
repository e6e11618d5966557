"""Clock, sockets and helper threads of the machine that a fleet or station runs on. A simulation replaces them."""

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


def _loaders() -> Executor:
    return ThreadPoolExecutor(2, "loader")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """Clock, sockets, and helper threads next to the control loop."""

    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds, used for all deadlines and durations; the wall clock is used for none."""
    sockets: Callable[[], zmq.Context[zmq.Socket[bytes]]] = _sockets
    """Makes a ZeroMQ context for the caller."""
    helper: Callable[[], Executor] = _helper
    """Makes an executor with one thread for slow work: reading and writing images."""
    loaders: Callable[[], Executor] = _loaders
    """Makes an executor with two threads that load policies. The first version of a kind may take a minute, because its
    packages are imported; versions of other kinds do not wait for it."""


THIS_HOST = HostServices()
"""The clock, sockets and threads of this machine."""
