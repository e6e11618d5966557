"""`enpire episodes list | show | replay | video | audit | judge | export | import | push | pull | repair`."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import AsJson, Home, answer, at_home, existing_home, log, send_command, table
from enpire.commands.remote import pull_episodes, push_episodes, repair_episodes
from enpire.wording import counted

if TYPE_CHECKING:
    from enpire.service.reading import Records

LEAST_TO_LABEL = 6
"""Fewest characters of an id for a label: a shorter one may name an episode by chance."""
EpisodeId = Annotated[str, typer.Argument(help="Id of an episode, or its beginning or end.", metavar="ID")]
Campaign = Annotated[str, typer.Option(help="Id or name of a campaign; default: the latest.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(
        help="Episodes: list, show, replay, video, audit, judge, export, import, push, pull, repair.",
        no_args_is_help=True,
    )
    group.command("list")(list_page)
    group.command("show")(show)
    group.command("replay")(replay)
    group.command("video")(video)
    group.command("audit")(audit)
    group.command("judge")(judge)
    group.command("export")(export)
    group.command("import")(import_dataset)
    group.command("push")(push_episodes)
    group.command("pull")(pull_episodes)
    group.command("repair")(repair_episodes)
    app.add_typer(group, name="episodes")


def list_page(  # noqa: PLR0913 - the options of a subcommand are its parameters
    campaign: Campaign = "",
    outcome: Annotated[
        str, typer.Option(help="Only success, failure, unsafe, aborted, invalid or unknown; or open, or ended.")
    ] = "",
    purpose: Annotated[
        str, typer.Option(help="Only demonstrate, collect, extra, search, base, measure, gate or confirm.")
    ] = "",
    limit: Annotated[int, typer.Option(help="Most rows.", min=1, max=1000)] = 20,
    before: Annotated[str, typer.Option(help="Start below this episode: `next` of the page before.")] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List episodes, newest first, in pages."""
    from enpire.errors import UsageError
    from enpire.ids import is_id
    from enpire.queries import texts
    from enpire.service import reading
    from enpire.service.reading import Page

    if before and not is_id(before):
        raise UsageError(f"--before must be the id of an episode, not {before[:80]!r}.")
    with reading.open_records(existing_home(home)) as records:
        wanted = Page(
            campaign_id=reading.find_campaign(records, campaign),
            outcome=outcome,
            purpose=purpose,
            before=before,
            limit=limit,
        )
        page = reading.episodes(records, wanted)
    rows = [
        (
            item.order_id,
            _clock(item.ended_ms),
            item.outcome,
            item.purpose,
            str(item.round),
            item.station,
            texts.short(item.policy_id),
            item.cause,
        )
        for item in page.rows
    ]
    text = table(("episode", "ended (UTC)", "outcome", "purpose", "round", "station", "policy", "cause"), rows)
    more = f"\nMore: --before {page.next}" if page.next is not None else ""
    answer(page, as_json=as_json, text=text + more)


def show(
    episode: EpisodeId,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show one episode: its order, its outcome and its files."""
    from enpire.queries import texts
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        view = reading.episode(records, _find(records, episode))
    answer(view, as_json=as_json, text=texts.episode(view))


def replay(
    episode: EpisodeId,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Run a simulated episode again, compare its sensor values, and render its camera images."""
    from enpire.commands.progress_bar import Bar
    from enpire.home import open_home
    from enpire.service import reading
    from enpire.service.datasets import replay_images

    folder = open_home(existing_home(home))
    with reading.open_records(folder.root) as records:
        wanted = _find(records, episode)
        with Bar("replay", folder.episodes):
            made = replay_images(folder, records.ledger, wanted)
    exact = "exactly" if made.largest_difference == 0 else f"within {made.largest_difference:.2g}"
    shown = f"{made.count} images are in {made.path}." if made.count else made.why
    answer(made, as_json=as_json, text=f"The replayed sensor values are equal, {exact}. {shown}")


def video(
    episode: EpisodeId,
    target: Annotated[Path, typer.Argument(help="New folder for the videos.", metavar="DIR")],
    home: Home = None,
) -> None:
    """Write the camera images of an episode as WebM videos; a simulated episode is replayed for them."""
    from enpire.home import open_home
    from enpire.service import reading
    from enpire.service.datasets import write_videos

    folder = open_home(existing_home(home))
    with reading.open_records(folder.root) as records:
        cameras = write_videos(folder, records.ledger, _find(records, episode), target.absolute())
    print(f"{counted(len(cameras), 'video is', 'videos are')} in {target}: {', '.join(cameras)}.")


def audit(
    campaign: Campaign = "",
    count: Annotated[int, typer.Option(help="Number of episodes.", min=1, max=1000)] = 10,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Draw successes of the verifier that have no label yet, at random, so that you can check and label them."""
    from enpire.service import reading

    folder = existing_home(home)
    with reading.open_records(folder) as records:
        found = reading.unchecked(records, reading.find_campaign(records, campaign), count)
    rows = [(item.order_id, item.station, f"{item.confidence:.0%}") for item in found]
    text = table(("episode", "station", "confidence of the verifier"), rows)
    if rows:
        text += (
            f"\n\nWatch one: enpire episodes replay ID{at_home(folder)}. "
            f"Then label it: enpire episodes judge ID success|failure|unsafe{at_home(folder)}"
        )
    else:
        text = "Every success of the verifier has a label, or there is none yet."
    answer(found, as_json=as_json, text=text)


def judge(
    episode: EpisodeId,
    outcome: Annotated[
        str, typer.Argument(help="What you saw: success, failure or unsafe; undo withdraws the newest label.")
    ],
    home: Home = None,
) -> None:
    """Label an episode. The label checks the verifier; it does not change the verdict."""
    from enpire.errors import UsageError
    from enpire.home import open_home
    from enpire.service import reading
    from enpire.service.asking import write_label

    if outcome not in ("success", "failure", "unsafe", "undo"):
        raise UsageError(f"An episode cannot be labelled {outcome!r}; allowed are success, failure, unsafe and undo.")
    if len(episode) < LEAST_TO_LABEL:
        raise UsageError(
            f"{episode!r} may name an episode by chance; give at least {LEAST_TO_LABEL} characters of its id."
        )
    folder = existing_home(home)
    with reading.open_records(folder) as records:
        wanted = _find(records, episode)
    if reading.is_driven(folder):
        send_command(folder, f"episodes judge {wanted} {outcome}", f"judge {outcome}", wanted)
        return
    write_label(open_home(folder), wanted, outcome, getpass.getuser())
    done = "has its newest label withdrawn" if outcome == "undo" else f"is labelled {outcome}"
    log(f"Recorded: {wanted} {done}.")


def export(  # noqa: PLR0913 - the options of a subcommand are its parameters
    target: Annotated[Path, typer.Argument(help="New folder for the files.", metavar="DIR")],
    campaign: Campaign = "",
    limit: Annotated[int, typer.Option(help="Most episodes, from the newest on.", min=1, max=10**9)] = 1000,
    form: Annotated[str, typer.Option("--format", help="lerobot (LeRobotDataset v3), rrd or mcap.")] = "lerobot",
    rrd: Annotated[bool, typer.Option("--rrd", help="One Rerun recording for each episode.")] = False,
    mcap: Annotated[
        bool, typer.Option("--mcap", help="One MCAP file with ROS 2 messages for each episode, as for Foxglove.")
    ] = False,
    episode: Annotated[
        list[str] | None, typer.Option(help="Only this episode; the option may be repeated.", metavar="ID")
    ] = None,
    cameras: Annotated[
        bool, typer.Option("--cameras", help="With camera images; simulated episodes are replayed for them.")
    ] = False,
    home: Home = None,
) -> None:
    """Export episodes as a LeRobotDataset, or for viewers (--rrd, --mcap); never those on hidden starts."""
    from enpire.commands.progress_bar import Bar
    from enpire.errors import UsageError
    from enpire.home import open_home
    from enpire.service import reading
    from enpire.service.datasets import WRITERS, ViewerFiles, export_episodes, export_recordings, viewable, wanted

    forms = [name for name, asked in (("rrd", rrd), ("mcap", mcap)) if asked] or [form]
    if unknown := set(forms) - {"lerobot", *WRITERS}:
        raise UsageError(f"Episodes cannot be exported as {unknown.pop()!r}; the formats are lerobot, rrd and mcap.")
    folder = open_home(existing_home(home))
    with reading.open_records(folder.root) as records:
        campaign_id = reading.find_campaign(records, campaign)
        named = [_find(records, one) for one in episode or ()]
        if forms == ["lerobot"]:
            chosen = wanted(records, campaign_id, limit, named)
        else:
            chosen = [one for name in named or [""] for one in viewable(records, campaign_id, limit, name)]
    with Bar("loading", target) as bar:
        show = partial(bar.show, "episodes")
        if forms == ["lerobot"]:
            made = export_episodes(folder, chosen, target, show, cameras)
        else:
            files = ViewerFiles(target=target, forms=forms, replay=cameras)
            made = export_recordings(folder, chosen, files, show)
    print(f"{counted(made.written, 'episode is', 'episodes are')} in {target}.")
    for why in sorted(set(made.left_out.values())):
        log(f"{'Left out' if forms == ['lerobot'] else 'Without images'}: {why}")


def import_dataset(  # noqa: PLR0913 - the options of a subcommand are its parameters
    source: Annotated[Path, typer.Argument(help="Folder of a LeRobotDataset v3.", metavar="DIR")],
    campaign: Campaign = "",
    begin: Annotated[
        str,
        typer.Option(
            help="Begin this campaign with them, in a home that may be new; `enpire run` continues it.",
            metavar="CAMPAIGN.yaml",
        ),
    ] = "",
    instruction: Annotated[
        list[str] | None, typer.Option(help="Only episodes with this instruction (the dataset's task); repeatable.")
    ] = None,
    resample: Annotated[
        bool, typer.Option("--resample", help="Resample a dataset of another rate to the task's rate.")
    ] = False,
    unsaid: Annotated[
        str, typer.Option(help="Outcome of episodes that have none: unknown, success or failure.")
    ] = "unknown",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Import the episodes of a LeRobotDataset into a campaign that is not running, or begin one with them."""
    from enpire.commands.progress_bar import Bar
    from enpire.errors import UsageError
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home, open_home
    from enpire.service.datasets import Selection, begin_with_episodes, import_episodes

    if unsaid not in ("unknown", "success", "failure"):
        raise UsageError(f"--unsaid cannot be {unsaid!r}; allowed are unknown, success and failure.")
    if begin and campaign:
        raise UsageError("--begin starts a campaign, --campaign names one that has begun: give one of them.")
    wanted = Selection(instructions=tuple(instruction or ()), default_outcome=unsaid, resample=resample)
    folder = find_home(home) if begin else open_home(existing_home(home)).root
    with Bar("reading the dataset", folder / "episodes"):
        if begin:
            imported = begin_with_episodes(folder, source, begin, wanted)
        else:
            imported = import_episodes(HomeFolder(folder), source, campaign, wanted)
    text = (
        f"{counted(imported.episodes, 'episode')} ({counted(imported.demonstrations, 'demonstration')}) "
        f"imported into campaign {imported.campaign_id}."
    )
    text += f" {imported.known} were there already." if imported.known else ""
    text += (
        f" {imported.without_verdict} have no outcome and are not used for training; see --unsaid."
        if imported.without_verdict
        else ""
    )
    if imported.not_finite:
        text += f" Left out because a state or an action is not finite: {', '.join(imported.not_finite)}."
    if imported.out_of_bounds:
        text += f" Left out because it leaves the bounds of the task: {', '.join(imported.out_of_bounds)}."
    if begin:
        text += f" Continue it: enpire run {begin}{at_home(folder)}"
    answer(imported, as_json=as_json, text=text)


def _clock(ended_ms: int | None) -> str:
    """When an episode ended (UTC); `-` while it runs."""
    return "-" if ended_ms is None else datetime.fromtimestamp(ended_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _find(records: Records, wanted: str) -> str:
    """The id that begins or ends with `wanted`; UnknownName for none or several."""
    from enpire.errors import UnknownName

    found = records.reading.order_ids(wanted.upper()) if wanted else []
    if len(found) != 1:
        why = (
            "Several episodes have an id that begins or ends"
            if found
            else "There is no episode whose id begins or ends"
        )
        raise UnknownName(f"{why} with {wanted!r}; `enpire episodes list{at_home(records.home)}` shows them.")
    return found[0]
