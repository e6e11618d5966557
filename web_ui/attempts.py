"""Slows down whoever guesses passwords, and nobody else: what one address does never keeps another from signing in."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE, FREE_OF_ADDRESS = 5, 40
"""Failures without a delay: of one name from one address, and of all names from one address."""
FIRST_S, LONGEST_S = 2.0, 300.0
"""The delay after the first failure that is not free; each further one doubles it, up to the longest."""
FORGOTTEN_S = 3600.0
"""A key that did not fail for so long begins anew."""
REMEMBERED = 20_000
"""Keys kept, the newest; a flood of names cannot fill the memory."""


@dataclass(slots=True)
class Failed:
    """The failures of one key."""

    count: int = 0
    last_s: float = 0.0


class Attempts:
    """Counts failed sign-ins by address, and by address and name. Safe to call from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[tuple[str, str], Failed] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, address: str, name: str) -> float:
        """Try: seconds until this may be done, 0 when now; then it counts as failed until `passed` takes it back."""
        keys = _keys(address, name)
        with self._lock:
            wait_s = max(self._wait_s(key) for key in keys)
            if wait_s <= 0:
                for key in keys:
                    self._count(key)
        return max(0.0, wait_s)

    def passed(self, address: str, name: str) -> None:
        """The try was right: the name begins anew there; to the address it was no failure, and others stay counted."""
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
    """An address; of IPv6 the network of 64 bits, which one machine may have all of."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address) or known.is_loopback:
        return str(known)
    return str(known.ipv4_mapped or ipaddress.IPv6Network((known, 64), strict=False))
