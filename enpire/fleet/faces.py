"""A station shown to other tooling than ours (ROS 2, say): its state and verdicts out, one wish in, to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from enpire import plugins
from enpire.fleet.arrivals import Beat
from enpire.types import Episode

Options = Mapping[str, bool | int | float | str]


class Face(Protocol):
    """One way to show a station. No call waits for anybody, and none raises because nobody is there."""

    def show(self, beat: Beat) -> None:
        """The state of the station, about twice a second."""

    def ended(self, episode: Episode) -> None:
        """An episode ended; without arrays."""

    def hear(self, stop: Callable[[str], None]) -> None:
        """Call `stop` with who asked, once for each wish that came since the last call, then answer it."""

    def close(self) -> None:
        """Leave."""


class OpenFace(Protocol):
    """What a plug-in of the group `faces` is."""

    def __call__(self, station: str, options: Options) -> Face:
        """Show the station of this name; UsageError or MissingExtra when that cannot be."""
        ...


def open_faces(station: str, wanted: Mapping[str, Options]) -> Sequence[Face]:
    """The faces that a station file names."""
    return [cast(OpenFace, plugins.load("faces", name))(station, options) for name, options in wanted.items()]
