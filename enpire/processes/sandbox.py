"""A sandbox for processes that run an agent's code: bubblewrap, where it is installed and allowed.

Inside there are only the system's libraries, Python and its packages, all read-only, and empty folders in memory. There
is no network, no terminal, no other process, no file of the user or of the lab, and no way to make another sandbox.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SYSTEM = (
    "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/ca-certificates", "/usr/share/zoneinfo",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/pki/ca-trust", "/etc/pki/tls/certs",
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/nix/store",
)  # fmt: skip
"""Programs, libraries and certificates of the system that are visible inside."""
ROOT_LINKS = ("/bin", "/lib", "/lib32", "/lib64")
"""Older names of folders below /usr; on some systems they are folders."""
OWN_USERS = (("--unshare-user", "--disable-userns"), ("--unshare-user",), ())
"""Options for a user namespace, the safest first. Bubblewrap before 0.8, or with root's rights, may lack the first."""
ISOLATION = (
    "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try",
    "--new-session", "--die-with-parent", "--cap-drop", "ALL",
)  # fmt: skip
"""Options of bubblewrap that every sandbox has. A new session has no terminal, so no keys can be typed into it."""
PACKAGES = ("site-packages", "dist-packages")
"""Names of folders that hold installed packages only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The files that a process gets besides those of the system and of Python."""

    reads: tuple[Path, ...] = ()
    """Files and folders that it may read. A socket among them may be connected to."""
    binds: tuple[tuple[Path, Path], ...] = ()
    """(file or folder, where it appears inside): further ones that it may read."""
    hidden: tuple[Path, ...] = ()
    """Folders that are empty inside, also where they lie in a folder that it may read."""
    scratch: tuple[Path, ...] = (Path("/tmp"), Path("/dev/shm"))
    """Empty folders in memory that it may write; they end with it."""
    scratch_bytes: int = 64 * 2**20
    """Size of each of these folders."""


@cache
def bubblewrap() -> tuple[str, ...]:
    """Bubblewrap and its options for isolation; empty where it is not installed or the kernel does not allow it."""
    program = shutil.which("bwrap")
    for options in OWN_USERS if program is not None else ():
        words = (str(program), *options, *ISOLATION)
        probe = [*words, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
        if subprocess.run(probe, check=False, capture_output=True).returncode == 0:
            return words
    return ()


def sandboxed(sandbox: Sandbox, command: list[str], *, filter_fd: int | None = None) -> list[str]:
    """The command that runs `command` in a sandbox, which ends with the process that starts it.

    Use it only where `bubblewrap` is not empty.

    Args:
        sandbox: what it sees.
        command: its first word is a path inside.
        filter_fd: descriptor of a filter of system calls that the child inherits (`enpire.processes.system_calls`).
    """
    # Root without capabilities may still write /proc/sys, so all of /proc is read-only.
    words = [*bubblewrap(), "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    for link in map(Path, ROOT_LINKS):
        if link.is_symlink():
            words += ["--symlink", str(link.readlink()), str(link)]
    for folder in sandbox.scratch:
        words += ["--size", str(sandbox.scratch_bytes), "--tmpfs", str(folder)]
    for path in _outermost((*map(Path, SYSTEM), *_root_folders(), *sandbox.reads)):
        words += ["--ro-bind-try", str(path), str(path)]
    for folder in sandbox.hidden:
        words += ["--size", "4096", "--tmpfs", str(folder), "--remount-ro", str(folder)]
    for path, inside in sandbox.binds:
        words += ["--ro-bind", str(path), str(inside)]
    words += ["--remount-ro", "/", "--chdir", str(sandbox.scratch[0])]
    return [*words, *([] if filter_fd is None else ["--seccomp", str(filter_fd)]), "--", *command]


def python_command() -> list[str]:
    """The interpreter without start files (.pth) and current folder; it imports from `python_path`."""
    return [os.path.realpath(sys.executable), "-S", "-P"]


def python_path() -> list[Path]:
    """The folders from which this process imports installed packages and the other packages that it has loaded.

    The standard library comes first: a lab's folder may hold a file named json.py.
    """
    standard = (_standard(), _standard() / "lib-dynload")
    installed = [path for path in map(_resolved, sys.path) if _is_installed(path)]
    return list(dict.fromkeys((*standard, *(place.parent for place in _loaded()), *installed)))


def python_files() -> list[Path]:
    """The files of the interpreter, of all installed packages, and of the other packages that this process has loaded.

    So of a checkout only the loaded packages are visible: not its data, not its .git, not what lies next to them.
    """
    base = Path(sys.base_prefix)
    interpreter = [base / "bin", base / "lib", base / "lib64", Path(os.path.realpath(sys.executable)), _standard()]
    return [*interpreter, *filter(_is_installed, map(_resolved, sys.path)), *_loaded()]


def _loaded() -> list[Path]:
    """Folders of packages and files of modules that this process has loaded and that are not installed."""
    found: list[Path] = []
    for name, module in list(sys.modules.items()):
        if "." in name or name == "__main__":
            continue
        file: str | None = getattr(module, "__file__", None)
        places = [Path(place) for place in getattr(module, "__path__", ())] or [Path(file or "")]
        found += [place.resolve() for place in places if place.is_absolute() and place.exists()]
    installed = [_standard(), *filter(_is_installed, map(_resolved, sys.path))]
    return [place for place in found if not any(place.is_relative_to(folder) for folder in installed)]


def _resolved(entry: str) -> Path:
    return Path(entry or ".").resolve()


def _is_installed(path: Path) -> bool:
    return path.exists() and (path.name in PACKAGES or path.is_file())


def _standard() -> Path:
    """The folder of the standard library."""
    return Path(os.__file__).resolve().parent


def _root_folders() -> list[Path]:
    return [path for path in map(Path, ROOT_LINKS) if path.is_dir() and not path.is_symlink()]


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that exist, without those that lie in another of them."""
    kept: list[Path] = []
    for path in sorted({path.absolute() for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept
