"""Inputs of an operator at a page to a station on the same machine: one datagram for each look at the keys.

The station listens at a private socket and never waits for it. It answers each input with what it does. A datagram that
is lost, late or wrong moves nothing: the station acts on the newest one only, and for a short time.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import TransportProblem
from enpire.files import is_mapping
from enpire.ids import file_name, mint
from enpire.store import removal
from enpire.wire.private_socket import check_plain, private_address, socket_path

LARGEST = 4096
"""Most bytes of a datagram."""
OLD_S = 1.0
"""An input that waited longer in the socket is old: it moves nothing, and a give-back still counts."""
MOST_READ = 64
"""Most datagrams that one look takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandInput:
    """What an operator does with the keys now."""

    holder: str
    """Id of the take-over. The station follows the newest one; the ids sort by time."""
    axes: tuple[float, ...]
    """For each action of the task: -1 to 1."""
    gives_back: bool = False
    """The operator gives the robot back to the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandStatus:
    """What a station does with the inputs."""

    actions: tuple[str, ...]
    """Names of the task's actions, in the order of the axes."""
    holder: str
    """The take-over that moves the robot; empty while the policy does."""


def hand_address(home: Path, station: str) -> str:
    """Where a station of this home takes inputs."""
    return private_address(home, f"hand-{file_name(station, 'a station')}")


class HandListener:
    """The station's side."""

    def __init__(self, address: str) -> None:
        """Listen at ipc:///FOLDER/NAME, in a folder that only this user can enter.

        Raises:
            TransportProblem: the address is another one, or cannot be used.
        """
        check_plain(address)
        path = socket_path(address)
        if path is None:
            raise TransportProblem(f"{address!r} must be ipc:// and an absolute path.")
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        removal.try_remove(path, path.parent)  # of a station that ended without closing it
        try:
            self._socket.bind(str(path))
        except OSError as problem:
            raise TransportProblem(f"A station cannot take inputs at {address}: {problem.strerror}.") from problem
        self._sender = ""

    def newest(self) -> HandInput | None:
        """The newest input since the last call; None without one. Does not wait."""
        found: HandInput | None = None
        for _ in range(MOST_READ):
            try:
                data, sender = self._socket.recvfrom(LARGEST)
            except (BlockingIOError, InterruptedError):
                break
            given = _input(data)
            if given is not None and (found is None or given.holder >= found.holder):
                found, self._sender = given, sender
        return found

    def answer(self, status: HandStatus) -> None:
        """Tell the sender of the newest input what the station does. A sender that is gone gets nothing."""
        if self._sender:
            with contextlib.suppress(OSError):
                self._socket.sendto(
                    json.dumps({"actions": status.actions, "holder": status.holder}).encode(), self._sender
                )

    def close(self) -> None:
        """Close the socket. Allowed twice."""
        self._socket.close()
        removal.try_remove(self._path, self._path.parent)


class HandClient:
    """The page's side of one take-over."""

    def __init__(self, home: Path, station: str) -> None:
        """Connect to a station of this home.

        Raises:
            TransportProblem: the station takes no inputs here.
        """
        self.holder = mint()
        path = socket_path(hand_address(home, station))
        assert path is not None  # it is private
        self._own = path.with_name(f"page-{os.getpid()}-{self.holder[-6:]}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(str(path))
            self._socket.bind(str(self._own))
        except OSError as problem:
            self._socket.close()
            raise TransportProblem(
                f"The station {station} takes no inputs from the page of this machine: its file needs "
                "`operator: browser`, its campaign `rounds: {supervised: SHARE}` or `base: {demonstrators: people}`."
            ) from problem

    def send(self, axes: tuple[float, ...], *, gives_back: bool = False) -> bool:
        """Send an input; whether the station took it. Does not wait: a full queue drops it."""
        content = {"holder": self.holder, "axes": axes, "gives_back": gives_back, "sent_s": time.monotonic()}
        try:
            self._socket.send(json.dumps(content).encode())
        except OSError:
            return False
        return True

    def status(self) -> HandStatus | None:
        """The newest answer since the last call; None without one. Does not wait."""
        data = b""
        for _ in range(MOST_READ):
            try:
                data = self._socket.recv(LARGEST)
            except OSError:
                break
        if not data:
            return None
        content = json.loads(data)
        return HandStatus(actions=tuple(content["actions"]), holder=content["holder"])

    def close(self) -> None:
        """Close the socket without giving the robot back: the station hears nothing, so the robot holds first."""
        self._socket.close()
        removal.try_remove(self._own, self._own.parent)


def _input(data: bytes) -> HandInput | None:
    """An input; None for anything else."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not is_mapping(content):
        return None
    holder, axes, gives_back = content.get("holder"), content.get("axes"), content.get("gives_back")
    sent_s = content.get("sent_s")
    if gives_back is not True and not (isinstance(sent_s, float) and time.monotonic() - sent_s <= OLD_S):
        return None
    if not isinstance(holder, str) or not isinstance(axes, list) or not isinstance(gives_back, bool):
        return None
    numbers = [float(one) for one in axes if isinstance(one, int | float) and math.isfinite(one)]  # pyright: ignore[reportUnknownVariableType]
    if len(numbers) != len(axes):  # pyright: ignore[reportUnknownArgumentType]
        return None
    return HandInput(holder=holder, axes=tuple(max(-1.0, min(1.0, one)) for one in numbers), gives_back=gives_back)
