"""One connection to an openpi policy server, with a deadline for each call; a late answer is never read.

After a deadline the connection is closed, because an answer says not to which call it belongs.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from enpire.errors import FileProblem, PeerSilent, PolicyProblem, TransportProblem
from enpire.files import is_file, read_yaml
from enpire.wire.openpi_messages import LARGEST, Content, nested, pack, unpack

CONNECT_S = 10.0
"""How long connecting and the server's metadata may take."""
KEYS = "openpi_keys.yaml"
"""File in the user's configuration folder for ENPIRE: HOST:PORT -> API key. A key is sent to this server only, and
never lies in a version."""


class OpenpiLink:
    """A connection that is made again when it was lost. Any thread, one call at a time.

    Args:
        address: ws://HOST:PORT or wss://HOST:PORT.
        metadata_hash: of the server's metadata, which must stay; empty accepts any.
    """

    def __init__(self, address: str, metadata_hash: str = "") -> None:
        self._address, self._hash = require_address(address), metadata_hash
        self._lock = threading.Lock()
        self._socket: Any = None
        self.metadata: Content = {}
        """What the server said about itself."""
        self.metadata_hash = ""

    @property
    def connected(self) -> bool:
        """Whether a connection is open that no call made unusable."""
        return self._socket is not None

    def open(self, limit_s: float = CONNECT_S) -> None:
        """Connect, unless a connection is open.

        Raises:
            PeerSilent: the server does not answer.
            PolicyProblem: it answers with other metadata than before, or refuses.
        """
        with self._lock:
            self._open(time.monotonic() + limit_s)

    def infer(self, observation: Content, until_s: float) -> Content:
        """The answer to one observation, before the monotonic clock reads `until_s`.

        Raises:
            PeerSilent: the server did not answer in time, or its connection was lost; it is closed.
            PolicyProblem: the server reports an error.
            TransportProblem: the answer cannot be read.
        """
        with self._lock:
            self._open(until_s)
            try:
                answer = self._exchange(pack(nested(observation)), until_s)
                if isinstance(answer, bytes):
                    return unpack(answer)
                last = answer.strip().splitlines()[-1:] or ["an error without a text"]
                raise PolicyProblem(f"{self._at} reports: {last[0][:300].rstrip('.')}.")
            except BaseException:
                self._close()
                raise

    def close(self) -> None:
        """Close the connection. Allowed twice."""
        with self._lock:
            self._close()

    @property
    def _at(self) -> str:
        return f"The openpi server at {self._address}"

    def _exchange(self, message: bytes, until_s: float) -> bytes | str:
        from websockets.exceptions import WebSocketException

        if len(message) > LARGEST:
            raise TransportProblem(f"An observation of {len(message)} bytes is too large; at most {LARGEST} are sent.")
        try:
            _limit_sending(self._socket.socket, until_s)
            self._socket.send(message)
            return self._socket.recv(timeout=max(0.0, until_s - time.monotonic()))
        except TimeoutError as problem:
            raise PeerSilent(f"{self._at} did not answer in time.") from problem
        except (WebSocketException, OSError) as problem:
            raise PeerSilent(f"{self._at} was lost: {str(problem).rstrip('.')}.") from problem

    def _open(self, until_s: float) -> None:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        if self._socket is not None:
            return
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise PeerSilent(f"{self._at} did not answer in time.")
        key = api_key(self._address)
        headers = {"Authorization": f"Api-Key {key}"} if key else None
        try:
            opened: Any = connect(
                self._address, additional_headers=headers, compression=None, max_size=LARGEST, proxy=None,
                open_timeout=left_s, ping_interval=None, close_timeout=0.2,
            )  # fmt: skip
            self._socket = opened.__enter__()  # websockets warns of a connection that is not entered
            first = self._socket.recv(timeout=max(0.0, until_s - time.monotonic()))
        except (WebSocketException, OSError, TimeoutError) as problem:
            self._close()
            raise PeerSilent(
                f"{self._at} does not answer ({problem or 'no metadata in time'}); check it and its address."
            ) from problem
        self._check(first)

    def _check(self, first: bytes | str) -> None:
        try:
            if not isinstance(first, bytes):
                raise PolicyProblem(f"{self._at} sent a text in place of its metadata: {first[:200].rstrip('.')}.")
            self.metadata, self.metadata_hash = unpack(first), hashlib.sha256(first).hexdigest()
            if self._hash and self.metadata_hash != self._hash:
                raise PolicyProblem(
                    f"{self._at} describes another policy than the one of this version; make a version of it: "
                    "`enpire policy connect`."
                )
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        closing, self._socket = self._socket, None
        if closing is not None:
            with contextlib.suppress(OSError):
                closing.socket.shutdown(socket.SHUT_RDWR)  # without it, closing would wait for a server that hangs
            closing.close()


def require_address(address: str) -> str:
    """The address; FileProblem if it is none of a WebSocket server."""
    try:
        parts = urlsplit(address)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, named = urlsplit(""), False
    if parts.scheme not in ("ws", "wss") or not named or not address.isprintable() or parts.username:
        raise FileProblem(
            f"{address[:80]!r} is no address of an openpi server; write ws://HOST:PORT or wss://HOST:PORT."
        )
    return address


def api_key(address: str) -> str:
    """The key of this user for the server at an address; empty if there is none.

    Raises:
        FileProblem: the file with the keys cannot be read, or other users may read it.
    """
    from platformdirs import user_config_path

    path: Path = user_config_path("enpire") / KEYS
    if not is_file(path):
        return ""
    if path.stat().st_mode & 0o077:
        raise FileProblem(f"Other users may read the keys in {path}; take that away: chmod 600 {path}.")
    found = read_yaml(path).get(urlsplit(address).netloc, "")
    return found if isinstance(found, str) else ""


def _limit_sending(connection: socket.socket, until_s: float) -> None:
    """End a send that a server does not read."""
    left_s = max(0.001, until_s - time.monotonic())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(left_s), int(left_s % 1 * 1e6)))
