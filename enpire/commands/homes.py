"""`enpire home backup | restore`: one file with the state of a home, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import AsJson, Home, answer, at_home, existing_home, log
from enpire.wording import counted

DAMAGED = 1


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="The home of a lab: backup, restore.", no_args_is_help=True)
    group.command("backup")(backup)
    group.command("restore")(restore)
    app.add_typer(group, name="home")


def backup(
    file: Annotated[Path, typer.Argument(help="New file, a zip file with secrets of the lab.", metavar="FILE")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write the ledger, all episodes, versions and settings to one file, also while a campaign runs.

    Exit code 1 if files of episodes differ from the ledger.
    """
    from enpire.commands.progress_bar import Bar
    from enpire.home import Home as HomeFolder
    from enpire.service.backups import back_up

    place = HomeFolder(existing_home(home))
    with Bar("files", file) as bar:
        made = back_up(place, file, lambda done, total: bar.show("files", done, total))
    document = {
        "file": str(file), "head": made.head, "files": len(made.files), "bytes": made.size, "damaged": made.damaged,
    }  # fmt: skip
    text = (
        f"{file} holds {counted(len(made.files), 'file')} ({made.size / 1e6:.1f} MB), each read back and compared.\n"
        f"Head of the ledger: {made.head}"
    )
    answer(document, as_json=as_json, text=text)
    if made.damaged:
        log(
            f"{counted(len(made.damaged), 'file')} of episodes, such as {made.damaged[0]}, differ from the ledger and "
            "are in the backup as they are: restore them from an earlier backup."
        )
        raise typer.Exit(DAMAGED)


def restore(
    file: Annotated[Path, typer.Argument(help="File of `enpire home backup`.", metavar="FILE")],
    folder: Annotated[Path, typer.Argument(help="New or empty folder, the restored home.", metavar="DIR")],
    as_json: AsJson = False,
) -> None:
    """Restore a backup to a new folder, and verify its ledger and every episode."""
    import getpass

    from enpire.commands.progress_bar import Bar
    from enpire.service.backups import restore_home

    with Bar("files", folder) as bar:
        made = restore_home(file, folder, getpass.getuser(), lambda done, total: bar.show("files", done, total))
    text = "\n".join((
        f"{folder} holds {counted(made.files, 'file')} of {file}, which ends with {made.head}.",
        *made.audit.sentences(),
        f"Continue its campaign: enpire run CAMPAIGN{at_home(folder)}",
    ))  # fmt: skip
    answer(made, as_json=as_json, text=text)
