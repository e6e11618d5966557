"""`enpire demo | run | serve | station` and the hidden `learner`: the verbs that keep running."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from enpire.commands.options import Home, tell
from enpire.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from enpire.home import Home as Folder
    from enpire.service.running import LabObserver

DEMO = "pin_insertion"
GOAL_MISSED = 3
INTERRUPTED = 130

Seed = Annotated[int | None, typer.Option(help="Seed of the campaign; the campaign file's when left out.", min=0)]
Headless = Annotated[bool, typer.Option("--headless", help="Without the web page.")]


@dataclass(frozen=True, slots=True)
class Listening:
    """Where the pages are reached; by default on a free port of this machine alone."""

    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    """Host names beside those of this machine."""


class Pages(Protocol):
    """The web server, as the layer above gives it."""

    setup_link: str
    """Where the first admin is made; empty when there is one."""

    def start(self) -> str:
        """Listen; returns the address to open."""
        ...

    def stop(self) -> None:
        """Close the sockets."""


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    app.command()(demo)
    app.command()(run)
    app.command()(serve)
    app.command()(station)
    app.command(hidden=True)(learner)


def demo(home: Home = None, seed: Seed = None, headless: Headless = False) -> None:
    """Run the shipped campaign on simulated stations, with the web page; ends with a report."""
    _campaign(DEMO, home, seed=seed, pages=not headless)


def run(  # noqa: PLR0913 - the options of a verb are its parameters
    campaign: Annotated[str, typer.Argument(help="Campaign file, or the name of a shipped one.")],
    home: Home = None,
    on: Annotated[
        str,
        typer.Option(
            help="Where the campaign's stations and learner run: local, ray, or lossy: local, over a network that is "
            "lost now and then."
        ),
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="Only go on with an unfinished one; never begin anew.")
    ] = False,
    seed: Seed = None,
    headless: Headless = False,
) -> None:
    """Run a campaign, or go on where it stopped, until its goal is confirmed or its budget is spent."""
    if resume:
        _require_unfinished(campaign, home)
    _campaign(campaign, home, seed=seed, on=on, pages=not headless)


def serve(
    home: Home = None,
    host: Annotated[str, typer.Option(help="Address to listen on; keep it on the loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the pages; 0 takes a free one.", min=0, max=65535)] = 8000,
    name: Annotated[
        list[str] | None, typer.Option(help="A further host name under which it is reached; may be given again.")
    ] = None,
) -> None:
    """Serve the pages and the API over a home, beside the campaign that runs in it, if one does; Ctrl-C ends it."""
    from enpire.home import open_home
    from enpire.service.running import migrate_ledger
    from enpire.service.watching import LiveFileReader, LiveLab

    folder = open_home(home)
    migrate_ledger(folder)
    live = LiveLab(folder)
    with LiveFileReader(folder, live), _served(folder, live, Listening(host, port, tuple(name or ()))):
        while True:
            time.sleep(3600)


def station(
    file: Annotated[str, typer.Argument(help="Station file (or its name in configs/stations), or the word `enroll`.")],
    name: Annotated[str, typer.Argument(help="After `enroll`: the name of the station to make a key for.")] = "",
    connect: Annotated[str, typer.Option(help="Address of the orchestrator, such as tcp://127.0.0.1:7000.")] = "",
    home: Home = None,
) -> None:
    """Run one robot's station until it is told to leave; or: `station enroll NAME`, a key and a station file for it."""
    if file == "enroll":
        _enroll(name, connect, home)
        return
    if name:
        raise UsageError(f"`enpire station {file}` takes no second name; did you mean `enpire station enroll {name}`?")
    from enpire.plugins import load

    process = cast("Callable[[list[str]], int]", load("stations", "enpire.station.station:main"))
    raise typer.Exit(process([file, *(["--connect", connect] if connect else [])]))


def _enroll(name: str, connect: str, home: Path | None) -> None:
    """Make a key and a station file for a station on another computer; print where they go."""
    from enpire.home import open_home
    from enpire.service.processes import enroll_station

    if not name:
        raise UsageError("Name the station: `enpire station enroll NAME`.")
    folder = open_home(home)
    key_file, path = enroll_station(folder, name, _running_task(folder.root) or DEMO, connect)
    print(f"Copy {key_file} (chmod 600) and {path} into one folder on the station's computer.")
    print(f"Set task and driver in {path.name}{'' if connect else ', and the address to connect to'}. Then run there:")
    print(f"enpire station {path.name}")


def _running_task(home: Path) -> str:
    """The task of the campaign that runs in this home, which a further station would join; empty when none runs."""
    from enpire.service import reading

    if not (home / "ledger.db").is_file() or not reading.is_driven(home):
        return ""
    with reading.open_records(home) as records:
        begun = reading.campaigns(records)
    return begun[0].task if begun else ""


def learner(folder: Annotated[Path, typer.Argument(help="Folder with the job.json of one training run.")]) -> None:
    """Run one learner job in this process; progress and result are written into its folder."""
    from enpire.service.processes import run_training_job

    raise typer.Exit(run_training_job(folder))


def _campaign(name: str, home: Path | None, *, seed: int | None, pages: bool, on: str = "local") -> None:
    """Run a campaign with the live view, write its report, and end with the right exit code."""
    from enpire.campaign.campaign import read_campaign
    from enpire.doctor import examine, require_ready
    from enpire.home import open_home
    from enpire.report.report import write_report
    from enpire.service.asking import CommandInbox
    from enpire.service.running import RunOptions, run_campaign
    from enpire.service.watching import LiveFileWriter, LiveLab, TerminalView

    plan, folder = read_campaign(name), open_home(home)
    require_ready(examine(folder.root))
    inbox = CommandInbox(folder.inbox)
    live = LiveLab(folder, inbox)
    with _served(folder, live, Listening(), show=True) if pages else nullcontext():
        view = TerminalView(plan.name, plan.goal.success, folder.root)
        observers: tuple[LabObserver, ...] = (view, live, LiveFileWriter(folder))
        try:
            ending = run_campaign(name, folder, RunOptions(seed=seed, host=on, observers=observers, inbox=inbox))
        finally:
            view.close()
    if ending.over:
        tell(f"Report: {write_report(folder.root, ending.campaign_id)}")
    if not ending.over:
        tell(f"Stopped ({ending.reason}); the state is kept in {folder.root}: the same command goes on from here.")
        raise typer.Exit(INTERRUPTED)
    tell(f"Reached: {ending.reason}." if ending.reached else f"The campaign ended without its goal: {ending.reason}.")
    if pages:
        tell(f"Its page again: {_as_typed()} serve --home {shlex.quote(str(folder.root))}")
    if not ending.reached:
        raise typer.Exit(GOAL_MISSED)


def _as_typed() -> str:
    """The program as it was called, which `make demo` does by its path; its name where Python was given a module."""
    return shlex.quote(sys.argv[0]) if Path(sys.argv[0]).name == "enpire" else "enpire"


def _require_unfinished(name: str, home: Path | None) -> None:
    from enpire.campaign.campaign import read_campaign
    from enpire.commands.options import existing_home
    from enpire.home import open_home
    from enpire.service.running import require_unfinished

    require_unfinished(open_home(existing_home(home)), read_campaign(name))


@contextmanager
def _served(folder: Folder, live: object, at: Listening, *, show: bool = False) -> Generator[None]:
    """The web pages beside the loop; without their package it says so and goes on."""
    from enpire.plugins import load

    try:
        server = cast("Callable[..., Pages]", load("pages", "web_ui.server:Server"))
    except MissingExtra as problem:
        tell(f"No web page: {problem}")
        yield
        return
    import webbrowser

    pages = server(folder.root, live, host=at.host, port=at.port, names=at.names)
    address = pages.start()
    tell(f"Page: {pages.setup_link or address}")
    try:
        if show and _has_screen():
            webbrowser.open(pages.setup_link or address)
        yield
    finally:
        pages.stop()


def _has_screen() -> bool:
    """Whether a browser could show itself to the person who typed the command."""
    return sys.stderr.isatty() and (sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)))
