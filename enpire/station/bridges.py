"""A station on another system's topics (ROS 2, for example): its state and verdicts go out, stop requests come in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from enpire.parts import PartGroup
from enpire.types import Episode
from enpire.wire.arrivals import Heartbeat

_SHOW_S = 0.5
"""Time between two states that are shown [s]."""

Options = Mapping[str, bool | int | float | str]


class Bridge(Protocol):
    """Connects one station to another system. No call waits, and a system that does not listen is no error."""

    def show(self, heartbeat: Heartbeat) -> None:
        """Publish the state of the station; called about twice a second."""

    def ended(self, episode: Episode) -> None:
        """Publish an episode that ended; it has no arrays."""

    def hear(self, stop: Callable[[str], str]) -> None:
        """For each stop request that arrived since the last call, call `stop` with its sender, then answer it.

        `stop` returns why the robot may still move, or an empty text when the stop holds.
        """

    def close(self) -> None:
        """Disconnect."""


BRIDGES: PartGroup[[str, Options], Bridge] = PartGroup("bridges")
"""Called with the name of a station, which it connects, and its options.

UsageError or MissingExtra when that is not possible.
"""


class Bridges:
    """All bridges of one station.

    Args:
        station: its name.
        wanted: from the station file: plug-in -> options.
        clock: gives monotonic seconds.
    """

    def __init__(self, station: str, wanted: Mapping[str, Options], clock: Callable[[], float]) -> None:
        self._bridges = [BRIDGES.load(name)(station, options) for name, options in wanted.items()]
        self._clock, self._shown_s = clock, clock()

    def show(self, heartbeat: Callable[[], Heartbeat]) -> None:
        """Publish the state of the station, if the last one is old enough."""
        if self._bridges and self._clock() - self._shown_s > _SHOW_S:
            self._shown_s = self._clock()
            for bridge in self._bridges:
                bridge.show(heartbeat())

    def ended(self, episode: Episode) -> None:
        """Publish an episode that ended; it has no arrays."""
        for bridge in self._bridges:
            bridge.ended(episode)

    def hear(self, stop: Callable[[str], str]) -> None:
        """Handle the stop requests that arrived; `stop` as in `Bridge.hear`."""
        for bridge in self._bridges:
            bridge.hear(stop)

    def close(self) -> None:
        """Disconnect all."""
        for bridge in self._bridges:
            bridge.close()
