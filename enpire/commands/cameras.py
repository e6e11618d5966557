"""`enpire robot cameras`: finds cameras, takes stills, and writes their names into a station file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from enpire.commands.options import answer, log, table
from enpire.errors import RobotProblem, UsageError

if TYPE_CHECKING:
    from enpire.service.station_cameras import Camera


def set_up(station: Path | None, named: Sequence[str], folder: Path, *, as_json: bool) -> None:
    """Find the cameras; with a station file also name them there.

    Args:
        station: the station file.
        named: NAME=CAMERA for each camera of the task; empty: ask at the terminal.
        folder: for the stills.
        as_json: print JSON.

    Raises:
        UsageError: no camera is found, or a name or a camera does not exist.
    """
    from enpire.parts import PartGroup
    from enpire.service.station_cameras import camera_names, write_cameras

    if named and station is None:
        raise UsageError("Name the station file, too: enpire robot cameras FILE --name NAME=CAMERA.")
    wanted = [_pair(text) for text in named]
    names = camera_names(station) if station is not None else ()
    finder: PartGroup[[], list[Camera]] = PartGroup("robots")
    found = finder.load("cameras")()
    if not found:
        raise UsageError("No camera is found. Connect one, and look whether you may read /dev/video0 (group video).")
    taken = _stills(found, folder)
    if station is None or (not wanted and not sys.stdin.isatty()):
        _show(found, taken, as_json=as_json)
        if station is not None:
            asked = " ".join(f"--name {name}=NUMBER" for name in names)
            raise UsageError(f"Say which camera is which: enpire robot cameras {station} {asked}.")
        return
    if not wanted:
        _show(found, taken, as_json=False)
        wanted = [(name, str(typer.prompt(f"Number of the camera {name}"))) for name in names]
    chosen = {name: _choice(found, which) for name, which in wanted}
    write_cameras(station, chosen)
    lines = [f"{name} is {_place(camera)}" for name, camera in chosen.items()]
    answer(chosen, as_json=as_json, text="\n".join([*lines, f"{station} names them under `robot`."]))


def _pair(text: str) -> tuple[str, str]:
    name, sign, which = text.partition("=")
    if not (name and sign and which):
        raise UsageError(f"--name takes NAME=CAMERA, such as front=1 or front=/dev/video0, not {text[:60]!r}.")
    return name, which


def _stills(found: Sequence[Camera], folder: Path) -> list[str]:
    """Take a still with each camera; the path of each, or why there is none."""
    from enpire.parts import PartGroup

    camera_stills: PartGroup[[Camera, Path], None] = PartGroup("robots")
    take, taken = camera_stills.load("still"), list[str]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"The stills cannot be written to {folder}: {problem.strerror}.") from problem
    for number, camera in enumerate(found, start=1):
        path = folder / f"camera-{number}.png"
        log(f"camera {number} of {len(found)}: {_place(camera)}")
        try:
            take(camera, path)
            taken.append(str(path))
        except RobotProblem as problem:
            taken.append(str(problem))
    return taken


def _show(found: Sequence[Camera], taken: Sequence[str], *, as_json: bool) -> None:
    rows = [
        (str(number), _place(camera), f"{camera['width']} x {camera['height']}", f"{camera['fps']} Hz", still)
        for number, (camera, still) in enumerate(zip(found, taken, strict=True), start=1)
    ]
    listed = [{**camera, "still": still} for camera, still in zip(found, taken, strict=True)]
    answer(listed, as_json=as_json, text=table(("number", "camera", "image", "rate", "still"), rows))


def _choice(found: Sequence[Camera], which: str) -> Camera:
    """The camera with this number, from 1, or at this place."""
    for number, camera in enumerate(found, start=1):
        if which in (str(number), _place(camera)):
            return camera
    known = ", ".join(f"{number} ({_place(camera)})" for number, camera in enumerate(found, start=1))
    raise UsageError(f"There is no camera {which[:60]!r}; there are: {known}.")


def _place(camera: Camera) -> str:
    return str(camera.get("index_or_path", camera.get("serial_number_or_name")))
