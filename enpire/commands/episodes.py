"""`enpire episodes list | show | replay | audit | judge | export | import`."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import AsJson, Home, answer, existing_home, order, table, tell
from enpire.wording import counted

if TYPE_CHECKING:
    from enpire.service.reading import Records

LEAST_TO_JUDGE = 6
"""Characters of an id: a slip of the hand must not label an episode."""
EpisodeId = Annotated[str, typer.Argument(help="Id of an episode, or its beginning or end.", metavar="ID")]
Campaign = Annotated[str, typer.Option(help="Id or name of a campaign; the latest when left out.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Episodes: list, show, replay, audit, judge, export, import.", no_args_is_help=True)
    group.command("list")(list_page)
    group.command("show")(show)
    group.command("replay")(replay)
    group.command("audit")(audit)
    group.command("judge")(judge)
    group.command("export")(export)
    group.command("import")(take)
    app.add_typer(group, name="episodes")


def list_page(  # noqa: PLR0913 - the options of a verb are its parameters
    campaign: Campaign = "",
    outcome: Annotated[
        str, typer.Option(help="Only these: success, failure, unsafe, aborted, invalid, unknown; open, ended.")
    ] = "",
    purpose: Annotated[str, typer.Option(help="Only these: demonstrate, collect, base, gate, confirm.")] = "",
    limit: Annotated[int, typer.Option(help="Rows of the page.", min=1, max=1000)] = 20,
    before: Annotated[str, typer.Option(help="Go on below this row: `next` of the page before.")] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List episodes, newest first, one page at a time."""
    from enpire.queries import texts
    from enpire.service import reading
    from enpire.service.reading import Page

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
    """Show one episode: the order, the end, and where its files are."""
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
    """Run a simulated episode again, check that its sensors say the same, and take its pictures."""
    from enpire.commands.progress_bar import Bar
    from enpire.home import open_home
    from enpire.service import reading
    from enpire.service.datasets import replay_images

    folder = open_home(existing_home(home))
    with reading.open_records(folder.root) as records:
        wanted = _find(records, episode)
        with Bar("running the episode again", folder.episodes):
            made = replay_images(folder, records.ledger, wanted)
    exact = "exactly" if made.largest_difference == 0 else f"within {made.largest_difference:.2g}"
    shown = f"{made.count} pictures in {made.path}" if made.count else made.why
    answer(made, as_json=as_json, text=f"The sensors say the same again, {exact}. {shown}")


def audit(
    campaign: Campaign = "",
    count: Annotated[int, typer.Option(help="So many.", min=1, max=1000)] = 10,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Name successes of the verifier that nobody has checked, at random; look at them and say what they were."""
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        found = reading.unchecked(records, reading.find_campaign(records, campaign), count)
    rows = [(item.order_id, item.station, f"{item.confidence:.0%}") for item in found]
    text = table(("episode", "station", "the verifier is sure by"), rows)
    if rows:
        text += "\n\nLook: enpire episodes replay ID, then say what it was: enpire episodes judge ID success|failure"
    else:
        text = "Every success of the verifier was checked, or there is none yet."
    answer(found, as_json=as_json, text=text)


def judge(
    episode: EpisodeId,
    outcome: Annotated[str, typer.Argument(help="What you saw: success, failure or unsafe.")],
    home: Home = None,
) -> None:
    """Say what an episode was; the verifier's verdict stays, and yours stands beside it and checks the verifier."""
    from enpire.errors import UsageError
    from enpire.home import open_home
    from enpire.service import reading
    from enpire.service.asking import write_label

    if outcome not in ("success", "failure", "unsafe"):
        raise UsageError(f"An episode cannot be judged as {outcome!r}; say success, failure or unsafe.")
    if len(episode) < LEAST_TO_JUDGE:
        raise UsageError(
            f"{episode!r} may name an episode by chance; give {LEAST_TO_JUDGE} characters of its id or more."
        )
    folder = existing_home(home)
    with reading.open_records(folder) as records:
        wanted = _find(records, episode)
    if reading.is_driven(folder):
        order(folder, f"episodes judge {wanted} {outcome}", f"judge {outcome}", wanted)
        return
    write_label(open_home(folder), wanted, outcome, getpass.getuser())
    tell(f"Written down: {wanted} is judged {outcome}.")


def export(  # noqa: PLR0913 - the options of a verb are its parameters
    target: Annotated[Path, typer.Argument(help="New folder for the dataset.", metavar="DIR")],
    campaign: Campaign = "",
    limit: Annotated[int, typer.Option(help="The newest so many.", min=1)] = 1000,
    form: Annotated[str, typer.Option("--format", help="Only lerobot: LeRobotDataset v3.")] = "lerobot",
    cameras: Annotated[
        bool, typer.Option("--cameras", help="With what the cameras saw; simulated episodes run again for it.")
    ] = False,
    home: Home = None,
) -> None:
    """Write demonstrations and data collection as a LeRobotDataset; hidden starts never leave the lab."""
    from enpire.commands.progress_bar import Bar
    from enpire.errors import UsageError
    from enpire.home import open_home
    from enpire.service import reading
    from enpire.service.datasets import export_episodes, wanted

    if form != "lerobot":
        raise UsageError(f"Episodes cannot be written as {form!r}; the one format is lerobot.")
    folder = open_home(existing_home(home))
    with reading.open_records(folder.root) as records:
        chosen = wanted(records, reading.find_campaign(records, campaign), limit)
    with Bar("loading", target) as bar:
        made = export_episodes(folder, chosen, target, partial(bar.show, "episodes"), cameras)
    print(f"{counted(made.written, 'episode is', 'episodes are')} in {target}.")
    for why in sorted(set(made.left_out.values())):
        tell(f"Left out: {why}")


def take(
    source: Annotated[Path, typer.Argument(help="Folder of a LeRobotDataset v3.", metavar="DIR")],
    campaign: Campaign = "",
    unsaid: Annotated[
        str, typer.Option(help="Outcome of episodes that do not say theirs: unknown, success or failure.")
    ] = "unknown",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Take the episodes of a LeRobotDataset into a campaign that is not running, as demonstrations or rollouts."""
    from enpire.commands.progress_bar import Bar
    from enpire.errors import UsageError
    from enpire.home import open_home
    from enpire.service.datasets import import_episodes

    if unsaid not in ("unknown", "success", "failure"):
        raise UsageError(f"--unsaid cannot be {unsaid!r}; say unknown, success or failure.")
    folder = open_home(existing_home(home))
    with Bar("reading the dataset", folder.episodes):
        taken = import_episodes(folder, source, campaign, unsaid)
    text = (
        f"{counted(taken.episodes, 'episode')} ({counted(taken.demonstrations, 'demonstration')}) "
        f"now belong to campaign {taken.campaign_id}."
    )
    text += f" {taken.known} were known already." if taken.known else ""
    text += (
        f" {taken.without_verdict} have no verdict and teach nothing; see --unsaid." if taken.without_verdict else ""
    )
    if taken.not_finite:
        text += f" Left out, because a state or an action is not a finite number: {', '.join(taken.not_finite)}."
    answer(taken, as_json=as_json, text=text)


def _clock(ended_ms: int | None) -> str:
    """When an episode ended, as `enpire ledger tail` says it; `-` while it has not."""
    return "-" if ended_ms is None else datetime.fromtimestamp(ended_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _find(records: Records, wanted: str) -> str:
    """The id of the episode whose id begins or ends with `wanted`; UnknownName when none or several do."""
    from enpire.errors import UnknownName

    found = records.reading.order_ids(wanted.upper()) if wanted else []
    if len(found) != 1:
        why = (
            "Several episodes have an id that begins or ends"
            if found
            else "There is no episode whose id begins or ends"
        )
        raise UnknownName(f"{why} with {wanted!r}; `enpire episodes list` shows them.")
    return found[0]
