"""A closed room for a process whose work somebody else decides: bubblewrap, where it is installed and allowed.

Inside, everything is read-only but the folders it is given, also names that do not exist yet; of the user's home folder
there is only what Python and the laboratory need; no other process is seen; whatever it started ends with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

EMPTY = (Path("/tmp"), Path("/var/tmp"), Path("/run"))
"""Folders whose contents are others': temporary files, sockets."""
NAMES = Path("/run/systemd/resolve")
"""Where some systems keep the addresses of their name servers."""


WALLS = (
    "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev",
    "--proc", "/proc",
)  # fmt: skip
"""What every room has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a process finds inside."""

    reads: tuple[Path, ...] = ()
    """Folders that it may read wherever they lie; Python's own and the present folder are among them anyhow."""
    writes: tuple[Path, ...] = ()
    """Existing folders that it may change."""
    hidden: tuple[Path, ...] = ()
    """Files and folders below `reads` that it must not see."""
    network: bool = False


@cache
def bubblewrap() -> str:
    """The program that makes rooms; empty where it is not installed, or the kernel does not let this user make any."""
    program = shutil.which("bwrap")
    if program is None:
        return ""
    probe = [program, *WALLS, "--unshare-net", "true"]
    return program if subprocess.run(probe, check=False, capture_output=True).returncode == 0 else ""


def inside(room: Sandbox, command: list[str]) -> list[str]:
    """The command in its room; the room ends with the process that starts it, and takes everything in it along.

    Only where `bubblewrap` found one.
    """
    shares = [] if room.network else ["--unshare-net"]
    around = [bubblewrap(), "--die-with-parent", *WALLS, *shares]
    for folder in (*EMPTY, Path.home()):
        if folder.is_dir() and folder != Path("/"):
            around += ["--tmpfs", str(folder)]
    for folder in (*_pythons(), *room.reads, *([NAMES] if room.network else [])):
        around += ["--ro-bind-try", str(folder), str(folder)]
    for path in room.hidden:
        around += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind-try", "/dev/null", str(path)]
    for folder in room.writes:
        around += ["--bind", str(folder), str(folder)]
    return [*around, "--", *command]


def _pythons() -> list[Path]:
    """The interpreter, its packages, and the present folder (unless that is a home folder, which is much more)."""
    found = [Path(sys.base_prefix), Path(sys.prefix)]
    much_more = (Path.home(), *Path.home().parents)
    for folder in (*map(Path, sys.path), Path.cwd()):
        found += [folder] if folder.is_dir() and folder.resolve() not in much_more else []
    return sorted({folder.resolve() for folder in found} | set(found))
