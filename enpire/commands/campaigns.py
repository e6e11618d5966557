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
    from enpire.queries import campaigns

    with campaigns.open_records(existing_home(home)) as records:
        lines = campaigns.campaigns(records)
    rows = [(line.id, line.name, line.task, line.state, line.began) for line in lines]
    answer(lines, as_json=as_json, text=table(("id", "name", "task", "state", "began"), rows))


def show(campaign: CampaignId = "", home: Home = None, as_json: AsJson = False) -> None:
    """Show where one campaign stands: success with intervals, episodes, robot time, cost."""
    from enpire.queries import campaigns, texts

    with campaigns.open_records(existing_home(home)) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, campaign))
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
    from enpire.queries.campaigns import is_driven

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
    """Which stations stay still although the campaign goes on; empty when none does."""
    from enpire.campaign.state import Holds
    from enpire.monitor.terminal import held_text
    from enpire.queries import campaigns
    from enpire.requests.operator_commands import AT_STATIONS

    holds = Holds()
    with campaigns.open_records(home) as records:
        past = campaigns.history(records, campaigns.latest_begun(records), ("station joined", "station left"))
        for event in records.ledger.events(kinds=("command accepted",)):
            if (verb := str(event.body["verb"])) in AT_STATIONS:
                holds.ask(verb, str(event.body["station"]), str(event.body["by"]))
    found = [holds.at(name) for name, station in past.stations.items() if station.present]
    return held_text(
        sum("stop" in held for held in found), sum("stop" not in held and "pause" in held for held in found)
    )
