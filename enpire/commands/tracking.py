"""`enpire campaign follow`: the numbers of a campaign in trackio, TensorBoard, W&B or MLflow, its traces by OTLP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import CampaignId, Home, existing_home, log
from enpire.wording import counted

SHOWN: Mapping[str, str] = {
    "trackio": "TRACKIO_DIR={folder} trackio show --project {project}",
    "tensorboard": "tensorboard --logdir {folder}",
    "wandb": "wandb sync --append {folder}/wandb/offline-run-*",
    "mlflow": "mlflow ui --backend-store-uri {folder}/mlruns",
}
"""Tracker -> the command that shows its runs; for W&B the one that uploads them."""


def follow(  # noqa: PLR0913 - the options of a subcommand are its parameters
    campaign: CampaignId = "",
    to: Annotated[
        str,
        typer.Option(help="trackio, tensorboard, wandb (offline), mlflow, otel (traces), or one of a plug-in."),
    ] = "trackio",
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Where the tracker keeps its files; default: HOME/sinks/TRACKER.")
    ] = None,
    project: Annotated[str, typer.Option(help="Project of the run.")] = "enpire",
    once: Annotated[bool, typer.Option("--once", help="Write what is there, then end.")] = False,
    home: Home = None,
) -> None:
    """Write the numbers of a campaign into a tracker until the campaign ends; the same command later resumes there.

    No account and no network are needed.
    """
    from enpire.ids import file_name
    from enpire.plugins import require_name
    from enpire.service import reading, tracking

    root = existing_home(home)
    require_name("sinks", to)
    place = (folder or root / "sinks" / file_name(to.replace(":", "."), "a tracker")).absolute()
    with reading.open_records(root) as records:
        campaign_id = reading.find_campaign(records, campaign)
    shown = SHOWN.get(to, "").format(folder=place, project=file_name(project, "a project"))
    state, named = tracking.Following(), False
    following = tracking.follow(root, campaign_id, lambda run: tracking.SINKS.make(to, run), (place, project))
    try:
        for state in following:
            if not named:
                log(f"The numbers of {campaign_id} go to {place}." + (f" Show them: {shown}" if shown else ""))
            named = True
            if once or state.ended:
                break
    except KeyboardInterrupt:
        log("Interrupted; the same command resumes from here.")
    finally:
        following.close()
    print(f"{counted(state.points, 'point is', 'points are')} new in {place}, up to event {state.seq}.")


def watch(
    station: Annotated[str, typer.Argument(help="Name of a station of the running campaign.", metavar="STATION")],
    rerun: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="New file NAME.rrd, or rerun+http://HOST:PORT/proxy. Default: the viewer on this machine.",
        ),
    ] = "",
    home: Home = None,
) -> None:
    """Stream a station that works now to Rerun, until its campaign ends or Ctrl-C; it never disturbs the campaign."""
    from enpire.errors import UsageError
    from enpire.home import Home as HomeFolder
    from enpire.service.reading import is_driven
    from enpire.service.watching import RerunStream, watch_station

    root, ran = existing_home(home), False
    if not is_driven(root):
        raise UsageError(f"No campaign runs in {root}, so no station can be watched; `enpire run` starts one.")
    stream = RerunStream(rerun)
    log(f"{station} is shown in {rerun or 'the viewer of Rerun (start it by `rerun`)'}. Ctrl-C ends this.")
    looks = watch_station(HomeFolder(root), station, stream)
    try:
        for runs in looks:
            if not runs and (ran or not is_driven(root)):
                break
            ran = ran or runs
    except KeyboardInterrupt:
        pass
    finally:
        looks.close()
    print(f"{counted(stream.written, 'look')} at {station} brought something new.")
