"""The gateway: a child process that takes the connections of other processes and machines, and is started again.

A peer can make libzmq abort its process (for example with a PING after it closed its end). So no process that moves
robots or keeps records has a socket that peers reach. The gateway has it: it decrypts (CURVE), asks for keys (ZAP) and
passes each message on over a private socket, together with the name of the station whose key the peer has. This process
keeps the listening TCP socket, so that peers wait in its queue while the gateway is started again.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from enpire.errors import TransportProblem
from enpire.wire.curve_keys import EncryptedBind, server_keys
from enpire.wire.socket_limits import SocketLimits

_PATIENCE_S = 1.5
"""Longest time in which a gateway that is closed delivers its last messages."""
_AGAIN_S = 0.5
"""Shortest time between two starts."""
_WAITING = 1024
"""Most connections that wait in the kernel while the gateway is started again."""
_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL")
"""Variables that the gateway gets: no credential among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What the gateway's process reads from its input."""

    identity: str
    """How the gateway names itself to the server; only the two know it."""
    keys: str
    server: str
    """Address of the server's private socket."""
    listener: int
    """Descriptor of the listening socket."""
    preview_listener: int
    """Descriptor of the listening socket for live images; -1 without."""
    previews: str
    """Address of the server's private socket for live images; empty without."""
    handover: bool
    """Whether a new connection of a peer replaces its old one: stations name theirs, clients do not."""
    largest: int
    unread: int


class Gateway:
    """Runs the gateway's process; a thread starts it again whenever it ends.

    Args:
        bind: where to listen, and which keys to admit.
        server: address of the private socket that gets the messages.
        limits: of each peer.
        previews: address of the private socket that gets live images; empty without.

    Raises:
        TransportProblem: the address is in use or invalid.
    """

    def __init__(self, bind: EncryptedBind, server: str, limits: SocketLimits, previews: str = "") -> None:
        server_keys(bind.keys)
        self.identity = f"gateway-{secrets.token_hex(16)}".encode()
        self.reports: deque[str] = deque(maxlen=100)
        """One sentence for each time that the process ended; the reader removes them."""
        self.restarts = 0
        self._bind, self._server, self._limits, self._previews = bind, server, limits, previews
        host, port = _parts(bind.address)
        self._listener = _listen(host, port, bind.address)
        self._preview_listener = _listen(host, 0, bind.address) if previews else None
        self.preview_port = self._preview_listener.getsockname()[1] if self._preview_listener else 0
        shown = f"[{host}]" if ":" in host else host
        self.address = f"tcp://{shown}:{self._listener.getsockname()[1]}"
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="gateway", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process id; 0 while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    def close(self) -> None:
        """End the process after its last messages. Allowed twice."""
        with self._lock:
            self._ended.set()
            process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()
        for listener in (self._listener, self._preview_listener):
            if listener is not None:
                listener.close()

    def _supervise(self) -> None:
        while True:
            started_s = time.monotonic()
            with self._lock:
                if self._ended.is_set():
                    return
                try:
                    self._process = self._start()
                except OSError as problem:
                    self._process = None
                    self._report(f"cannot be started: {problem.strerror}")
            if self._process is not None:
                code = self._process.wait()
                if self._ended.is_set():
                    return
                if self._process.stdin is not None:
                    self._process.stdin.close()
                self.restarts += 1
                self._report(f"ended with {_reason(code)} and is started again; see {self._log}")
            self._ended.wait(started_s + _AGAIN_S - time.monotonic())

    def _start(self) -> subprocess.Popen[bytes]:
        listeners = [one.fileno() for one in (self._listener, self._preview_listener) if one is not None]
        settings = GatewaySettings(
            identity=self.identity.decode(), keys=str(self._bind.keys), server=self._server, listener=listeners[0],
            preview_listener=listeners[1] if len(listeners) > 1 else -1, previews=self._previews,
            handover=bool(self._previews), largest=self._limits.largest,
            unread=self._limits.unread,
        )  # fmt: skip
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "enpire.wire.gateway_process"], bufsize=0, stdin=subprocess.PIPE, stdout=log,
                stderr=log, pass_fds=listeners, process_group=0,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            )  # fmt: skip
        with suppress(BrokenPipeError):  # it ended at once
            if process.stdin is not None:
                process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
        return process

    def _report(self, what: str) -> None:
        self.reports.append(f"The process that takes connections at {self.address} {what}.")

    @property
    def _log(self) -> Path:
        return self._bind.keys / "gateway.log"


def _parts(address: str) -> tuple[str, int]:
    """(host, port) of tcp://HOST:PORT; `*` means every address of the machine, or any free port."""
    parts, port = urlsplit(address), address.rpartition(":")[2]
    host = (parts.hostname or "").replace("*", "0.0.0.0")
    if parts.scheme != "tcp" or not host or not (port == "*" or port.isdigit()):
        raise TransportProblem(f"{address[:80]!r} is no address to listen at; write tcp://ADDRESS:PORT.")
    return host, 0 if port == "*" else int(port)


def _listen(host: str, port: int, address: str) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_WAITING)
    except (OSError, OverflowError) as problem:
        raise TransportProblem(f"Cannot listen at {address}: {problem}. Use another address or port.") from problem
    listener.setblocking(False)
    return listener


def _reason(code: int) -> str:
    return f"code {code}" if code >= 0 else signal.Signals(-code).name
