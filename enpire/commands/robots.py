"""`enpire robot list | check | cameras | serve | status | stop | resume | code`: drivers, checks, cameras, guards."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from enpire.commands.options import AsJson, Home, answer, log, table

if TYPE_CHECKING:
    from enpire.commands.conformance import OnResult
    from enpire.conformance import ConformanceReport
    from enpire.types import Start

Card = Annotated[
    Path, typer.Argument(help="The file `guard.json` of the guard, in the folder that the station file names.")
]
Robot = Annotated[
    str, typer.Argument(help="Station file (or its name), or driver file (.py).", metavar="STATION_OR_DRIVER")
]


class GuardControl(Protocol):
    """A connection to the guard of a robot."""

    def status(self) -> Mapping[str, object]:
        """The state of the guard."""
        ...

    def stop(self, cause: str) -> None:
        """Stop the robot and latch it."""
        ...

    def newest_stop(self) -> str:
        """The stop that holds the robot now."""
        ...

    def resume(self, person: str, code: str, stop: str) -> None:
        """Allow motion again after this stop; a newer one holds."""
        ...


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(
        help="Robots: list the drivers, check one, set up cameras, serve one; status, stop, resume, code.",
        no_args_is_help=True,
    )
    group.command("list")(list_drivers)
    for subcommand in (check, cameras, serve, status, stop, resume, code):
        group.command()(subcommand)
    app.add_typer(group, name="robot")


def list_drivers(as_json: AsJson = False) -> None:
    """List the drivers that a station file can name."""
    from enpire.plugins import listed

    parts = listed("drivers")
    rows = [(part.name, part.what) for part in parts]
    answer(parts, as_json=as_json, text=table(("driver", "what it is"), rows))


def check(robot: Robot, as_json: AsJson = False) -> None:
    """Check a robot against the rules that stations rely on; exit code 1 when it breaks one. THE ROBOT MOVES.

    The robot of a driver file runs behind a guard, the robot of a station file as the station opens it. The checks
    stop the robot and resume it; for a robot that only an operator resumes they ask for its code.
    """
    from enpire.commands.conformance import finish, run_checks
    from enpire.parts import PartGroup

    counts: PartGroup[[], int] = PartGroup("inspections")
    total = counts.load("robot_checks")()
    run = _driver_checks(Path(robot)) if robot.endswith(".py") else _station_checks(robot)
    finish([run_checks("checks", total, run, verbose=True, as_json=as_json)], as_json=as_json)


def cameras(
    station: Annotated[
        Path | None,
        typer.Argument(help="Station file of a LeRobot robot, which gets the cameras that you name.", metavar="[FILE]"),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A camera of the task and which one it is, by number or place; may be repeated.", metavar="NAME=CAMERA"
        ),
    ] = None,
    stills: Annotated[Path, typer.Option(help="Folder for a still of each camera.")] = Path("camera-stills"),
    as_json: AsJson = False,
) -> None:
    """Find the cameras of this computer, take a still with each, and name them in a station file.

    Without --name, a terminal asks which camera is which.
    """
    from enpire.commands.cameras import set_up

    set_up(station, name or [], stills, as_json=as_json)


def serve(
    robot: Robot,
    bind: Annotated[
        str,
        typer.Option(help="Where the station connects: tcp://ADDRESS:PORT with keys, or ipc:///FOLDER/NAME."),
    ] = "tcp://127.0.0.1:7200",
    home: Home = None,
) -> None:
    """Serve this robot, behind its guard, to a station on another computer (docs/robots.md)."""
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.parts import PartGroup
    from enpire.service.stations import read_station

    servers: PartGroup[..., None] = PartGroup("robots")
    run = servers.load("serve")
    run(Path(robot) if robot.endswith(".py") else read_station(robot).robot, bind, HomeFolder(find_home(home)), log)


def status(card: Card, as_json: AsJson = False) -> None:
    """Show the state of a robot's guard."""
    with _connect(card) as guard:
        state = guard.status()
    answer(state, as_json=as_json, text=table(("field", "value"), [(name, str(item)) for name, item in state.items()]))


def stop(card: Card) -> None:
    """Stop one robot at its guard and latch it; returns when the latch is on disk."""
    with _connect(card) as guard:
        guard.stop(f"{getpass.getuser()} at the command line")
    typer.echo("The robot is stopped until `enpire robot resume`.")


def resume(card: Card) -> None:
    """Allow a stopped robot to move again; asks for its code. Look at the robot first."""
    with _connect(card) as guard:
        seen = guard.newest_stop()  # before the prompt: a stop that comes while the operator types holds
        typed = typer.prompt("The robot's code (none in simulation)", default="", show_default=False, hide_input=True)
        guard.resume(getpass.getuser(), typed, seen)
    typer.echo("The robot may move again.")


def code(
    folder: Annotated[Path, typer.Argument(help="The folder of the robot's guard, as its station file says.")],
) -> None:
    """Make the code with which an operator resumes a real robot. Keep it away from the robot's computer."""
    from enpire.parts import PartGroup

    codes: PartGroup[[Path], str] = PartGroup("robots")
    typer.echo(codes.load("resume_code")(folder))


def _driver_checks(path: Path) -> Callable[[OnResult], ConformanceReport]:
    """The checks of the robot of a driver file, behind a guard."""
    from enpire.parts import PartGroup

    checks: PartGroup[[Path, OnResult], ConformanceReport] = PartGroup("inspections")
    return partial(checks.load("driver_file"), path)


def _station_checks(named: str) -> Callable[[OnResult], ConformanceReport]:
    """The checks of the robot of a station file, opened as the station opens it."""
    from enpire.conformance import StationRobot
    from enpire.parts import TASKS, PartGroup
    from enpire.service.stations import open_robot, read_station

    file = read_station(named)
    task = TASKS.make(file.task)
    checks: PartGroup[..., ConformanceReport] = PartGroup("inspections")

    def start(index: int) -> Start:
        return task.start("train", index, b"")

    robot = StationRobot(
        name=file.name, open=partial(open_robot, file, task), start=start, realtime=file.pace == "realtime",
        ask_code=lambda: typer.prompt("The robot's code", hide_input=True), say=log,
    )  # fmt: skip
    return partial(checks.load("rig"), robot)


def _connect(card: Path) -> AbstractContextManager[GuardControl]:
    from enpire.parts import PartGroup

    guards: PartGroup[[Path], AbstractContextManager[GuardControl]] = PartGroup("robots")
    return guards.load("guard")(card)
