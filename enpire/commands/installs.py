"""`enpire station install` and `enpire serve install`: what systemd needs to start them with the machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import log
from enpire.errors import UsageError

if TYPE_CHECKING:
    from enpire.service.units import Installation

To = Annotated[
    Path | None,
    typer.Option(help="With `install`: write the files below this folder, such as /; without it they are printed."),
]
User = Annotated[
    str, typer.Option(help="With `install`: user of the service; a robot's guard runs as this name with -guard.")
]
USER = "enpire"


def install_station(station: str, to: Path | None, user: str) -> None:
    """Write or print the units of a station and of its guard."""
    from enpire.files import find
    from enpire.service.stations import read_station
    from enpire.service.units import station_units

    if not station:
        raise UsageError("Name the station file: `enpire station install FILE`.")
    _give(station_units(read_station(station), find("stations", station), user), to)


def install_serve(home: Path, host: str, port: int, to: Path | None, user: str) -> None:
    """Write or print the unit of the pages of a home."""
    from enpire.service.units import Serving, serve_units

    _give(serve_units(Serving(home=home, host=host, port=port), user), to)


def _give(made: Installation, to: Path | None) -> None:
    from enpire.service.units import write_units

    if to is None:
        print("\n".join(f"# /{name}\n{text}" for name, text in made.files.items()), end="")
        return log("`--to /` writes these files.")
    for path in write_units(made, to):
        print(path)
    log("Then type, as root:")
    for command in made.commands:
        log(f"  {command}")
