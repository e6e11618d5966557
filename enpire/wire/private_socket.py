"""Private sockets: Unix sockets in a folder that only this user can enter. Peers at them need no key.

Every other address can be reached by other users, by agents with a network, or by other machines, and needs keys.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from pathlib import Path

from enpire.errors import TransportProblem

PREVIEWS = "-previews"
"""Ending of the socket for live images next to a socket for messages."""
_LONGEST = 107 - len(PREVIEWS) - len("-relay")
"""Most bytes of a path. A Unix socket's path may have 107, and the longest name next to this one must fit, too."""
_IPC = "ipc://"


def is_private(address: str) -> bool:
    """Whether peers at this address need no key: a Unix socket, or a socket of this process."""
    return address.startswith((_IPC, "inproc://"))


def private_address(home: Path, name: str) -> str:
    """Address of a private socket of a home.

    It is in the home's folder `run`, or, where that path is too long, in the temporary folder of this machine.

    Raises:
        TransportProblem: the folder belongs to another user, or no path is short enough.
    """
    folder = (home / "run").resolve()
    if len(os.fsencode(folder / name)) > _LONGEST:
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        top = Path(tempfile.gettempdir()) / f"enpire-{os.getuid()}"
        make_private(top)
        folder = top / digest
    make_private(folder)
    return f"{_IPC}{folder / name}"


def check_plain(address: str) -> None:
    """Allow an address without keys: a Unix socket in a folder that only this user can enter. Makes the folder.

    Raises:
        TransportProblem: other users or other machines can reach the address.
    """
    if address.startswith("inproc://"):
        return
    path = socket_path(address)
    if path is None:
        raise TransportProblem(
            f"{address[:80]!r} can be reached by other processes, so it needs keys (`enpire station enroll NAME`). "
            "Without keys, use ipc:///FOLDER/NAME, a socket in a folder that only you can enter."
        )
    if not path.is_absolute() or len(os.fsencode(path)) > _LONGEST:
        raise TransportProblem(f"{address!r} must be ipc:// and an absolute path of at most {_LONGEST} bytes.")
    make_private(path.parent)


def socket_path(address: str) -> Path | None:
    """The path of a Unix socket; None for another kind of address."""
    return Path(address.removeprefix(_IPC)) if address.startswith(_IPC) else None


def make_private(folder: Path) -> None:
    """Make a folder that only this user can enter, or check that an existing one is.

    Raises:
        TransportProblem: it cannot be made, or other users can enter it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as problem:
        raise TransportProblem(f"The folder {folder} cannot hold a socket: {problem.strerror}.") from problem
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise TransportProblem(
            f"The folder {folder} cannot hold a private socket, because other users can enter it or own it; "
            f"run chmod 700 {folder}, or use a folder of your own."
        )


def refuse_taken(address: str) -> None:
    """Refuse the address of a socket at which another process listens: to bind it would replace that process.

    Raises:
        TransportProblem: a process listens there.
    """
    path = socket_path(address)
    if path is None:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return
    raise TransportProblem(f"Cannot listen at {address}: another process listens there already; end it first.")
