"""`enpire campaign list | show | pause | resume | stop` and `enpire report`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import AsJson, CampaignId, Home, answer, existing_home, log, send_command, table


def add_to(app: typer.Typer) -> None:
    """Register the group and `report`."""
    group = typer.Typer(help="Campaigns: list, show, pause, resume, stop.", no_args_is_help=True)
    for name, function in (("list", list_all), ("show", show), ("pause", pause), ("resume", resume), ("stop", stop)):
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
    answer(view, as_json=as_json, text=texts.campaign(view))


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
