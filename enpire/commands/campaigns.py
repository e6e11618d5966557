"""`enpire campaign list | show | pause | resume | stop` and `enpire report`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import AsJson, CampaignId, Home, answer, existing_home, order, table, tell


def add_to(app: typer.Typer) -> None:
    """Register the group and `report`."""
    group = typer.Typer(help="Campaigns: list, show, pause, resume, stop.", no_args_is_help=True)
    for verb, function in (("list", list_all), ("show", show), ("pause", pause), ("resume", resume), ("stop", stop)):
        group.command(verb)(function)
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
    """Show where one campaign stands: success with intervals, episodes, robot time, cost."""
    from enpire.queries import texts
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        view = reading.campaign_view(records, reading.find_campaign(records, campaign))
    answer(view, as_json=as_json, text=texts.campaign(view))


def pause(home: Home = None) -> None:
    """Let the stations finish their episodes and give them no new ones."""
    order(existing_home(home), "campaign pause", "pause campaign")


def resume(
    home: Home = None,
    stations: Annotated[bool, typer.Option("--stations", help="And every station that was stopped or paused.")] = False,
) -> None:
    """Let a paused campaign go on."""
    folder = existing_home(home)
    order(folder, "campaign resume", "continue campaign")
    if stations:
        order(folder, "campaign resume --stations", "resume")
    elif held := _held(folder):
        tell(held)


def stop(home: Home = None) -> None:
    """End the running campaign in good order, or one that was interrupted; the state is kept."""
    from enpire.service.reading import is_driven

    folder = existing_home(home)
    if is_driven(folder):
        order(folder, "campaign stop", "end campaign")
        return
    from enpire.home import open_home
    from enpire.service.running import end_interrupted

    tell(f"Ended: campaign {end_interrupted(open_home(folder), getpass.getuser())}; nothing was running.")


def report(
    campaign: CampaignId = "",
    home: Home = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where the HTML file goes.")] = None,
) -> None:
    """Write the morning report: one HTML page that needs nothing else."""
    from enpire.commands.progress_bar import Bar
    from enpire.report.report import write_report

    folder = existing_home(home)
    with Bar("writing the report", output or folder / "reports"):
        written = write_report(folder, campaign, output)
    print(written)


def _held(home: Path) -> str:
    """Which stations stay stopped or paused in a campaign that runs; empty when there are none."""
    from enpire.service import reading
    from enpire.service.watching import held_text

    with reading.open_records(home) as records:
        return held_text(*reading.held_stations(records))
