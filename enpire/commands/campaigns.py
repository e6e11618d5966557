"""`enpire campaign list | show | follow | watch | attribute | export | pause | resume | stop` and `enpire report`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import (
    LARGEST_SEED,
    AsJson,
    CampaignId,
    Home,
    answer,
    existing_home,
    log,
    send_command,
    table,
)
from enpire.commands.tracking import follow, watch
from enpire.errors import UsageError


def add_to(app: typer.Typer) -> None:
    """Register the group and `report`."""
    group = typer.Typer(
        help="Campaigns: list, show, follow, watch, attribute, export, pause, resume, stop.", no_args_is_help=True
    )
    subcommands = (
        ("list", list_all), ("show", show), ("follow", follow), ("watch", watch), ("attribute", attribute),
        ("export", export), ("pause", pause), ("resume", resume), ("stop", stop),
    )  # fmt: skip
    for name, function in subcommands:
        group.command(name)(function)
    app.add_typer(group, name="campaign")
    app.command()(report)


def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List the campaigns of this home, newest first."""
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        lines = reading.campaigns(records)
    rows = [(line.id, line.name, line.task, line.state, line.began) for line in lines]
    answer(lines, as_json=as_json, text=table(("id", "name", "task", "state", "began"), rows))


def show(campaign: CampaignId = "", home: Home = None, as_json: AsJson = False) -> None:
    """Show one campaign: success with intervals, episodes, robot time, cost."""
    from enpire.queries import texts
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        view = reading.campaign_view(records, reading.find_campaign(records, campaign))
        study = reading.is_study(records, view.id)
    answer(view, as_json=as_json, text=texts.campaign(view, study=study))


def attribute(  # noqa: PLR0913 - the options of a subcommand are its parameters
    campaign: CampaignId = "",
    starts: Annotated[int, typer.Option(help="Fresh train starts of each version.", min=1, max=10**6)] = 200,
    permutations: Annotated[
        str, typer.Option(help="Orders of the changes that are drawn; auto: all up to 4 changes, then 2 per change.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of starts, permutations and training.", min=0, max=LARGEST_SEED)] = 0,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Say which kept changes raised success: train with each set of them and try all on the same simulated starts."""
    from enpire.commands.progress_bar import Bar
    from enpire.home import open_home
    from enpire.service import offline

    if permutations != "auto" and not (permutations.isdecimal() and len(permutations) <= 9):
        raise UsageError(f"--permutations must be a whole number of at least 1, or auto, not {permutations!r}.")
    drawn = None if permutations == "auto" else int(permutations)
    plan = offline.AttributionPlan(campaign=campaign, starts=starts, permutations=drawn, seed=seed)
    place = open_home(existing_home(home))
    with Bar("loading", place.learning) as bar:
        found = offline.attribute(place, plan, bar)
    offline.keep_attribution(place, found)
    answer(found, as_json=as_json, text=offline.attribution_text(found))


def export(
    file: Annotated[Path, typer.Argument(help="The new file, such as evidence.zip.")],
    campaign: CampaignId = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write the evidence of a campaign into one file, which `enpire ledger recompute FILE` checks on any machine."""
    from enpire import __version__
    from enpire.files import shown_path
    from enpire.service import reading
    from enpire.service.auditing import write_evidence

    with reading.open_records(existing_home(home)) as records:
        found = write_evidence(records.ledger, reading.find_campaign(records, campaign), file, __version__)
    shown = shown_path(file)
    text = f"{shown} holds the ledger up to {found.head}.\nCheck it on any machine: enpire ledger recompute {shown}"
    answer(found, as_json=as_json, text=text)


def pause(home: Home = None) -> None:
    """Pause the campaign: stations finish their episodes and get no new orders."""
    send_command(existing_home(home), "campaign pause", "pause campaign")


def resume(
    home: Home = None,
    stations: Annotated[
        bool, typer.Option("--stations", help="Also resume every station that was stopped or paused.")
    ] = False,
) -> None:
    """Resume a paused campaign."""
    folder = existing_home(home)
    send_command(folder, "campaign resume", "continue campaign")
    if stations:
        send_command(folder, "campaign resume --stations", "resume")
    elif held := _held(folder):
        log(held)


def stop(home: Home = None) -> None:
    """End the running campaign, or one that was interrupted. Its records are kept."""
    from enpire.service.reading import is_driven

    folder = existing_home(home)
    if is_driven(folder):
        send_command(folder, "campaign stop", "end campaign")
        return
    from enpire.home import open_home
    from enpire.service.running import end_interrupted

    log(f"Ended the interrupted campaign {end_interrupted(open_home(folder), getpass.getuser())}.")


def report(
    campaign: CampaignId = "",
    home: Home = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Path of the HTML file.")] = None,
) -> None:
    """Write the report: one HTML page without other files."""
    from enpire.commands.progress_bar import Bar
    from enpire.report.report import write_report

    folder = existing_home(home)
    with Bar("writing the report", output or folder / "reports"):
        written = write_report(folder, campaign, output)
    print(written)


def _held(home: Path) -> str:
    """How many stations operators hold, as a sentence; empty when none."""
    from enpire.service import reading
    from enpire.service.watching import held_text

    with reading.open_records(home) as records:
        return held_text(*reading.held_stations(records))
