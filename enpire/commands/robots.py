"""`enpire robot list | check | serve | status | stop | resume | code`: drivers, the kit, a robot's guard."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from enpire.commands.options import AsJson, Home, answer, table, tell

if TYPE_CHECKING:
    from enpire.conformance import ConformanceReport

Card = Annotated[Path, typer.Argument(help="The guard's card: `guard.json` in the folder that its station file names.")]


class Hand(Protocol):
    """A person's hand on a guard."""

    def status(self) -> Mapping[str, object]:
        """What the guard says of itself."""
        ...

    def stop(self, cause: str) -> None:
        """Stop and latch."""
        ...

    def resume(self, person: str, code: str) -> None:
        """Allow motion again."""
        ...


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(
        help="Robots: list the drivers, check one, serve one; status, stop, resume, code.", no_args_is_help=True
    )
    group.command("list")(list_drivers)
    for verb in (check, serve, status, stop, resume, code):
        group.command()(verb)
    app.add_typer(group, name="robot")


def list_drivers(as_json: AsJson = False) -> None:
    """List the drivers that a station file can name."""
    from enpire.plugins import listed

    parts = listed("drivers")
    rows = [(part.name, part.what) for part in parts]
    answer(parts, as_json=as_json, text=table(("driver", "what it is"), rows))


def check(
    file: Annotated[str, typer.Argument(help="Driver file (docs/robots.md), or station file.")],
    as_json: AsJson = False,
) -> None:
    """Check the robot of a driver file, behind its guard, or of a station file. THE ROBOT MOVES."""
    from enpire.commands.conformance import OnResult, finish, run_checks
    from enpire.plugins import load

    checked = cast("Callable[[str, OnResult], ConformanceReport]", load("inspections", "robot"))
    total = cast("Callable[[], int]", load("inspections", "robot_checks"))()
    report = run_checks("checks", total, partial(checked, file), verbose=True, as_json=as_json)
    finish([report], as_json=as_json)


def serve(
    robot: Annotated[
        str, typer.Argument(help="Station file (or its name), or driver file (.py).", metavar="STATION_OR_DRIVER")
    ],
    bind: Annotated[
        str, typer.Option(help="Where its station asks, tcp://ADDRESS:PORT; encrypted unless it stays on this machine.")
    ] = "tcp://127.0.0.1:7200",
    home: Home = None,
) -> None:
    """Let a station at another computer move this robot, behind its guard here (docs/robots.md)."""
    from enpire.home import open_home
    from enpire.plugins import load

    run = cast("Callable[..., None]", load("robots", "robot_drivers.serving:serve"))
    run(robot, bind, open_home(home), tell)


def status(card: Card, as_json: AsJson = False) -> None:
    """What a robot's guard says of itself."""
    with _hand(card) as hand:
        said = hand.status()
    answer(said, as_json=as_json, text=table(("what", "is"), [(name, str(value)) for name, value in said.items()]))


def stop(card: Card) -> None:
    """Stop one robot at its guard, and latch it; answered when the latch is durable."""
    with _hand(card) as hand:
        hand.stop(f"{getpass.getuser()} at the command line")
    typer.echo("The robot is stopped, and stays so until `enpire robot resume`.")


def resume(card: Card) -> None:
    """Allow a stopped robot to move again; asks for its code. Look at it first."""
    with _hand(card) as hand:
        said = typer.prompt("The robot's code (none in simulation)", default="", show_default=False, hide_input=True)
        hand.resume(getpass.getuser(), said)
    typer.echo("The robot may move again.")


def code(
    folder: Annotated[Path, typer.Argument(help="The folder of the robot's guard, as its station file says.")],
) -> None:
    """Make the code with which people resume a real robot. Keep it away from the robot's computer."""
    from enpire.plugins import load

    typer.echo(cast("Callable[[Path], str]", load("robots", "robot_drivers.resume_code:make"))(folder))


def _hand(card: Path) -> AbstractContextManager[Hand]:
    from enpire.plugins import load

    open_hand = load("robots", "robot_drivers.guard_client:Control")
    return cast("Callable[[Path], AbstractContextManager[Hand]]", open_hand)(card)
