"""A port for a program that must be told one, and cannot be given a bound socket."""

from __future__ import annotations

import os
import random
import socket

OWN = range(20000, 30000)
"""Below the ports that the system gives to connections and to port 0, so that no other test gets it in the meantime."""
_draw = random.Random(os.getpid())
"""Each process looks at other places, and no call begins where the last one did."""


def free_port() -> int:
    """A port of the loopback on which nothing listens."""
    while True:
        port = _draw.choice(OWN)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
