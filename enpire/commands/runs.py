"""`enpire demo` and `enpire run`."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import LARGEST_SEED, Home, existing_home, log
from enpire.commands.pages import Address, served_pages

if TYPE_CHECKING:
    from enpire.service.running import LabObserver

DEMO = "pin_insertion"
GOAL_MISSED = 3
INTERRUPTED = 130

Seed = Annotated[
    int | None, typer.Option(help="Seed of the campaign; default: the seed in its file.", min=0, max=LARGEST_SEED)
]
Headless = Annotated[bool, typer.Option("--headless", help="Without the web page.")]


def add_to(app: typer.Typer) -> None:
    """Register the subcommands."""
    app.command()(demo)
    app.command()(run)


def demo(home: Home = None, seed: Seed = None, headless: Headless = False) -> None:
    """Run the shipped campaign on simulated stations and write a report."""
    _campaign(DEMO, home, seed=seed, pages=not headless)


def run(  # noqa: PLR0913 - the options of a subcommand are its parameters
    campaign: Annotated[str, typer.Argument(help="Campaign file, or the name of a shipped one.")],
    home: Home = None,
    on: Annotated[
        str,
        typer.Option(
            help="Where the campaign's stations and learner run: local, ray, or lossy (local, over a network that "
            "fails now and then)."
        ),
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="Only resume an unfinished campaign; never start a new one.")
    ] = False,
    seed: Seed = None,
    headless: Headless = False,
) -> None:
    """Run a campaign, or resume it, until its goal is confirmed or its budget is used up."""
    if resume:
        _require_unfinished(campaign, home)
    _campaign(campaign, home, seed=seed, on=on, pages=not headless)


def _campaign(name: str, home: Path | None, *, seed: int | None, pages: bool, on: str = "local") -> None:
    """Run a campaign with terminal and page, write its report, and exit with the code of its result."""
    from enpire.campaign.campaign import read_campaign
    from enpire.doctor import examine, require_ready
    from enpire.home import Home, find_home, open_home
    from enpire.parts import TASKS
    from enpire.report.report import write_report
    from enpire.service.asking import CommandInbox
    from enpire.service.running import RunOptions, require_parts, run_campaign
    from enpire.service.watching import LiveFileWriter, LiveLab, TerminalView
    from enpire.wording import at_most

    # Everything that can be wrong with the file or the machine is said before the home is made.
    plan, place = read_campaign(name), Home(find_home(home))
    require_parts(plan, place, on)
    require_ready(examine(place.root))
    folder = open_home(home)
    inbox = CommandInbox(folder.inbox)
    live = LiveLab(folder, inbox)
    with served_pages(folder, live, Address(), show=True) if pages else nullcontext():
        limit = TASKS.make(plan.task).spec.limit_ticks
        fast = at_most(plan.goal.commands)
        goal = f"{plan.goal.success:.1%} confirmed success{fast} within {limit}{'' if fast else ' commands'}"
        view = TerminalView(f"{plan.name}: to {goal}", folder.root)
        observers: tuple[LabObserver, ...] = (view, live, LiveFileWriter(folder))
        try:
            ending = run_campaign(name, folder, RunOptions(seed=seed, host=on, observers=observers, inbox=inbox))
        finally:
            view.close()
    log(f"Head of the ledger: {_head(folder.root)}")
    if not ending.over:
        log(f"Stopped ({ending.reason}). The state is kept in {folder.root}: the same command resumes the campaign.")
        raise typer.Exit(INTERRUPTED)
    log(f"Report: {write_report(folder.root, ending.campaign_id)}")
    log(f"Reached: {ending.reason}." if ending.reached else f"The campaign ended without its goal: {ending.reason}.")
    if pages:
        log(f"Show its page again: {_program()} serve --home {shlex.quote(str(folder.root))}")
    if not ending.reached:
        raise typer.Exit(GOAL_MISSED)


def _head(home: Path) -> str:
    """The head of the ledger; kept elsewhere, it makes a rewritten history show (`enpire ledger verify --expect`)."""
    from enpire.service import reading

    with reading.open_records(home) as records:
        return str(records.ledger.head)


def _program() -> str:
    """How this program was called: by its path in `make demo`, else by its name."""
    return shlex.quote(sys.argv[0]) if Path(sys.argv[0]).name == "enpire" else "enpire"


def _require_unfinished(name: str, home: Path | None) -> None:
    from enpire.campaign.campaign import read_campaign
    from enpire.home import open_home
    from enpire.service.running import require_unfinished

    require_unfinished(open_home(existing_home(home)), read_campaign(name))
