"""`enpire demo` and `enpire run`."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import LARGEST_SEED, Home, existing_home, log
from enpire.commands.pages import Address, Host, Port, follow_home, require_pages, served_pages

if TYPE_CHECKING:
    from enpire.home import Home as HomeFolder
    from enpire.service.running import Ending, LabObserver, RunOptions

DEMO = "pin_insertion"
GOAL_MISSED = 3
INTERRUPTED = 130

Seed = Annotated[
    int | None, typer.Option(help="Seed of the campaign; default: the seed in its file.", min=0, max=LARGEST_SEED)
]
Headless = Annotated[bool, typer.Option("--headless", help="Without the web page.")]
Stay = Annotated[
    bool | None,
    typer.Option(
        "--stay/--no-stay",
        help="Whether the page stays after the campaign, until Ctrl-C. Default: it stays in a terminal.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Pages:
    """How the campaign shows its page."""

    at: Address
    stay: bool | None
    """None: it stays in a terminal."""

    @property
    def stays(self) -> bool:
        """Whether the page stays after the campaign."""
        return sys.stderr.isatty() if self.stay is None else self.stay


def add_to(app: typer.Typer) -> None:
    """Register the subcommands."""
    app.command()(demo)
    app.command()(run)


def demo(  # noqa: PLR0913 - the options of a subcommand are its parameters
    home: Home = None,
    seed: Seed = None,
    headless: Headless = False,
    host: Host = "127.0.0.1",
    port: Port = None,
    stay: Stay = None,
) -> None:
    """Run the shipped campaign on simulated stations and write a report."""
    from enpire.service.running import RunOptions

    _campaign(DEMO, home, RunOptions(seed=seed), None if headless else Pages(Address(host, port), stay))


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
    host: Host = "127.0.0.1",
    port: Port = None,
    stay: Stay = None,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed", help="Let the code of agents run with all your rights where bubblewrap does not work."
        ),
    ] = False,
) -> None:
    """Run a campaign, or resume it, until its goal is confirmed or its budget is used up."""
    from enpire.service.running import RunOptions

    if resume:
        _require_unfinished(campaign, home)
    options = RunOptions(seed=seed, host=on, unsandboxed=unsandboxed)
    _campaign(campaign, home, options, None if headless else Pages(Address(host, port), stay))


def _campaign(name: str, home: Path | None, options: RunOptions, pages: Pages | None) -> None:
    """Run a campaign with terminal and page, write its report, and exit with the code of its result."""
    from enpire.campaign.advice import advice
    from enpire.campaign.campaign import read_campaign
    from enpire.doctor import examine, require_ready
    from enpire.home import Home, find_home, open_home
    from enpire.parts import TASKS
    from enpire.service.asking import CommandInbox
    from enpire.service.running import require_parts, run_campaign
    from enpire.service.watching import LiveFileWriter, LiveLab, TerminalView
    from enpire.wording import at_most, goal_share

    # Everything that can be wrong with the file or the machine is said before the home is made.
    plan, place = options.applied(read_campaign(name)), Home(find_home(home))
    if pages is not None:
        require_pages(place.root, pages.at)
    require_parts(plan, place, options.host)
    require_ready(examine(place.root))
    for sentence in advice(plan):
        log(sentence)
    folder = open_home(home)
    inbox = CommandInbox(folder.inbox)
    live = LiveLab(folder, inbox)
    with served_pages(folder, live, pages.at, show=True) if pages else nullcontext("") as address:
        limit = TASKS.make(plan.task).spec.limit_ticks
        fast = at_most(plan.goal.commands)
        share = goal_share(plan.goal.success, plan.goal.by)
        goal = f"{share} confirmed success{fast} within {limit}{'' if fast else ' commands'}"
        view = TerminalView(f"{plan.name}: to {goal}", folder.root)
        observers: tuple[LabObserver, ...] = (view, live, LiveFileWriter(folder))
        try:
            ending = run_campaign(name, folder, replace(options, observers=observers, inbox=inbox))
        finally:
            view.close()
        _say_result(folder, ending)
        if address and ending.over and pages is not None and pages.stays:
            log(f"The page stays at {address} until Ctrl-C.")
            follow_home(folder, live)
    if pages is not None and ending.over:
        log(f"Show its page again: {_program()} serve --home {shlex.quote(str(folder.root))}")
    if not ending.reached:
        raise typer.Exit(GOAL_MISSED if ending.over else INTERRUPTED)


def _say_result(home: HomeFolder, ending: Ending) -> None:
    """Print how the campaign ended, and write its report."""
    from enpire.report.report import write_report

    log(f"Head of the ledger: {_head(home.root)}")
    if not ending.over:
        log(f"Stopped ({ending.reason}). The state is kept in {home.root}: the same command resumes the campaign.")
        return
    log(f"Report: {write_report(home.root, ending.campaign_id)}")
    log(f"Reached: {ending.reason}." if ending.reached else f"The campaign ended without its goal: {ending.reason}.")


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
