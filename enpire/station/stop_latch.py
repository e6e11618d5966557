"""The stops that hold a station, kept on the station's disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from enpire.errors import EnpireError
from enpire.files import parse, plain
from enpire.ids import mint
from enpire.store import durable


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldStop:
    """One stop that holds the station."""

    stop_id: str
    """1 to 64 letters and digits."""
    by: str
    """Who requested it."""

    def __post_init__(self) -> None:
        """Refuse an id that no message can carry.

        Raises:
            ValueError: it is not 1 to 64 letters and digits.
        """
        if not (self.stop_id.isascii() and self.stop_id.isalnum() and len(self.stop_id) <= 64):
            raise ValueError(f"{self.stop_id[:70]!r} is not 1 to 64 letters and digits.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldStops:
    """The newest stop of each source. A message about one replaces or ends none of the other."""

    here: HeldStop | None = None
    """Requested at the station itself."""
    ordered: HeldStop | None = None
    """From the orchestrator."""

    @property
    def all(self) -> tuple[HeldStop, ...]:
        """Those that hold, the one that was requested at the station first."""
        return tuple(stop for stop in (self.here, self.ordered) if stop is not None)

    def without(self, stop_ids: Collection[str] | None) -> HeldStops:
        """Those that a resume leaves. None ends all."""
        ended = [stop for stop in self.all if stop_ids is None or stop.stop_id in stop_ids]
        return HeldStops(
            here=None if self.here in ended else self.here, ordered=None if self.ordered in ended else self.ordered
        )


class StopLatch:
    """Keeps the stops on disk: a station that is killed and started again is stopped by the same ones.

    A file that cannot be read is a stop.

    Args:
        path: of the file; missing without a stop.
        say: prints one line when the disk refuses.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = path, say
        self.stops = self._read()

    def hold(self, stop: HeldStop, *, here: bool) -> None:
        """Keep a stop, requested here or by the orchestrator. It holds also when the disk refuses it."""
        held = replace(self.stops, here=stop) if here else replace(self.stops, ordered=stop)
        self._keep(held, f"the stop by {stop.by} holds, but it would not survive a restart of this station")

    def end(self, stop_ids: Collection[str] | None) -> None:
        """End the stops with these ids; None: all of them."""
        self._keep(self.stops.without(stop_ids), "this station is resumed, but a restart would stop it again")

    def _keep(self, stops: HeldStops, otherwise: str) -> None:
        if stops == self.stops:
            return
        self.stops = stops
        try:
            if stops.all:
                durable.make_folder(self._path.parent)
                durable.write(self._path, json.dumps(plain(stops)).encode())
            else:
                durable.remove(self._path)
        except EnpireError as problem:
            self._say(f"{otherwise}: {problem}")

    def _read(self) -> HeldStops:
        try:
            return parse(HeldStops, json.loads(self._path.read_bytes()), str(self._path))
        except FileNotFoundError:
            return HeldStops()
        except (EnpireError, OSError, ValueError, RecursionError):
            return HeldStops(here=HeldStop(stop_id=mint(), by="an earlier process of this station"))
