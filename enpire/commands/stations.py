"""`enpire station`, its commands to stations, and the hidden `learner`: processes of a robot and of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.installs import USER, To, User, install_station
from enpire.commands.options import Home, existing_home, send_command
from enpire.errors import UsageError

ANY_TASK = "pin_insertion"
"""The task in the file of a station that is enrolled while no campaign runs; the operator edits it."""


COMMANDS: Mapping[str, str] = {
    "pause": "pause", "resume": "resume", "stop": "stop", "service": "service", "clear": "service done",
    "reset": "reset", "home": "home",
}  # fmt: skip
"""Word -> the command that it sends to a station of the running campaign."""
WORDS = "a word: enroll, install, " + ", ".join(COMMANDS)


def add_to(app: typer.Typer) -> None:
    """Register the subcommands."""
    app.command()(station)
    app.command(hidden=True)(learner)


def station(  # noqa: PLR0913 - the options of a subcommand are its parameters
    file: Annotated[str, typer.Argument(help=f"Station file (or its name in configs/stations), or {WORDS}.")],
    name: Annotated[
        str, typer.Argument(help="After `install`: station file. After another word: name of the station.")
    ] = "",
    connect: Annotated[str, typer.Option(help="Address of the orchestrator, such as tcp://127.0.0.1:7000.")] = "",
    reason: Annotated[str, typer.Option(help="Why it needs service, in one sentence; the ledger keeps it.")] = "",
    home: Home = None,
    to: To = None,
    user: User = USER,
) -> None:
    """Run the station of one robot, or send a command to a station of the running campaign.

    `enroll NAME` makes a key and a station file, `install FILE` units. `pause`, `resume` and `stop` NAME hold and
    release its robots. `service NAME --reason TEXT` marks it as needing service: it finishes its episodes, holds, and
    takes no orders until `clear NAME`. `reset NAME` and `home NAME` move its idle robots, which you have paused, to a
    start or home.
    """
    if file == "install":
        install_station(name, to, user)
        return
    if to is not None or user != USER:
        raise UsageError("--to and --user are for `enpire station install FILE`.")
    if reason and file != "service":
        raise UsageError("--reason is for `enpire station service NAME`.")
    if file == "enroll":
        _enroll(name, connect, home)
    elif file in COMMANDS:
        _command(file, name, reason, home)
    elif name:
        raise UsageError(f"`enpire station {file}` takes one name; did you mean `enpire station enroll {name}`?")
    else:
        from enpire.parts import PartGroup

        processes: PartGroup[[list[str]], int] = PartGroup("stations")
        process = processes.load("enpire.station.station:main")
        raise typer.Exit(process([file, *(["--connect", connect] if connect else [])]))


def _command(word: str, name: str, reason: str, home: Path | None) -> None:
    if not name:
        raise UsageError(f"Name the station: `enpire station {word} NAME`.")
    if word == "service" and not reason.strip():
        raise UsageError("--reason must say why the station needs service, because others read it.")
    send_command(existing_home(home), f"station {word}", COMMANDS[word], name, reason=reason.strip())


def learner(folder: Annotated[Path, typer.Argument(help="Folder with the job.json of one training run.")]) -> None:
    """Run one training job in this process; progress and result are written into its folder."""
    from enpire.service.processes import run_training_job

    raise typer.Exit(run_training_job(folder))


def _enroll(name: str, connect: str, home: Path | None) -> None:
    """Make a key and a station file for a station on another computer; print where they go."""
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.service.processes import enroll_station

    if not name:
        raise UsageError("Name the station: `enpire station enroll NAME`.")
    folder = HomeFolder(find_home(home))
    key_file, path = enroll_station(folder, name, _running_task(folder.root) or ANY_TASK, connect)
    print(f"Copy {key_file} (chmod 600) and {path} into one folder on the station's computer.")
    print(f"Set task and driver in {path.name}{'' if connect else ', and the address to connect to'}. Then run there:")
    print(f"enpire station {path.name}")


def _running_task(home: Path) -> str:
    """The task of the campaign that runs in this home; empty when none runs."""
    from enpire.service import reading

    if not (home / "ledger.db").is_file() or not reading.is_driven(home):
        return ""
    with reading.open_records(home) as records:
        begun = reading.campaigns(records)
    return begun[0].task if begun else ""
