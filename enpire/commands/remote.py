"""`enpire policy push | pull` and `enpire episodes push | pull | repair`: datasets and versions of other places."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import Home, at_home
from enpire.wording import counted

Url = Annotated[
    str, typer.Argument(help="Folder, s3://BUCKET/FOLDER, another URL of fsspec, or hf://USER/NAME.", metavar="URL")
]
DatasetUrl = Annotated[
    str,
    typer.Argument(help="As of `policy push`; on a hub hf://datasets/USER/NAME.", metavar="URL"),
]
Public = Annotated[bool, typer.Option("--public", help="On a hub: everybody may read it; otherwise it is private.")]


def push_policy(
    policy: Annotated[str, typer.Argument(help="Version: a folder, or an id (or its beginning).", metavar="ID")],
    url: Url,
    public: Public = False,
    home: Home = None,
) -> None:
    """Copy a version with a card of its evidence to another place; a killed push continues."""
    from enpire.commands.progress_bar import Bar
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.service.offline import find_version
    from enpire.service.remote_copies import push_version

    place = HomeFolder(find_home(home))
    with Bar("reading", url) as bar:
        made = push_version(place, find_version(place, policy), url, public=public, say=partial(bar.show, "bytes"))
    print(f"Version {made.id[:12]} is at {made.url}{_sent(made.sent)}.")
    print(f"Copy it into a home: enpire policy pull {made.url}")


def pull_policy(url: Url, home: Home = None) -> None:
    """Copy a version from another place into the home; a campaign begins with it through `base: {policy: ID}`."""
    from enpire.commands.progress_bar import Bar
    from enpire.home import find_home
    from enpire.service.remote_copies import pull_version

    place = find_home(home)
    with Bar("reading", place) as bar:
        policy_id, exact = pull_version(place, url, partial(bar.show, "bytes"))
    print(f"Version {policy_id} is in the home, from {exact}.")


def push_episodes(
    folder: Annotated[Path, typer.Argument(help="Dataset that `enpire episodes export` wrote.", metavar="DIR")],
    url: DatasetUrl,
    public: Public = False,
) -> None:
    """Copy an exported dataset to another place; a killed push continues."""
    from enpire.commands.progress_bar import Bar
    from enpire.service.remote_copies import push_dataset

    with Bar("reading", url) as bar:
        made = push_dataset(folder, url, public=public, say=partial(bar.show, "bytes"))
    print(f"The dataset {made.id[:12]} is at {made.url}{_sent(made.sent)}.")
    print(f"Copy it back: enpire episodes pull {made.url} DIR")


def pull_episodes(
    url: DatasetUrl,
    target: Annotated[Path, typer.Argument(help="New folder for the dataset.", metavar="DIR")],
    home: Home = None,
) -> None:
    """Copy a dataset from another place to a new folder; `enpire episodes import DIR` takes it into a campaign."""
    from enpire.commands.progress_bar import Bar
    from enpire.home import find_home
    from enpire.service.remote_copies import pull_dataset

    with Bar("reading", target) as bar:
        exact = pull_dataset(url, target, partial(bar.show, "bytes"))
    print(f"The dataset is in {target}, from {exact}. Next: enpire episodes import {target}{at_home(find_home(home))}")


def repair_episodes(
    folder: Annotated[Path, typer.Argument(help="LeRobotDataset v3 that a crash left broken.", metavar="DIR")],
    target: Annotated[
        Path | None, typer.Argument(help="New folder; default: DIR with -repaired at its end.", metavar="NEW_DIR")
    ] = None,
) -> None:
    """Write the whole episodes of a broken dataset to a new folder; the broken one stays as it is."""
    from enpire.service.datasets import repair_dataset

    made_at = target or Path(f"{folder.absolute()}-repaired")
    made = repair_dataset(folder, made_at)
    for line in made.lost:
        print(f"Lost: {line}")
    files = f", out of {counted(len(made.recovered), 'file')} without contents," if made.recovered else ""
    print(f"{counted(made.episodes, 'episode')} ({counted(made.frames, 'frame')}){files} are whole in {made_at}.")


def _sent(size: int | None) -> str:
    return "" if size is None else ", which had all of it" if size == 0 else f", {counted(size, 'byte')} sent"
