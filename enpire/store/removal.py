"""The only place that removes files and folders, or renames over them (tests/architecture/test_removal.py).

Every call names the folder that the caller owns. A path that is not below it is refused, also when a link on the way
leads elsewhere. Of a link, the link itself is removed and never its target. A folder first gets a hidden name, in one
step: a reader sees all of it or nothing, and `durable.sweep` removes the rest after a kill -9.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path

from enpire.errors import FileProblem

STAGED = ".staged-"
"""Prefix of the names of incomplete files and folders; the process that owns the folder removes them at its start."""


def remove(path: Path, within: Path) -> None:
    """Remove a file, a link, or a folder with everything in it; nothing happens when it is missing.

    Args:
        path: below `within`.
        within: folder that the caller owns. It may itself be reached over a link.

    Raises:
        FileProblem: the path is not below `within`; nothing was removed.
        OSError: the system refused.
    """
    require_within(path, within)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        hidden = path.parent / f"{STAGED}removed-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            path.rename(hidden)
        except FileNotFoundError:
            raise
        except OSError:
            hidden = path  # a full disk may refuse the new name; remove the folder under its own
        shutil.rmtree(hidden)  # follows no link, also when one is placed there meanwhile


def remove_empty(folder: Path, within: Path) -> None:
    """Remove a folder in which nothing lies, such as a control group of the kernel; arguments as of `remove`.

    Raises:
        FileProblem: the path is not below `within`; nothing was removed.
        OSError: it is missing or not empty, or the system refused.
    """
    require_within(folder, within)
    folder.rmdir()


def try_remove(path: Path, within: Path) -> bool:
    """Remove as `remove` does, where a refusal of the system does no harm; returns whether the path is gone.

    Raises:
        FileProblem: the path is not below `within`; nothing was removed.
    """
    try:
        remove(path, within)
    except OSError:
        return False
    return True


def replace(source: Path, target: Path, within: Path) -> None:
    """Rename a file or a folder. A file or a link at `target` is replaced, a folder with content is not.

    Args:
        source: below `within`.
        target: below `within`, on the same disk.
        within: folder that the caller owns.

    Raises:
        FileProblem: one of the paths is not below `within`; nothing was renamed.
        OSError: the system refused.
    """
    require_within(source, within)
    require_within(target, within)
    os.replace(source, target)  # noqa: PTH105 - Path.replace is not allowed anywhere


def require_within(path: Path, within: Path) -> None:
    """Check that a path lies below a folder, and that no folder between the two is a link.

    Raises:
        FileProblem: it does not.
    """
    folder, name = os.path.split(path)
    if folder == str(within) and name not in ("", "..") and "\0" not in name:
        return  # no folder lies between
    top = Path(os.path.abspath(within))  # noqa: PTH100 - resolve() would follow the links that are refused here
    inside = Path(os.path.abspath(path))  # noqa: PTH100
    if top not in inside.parents or "\0" in str(path):
        raise FileProblem(
            f"{str(path)!r} is not below {within}, so it is neither removed nor replaced: only files of that folder "
            "may be. Check the name that led there."
        )
    for parent in inside.parents:
        if parent == top:
            return
        if parent.is_symlink():
            raise FileProblem(
                f"{path} is reached over the link {parent}, so it is neither removed nor replaced: only files below "
                f"{within} may be. Remove the link."
            )
