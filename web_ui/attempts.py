"""Delays repeated failed sign-ins, by address and name. Failures from one address do not delay another address."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE, FREE_OF_ADDRESS = 5, 40
"""Failures without a delay: for one name from one address, and for all names from one address."""
FIRST_S, LONGEST_S = 2.0, 300.0
"""Delay after the first failure beyond these, in seconds. Each further failure doubles it, up to the longest."""
FORGOTTEN_S = 3600.0
"""Seconds without a failure after which a count starts again from 0."""
REMEMBERED = 20_000
"""Most counts kept, the newest, so that a flood of names cannot fill the memory."""


@dataclass(slots=True)
class Failed:
    """Failures of one address, or of one name from one address."""

    count: int = 0
    last_s: float = 0.0


class Attempts:
    """Counts failed sign-ins by address, and by address and name. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[tuple[str, str], Failed] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, address: str, name: str) -> float:
        """Start a try. Returns 0, and counts the try as failed until `passed`; or the seconds to wait first."""
        keys = _keys(address, name)
        with self._lock:
            wait_s = max(self._wait_s(key) for key in keys)
            if wait_s <= 0:
                for key in keys:
                    self._count(key)
        return max(0.0, wait_s)

    def passed(self, address: str, name: str) -> None:
        """The try succeeded: forget the failures of this name, and the one failure counted for the address."""
        whole, own = _keys(address, name)
        with self._lock:
            self._failed.pop(own, None)
            if whole in self._failed:
                self._failed[whole].count -= 1

    def _wait_s(self, key: tuple[str, str]) -> float:
        failed = self._failed.get(key)
        over = failed.count - (FREE if key[1] else FREE_OF_ADDRESS) if failed else -1
        if failed is None or over < 0:
            return 0.0
        return failed.last_s + min(LONGEST_S, FIRST_S * 2.0 ** min(over, 30)) - self._clock()

    def _count(self, key: tuple[str, str]) -> None:
        now_s = self._clock()
        failed = self._failed.setdefault(key, Failed())
        failed.count = 1 if now_s > failed.last_s + FORGOTTEN_S else failed.count + 1
        failed.last_s = now_s
        self._failed.move_to_end(key)
        while len(self._failed) > REMEMBERED:
            self._failed.popitem(last=False)


def _keys(address: str, name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    whose = _network(address)
    return (whose, ""), (whose, f"name {name}")


def _network(address: str) -> str:
    """The address; for IPv6 its 64-bit network, because one machine may use all of its addresses."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address) or known.is_loopback:
        return str(known)
    return str(known.ipv4_mapped or ipaddress.IPv6Network((known, 64), strict=False))
