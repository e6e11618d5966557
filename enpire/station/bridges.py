"""A station shown to other tooling than ours (ROS 2, say): its state and verdicts out, one wish in, to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

from enpire import plugins
from enpire.types import Episode
from enpire.wire.arrivals import Heartbeat

_SHOW_S = 0.5
"""How often the state is shown."""

Options = Mapping[str, bool | int | float | str]


class Face(Protocol):
    """One way to show a station. No call waits for anybody, and none raises because nobody is there."""

    def show(self, beat: Heartbeat) -> None:
        """The state of the station, about twice a second."""

    def ended(self, episode: Episode) -> None:
        """An episode ended; without arrays."""

    def hear(self, stop: Callable[[str], str]) -> None:
        """Call `stop` with who asked, once for each wish that came since the last call, then answer it.

        `stop` says why the robot may still move, or nothing when it holds.
        """

    def close(self) -> None:
        """Leave."""


class OpenFace(Protocol):
    """What a plug-in of the group `faces` is."""

    def __call__(self, station: str, options: Options) -> Face:
        """Show the station of this name; UsageError or MissingExtra when that cannot be."""
        ...


class Faces:
    """All faces of one station.

    Args:
        station: its name.
        wanted: what its file says: plug-in -> options.
        clock: monotonic seconds.
    """

    def __init__(self, station: str, wanted: Mapping[str, Options], clock: Callable[[], float]) -> None:
        self._faces = [cast(OpenFace, plugins.load("faces", name))(station, given) for name, given in wanted.items()]
        self._clock, self._shown_s = clock, clock()

    def show(self, beat: Callable[[], Heartbeat]) -> None:
        """Tell whoever else watches the state of the station, when it is time to."""
        if self._faces and self._clock() - self._shown_s > _SHOW_S:
            self._shown_s = self._clock()
            for face in self._faces:
                face.show(beat())

    def ended(self, episode: Episode) -> None:
        """An episode ended; without arrays."""
        for face in self._faces:
            face.ended(episode)

    def hear(self, stop: Callable[[str], str]) -> None:
        """Stop for whoever wishes it; `stop` as in `Face.hear`."""
        for face in self._faces:
            face.hear(stop)

    def close(self) -> None:
        """Leave."""
        for face in self._faces:
            face.close()
