"""`enpire campaign list | show | pause | resume | stop` and `enpire report`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import AsJson, CampaignId, Home, answer, existing_home, request, table, tell


def add_to(app: typer.Typer) -> None:
    """Register the group and `report`."""
    group = typer.Typer(help="Campaigns: list, show, pause, resume, stop.", no_args_is_help=True)
    for verb, function in (("list", list_all), ("show", show), ("pause", pause), ("resume", resume), ("stop", stop)):
        group.command(verb)(function)
    app.add_typer(group, name="campaign")
    app.command()(report)


def list_all(home: Home = None, as_json: AsJson = False) -> None:
    """List the campaigns of this home, newest first."""
    from enpire import views

    with views.open_records(existing_home(home)) as records:
        lines = views.campaigns(records)
    rows = [(line.id, line.name, line.task, line.state, line.began) for line in lines]
    answer(lines, as_json=as_json, text=table(("id", "name", "task", "state", "began"), rows))


def show(campaign: CampaignId = "", home: Home = None, as_json: AsJson = False) -> None:
    """Show where one campaign stands: success with intervals, episodes, robot time, cost."""
    from enpire import views
    from enpire.commands import texts

    with views.open_records(existing_home(home)) as records:
        view = views.campaign_view(records, views.find_campaign(records, campaign))
    answer(view, as_json=as_json, text=texts.campaign(view))


def pause(home: Home = None) -> None:
    """Let the stations finish their episodes and give them no new ones."""
    _command("pause campaign", home)


def resume(
    home: Home = None,
    stations: Annotated[bool, typer.Option("--stations", help="And every station that was stopped or paused.")] = False,
) -> None:
    """Let a paused campaign go on."""
    _command("continue campaign", home)
    if stations:
        _command("resume", home)


def stop(home: Home = None) -> None:
    """End the running campaign in good order, or one that was interrupted; the state is kept."""
    from enpire.views import is_driven

    folder = existing_home(home)
    if is_driven(folder):
        _command("end campaign", home)
        return
    from enpire.home import open_home
    from enpire.service import end_interrupted

    tell(f"Ended: campaign {end_interrupted(open_home(folder), getpass.getuser())}; nothing was running.")


def report(
    campaign: CampaignId = "",
    home: Home = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where the HTML file goes.")] = None,
) -> None:
    """Write the morning report: one HTML page that needs nothing else."""
    from enpire.commands.bars import Bar
    from enpire.report import write_report

    folder = existing_home(home)
    with Bar("writing the report", output or folder / "reports"):
        written = write_report(folder, campaign, output)
    print(written)


def _command(verb: str, home: Path | None) -> None:
    command_id = request(existing_home(home), verb)
    tell(f"Requested: {verb} (command {command_id}); `enpire ledger tail` shows what becomes of it.")
