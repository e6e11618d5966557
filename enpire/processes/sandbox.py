"""A sandbox for processes that run an agent's code: bubblewrap, where it is installed and allowed.

Inside, the whole file system is read-only except the given folders; of the user's home folder only the files for Python
and the lab are visible; no other process is visible; child processes end with the sandbox.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

EMPTIED = (Path("/tmp"), Path("/var/tmp"), Path("/run"))
"""Folders that are empty inside: they hold temporary files and sockets of other processes."""
RESOLVER = Path("/run/systemd/resolve")
"""Folder in which some systems keep the addresses of their name servers."""


ISOLATION = (
    "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev",
    "--proc", "/proc",
)  # fmt: skip
"""Options of bubblewrap that every sandbox has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The files and network that a process gets."""

    reads: tuple[Path, ...] = ()
    """Folders that it may read; those of Python and the working folder are always included."""
    writes: tuple[Path, ...] = ()
    """Existing folders that it may write."""
    hidden: tuple[Path, ...] = ()
    """Files and folders below `reads` that are hidden from it."""
    network: bool = False


@cache
def bubblewrap() -> str:
    """Path of bubblewrap; empty where it is not installed or the kernel does not allow it for this user."""
    program = shutil.which("bwrap")
    if program is None:
        return ""
    probe = [program, *ISOLATION, "--unshare-net", "true"]
    return program if subprocess.run(probe, check=False, capture_output=True).returncode == 0 else ""


def sandboxed(sandbox: Sandbox, command: list[str]) -> list[str]:
    """The command that runs `command` in a sandbox, which ends with the process that starts it.

    Use it only where `bubblewrap` returns a path.
    """
    shares = [] if sandbox.network else ["--unshare-net"]
    words = [bubblewrap(), "--die-with-parent", *ISOLATION, *shares]
    for folder in (*EMPTIED, Path.home()):
        if folder.is_dir() and folder != Path("/"):
            words += ["--tmpfs", str(folder)]
    for folder in (*_python_folders(), *sandbox.reads, *([RESOLVER] if sandbox.network else [])):
        words += ["--ro-bind-try", str(folder), str(folder)]
    for path in sandbox.hidden:
        words += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind-try", "/dev/null", str(path)]
    for folder in sandbox.writes:
        words += ["--bind", str(folder), str(folder)]
    return [*words, "--", *command]


def _python_folders() -> list[Path]:
    """Folders of the interpreter, its packages, and the working folder, unless that contains the home folder."""
    found = [Path(sys.base_prefix), Path(sys.prefix)]
    too_much = (Path.home(), *Path.home().parents)
    for folder in (*map(Path, sys.path), Path.cwd()):
        found += [folder] if folder.is_dir() and folder.resolve() not in too_much else []
    return sorted({folder.resolve() for folder in found} | set(found))
