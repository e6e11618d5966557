"""The web server, in its own thread of the orchestrator's process or in a process of its own."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from enpire.errors import TransportProblem, UsageError
from web_ui.accounts import Accounts
from web_ui.app import Serving, create_app
from web_ui.live import LiveLab
from web_ui.request_guard import EVERYWHERE, LOOPBACK, is_loopback

START_S = 20.0
"""Longest time to start, in seconds."""
STOP_S = 5.0
"""Longest time to close connections, in seconds."""

_HOST_NAME = re.compile(r"(?=.*[0-9A-Za-z:])[0-9A-Za-z_.:\[\]-]{1,253}")


class Server:
    """Serves one home. `start` returns the address, `stop` is allowed twice."""

    def __init__(  # noqa: PLR0913 - where it listens, under which names and behind which proxies
        self, home: Path, live: LiveLab, host: str = "127.0.0.1", port: int = 0, names: Sequence[str] = (),
        proxies: Sequence[str] = (), *, example: bool = False,
    ) -> None:  # fmt: skip
        """Serve `home` on `host`.

        Args:
            home: folder of the lab.
            live: the lab that the pages show.
            host: address to listen on.
            port: 0 for any free port.
            names: further host names under which it is served.
            proxies: addresses of the proxies whose X-Forwarded-For is believed. Without any, no request can choose the
                address under which its failed sign-ins are counted.
            example: whether `home` is the bundled example: every visitor reads it without signing in, none changes it.

        Raises:
            UsageError: a proxy is not a numeric address, or a name is no host name.
        """
        for option, name in (("--host", host), *(("--name", name) for name in names)):
            _check_host_name(option, name)
        self._proxies = [_proxy(address) for address in proxies]
        self._home = home
        self._live = live
        self._host = host
        self._port = port
        self._names = names
        self._example = example
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.address = ""
        self.setup_link = ""
        """Address for making the first admin; works once; empty when there is an admin. Show it only to the owner."""

    def start(self) -> str:
        """Listen and serve; returns the address, for example http://127.0.0.1:8421.

        Raises:
            UsageError: the host is not loopback, and no admin exists.
            TransportProblem: the port is in use, or the host is not an address of this machine.
        """
        secret = self._setup_secret()
        listener = _listen(self._host, self._port)
        here = socket.gethostname().lower() if self._host in EVERYWHERE else self._host
        shown = f"[{here}]" if ":" in here else here
        self.address = f"http://{shown}:{listener.getsockname()[1]}"
        # in the fragment, which browsers send to no server
        self.setup_link = f"{self.address}/setup#{secret}" if secret else ""
        serving = Serving(hosts=_hosts(self._host, self._names), address=self.address, example=self._example)
        app = create_app(self._home, self._live, serving)
        settings = uvicorn.Config(
            app, loop="asyncio", http="h11", log_config=None, access_log=False, ws="websockets-sansio",
            ws_max_size=64 * 1024, server_header=False, timeout_graceful_shutdown=1, timeout_keep_alive=20,
            limit_concurrency=2000, lifespan="on", proxy_headers=bool(self._proxies),
            forwarded_allow_ips=self._proxies,
        )  # fmt: skip
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="web", daemon=True
        )  # fmt: skip
        self._thread.start()
        self._wait_until_ready()
        return self.address

    def stop(self) -> None:
        """Close every connection and end the thread."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        server.should_exit = True
        thread.join(STOP_S)
        server.force_exit = True
        thread.join(STOP_S)
        self._server = self._thread = None

    def _setup_secret(self) -> str:
        if self._example:
            return ""
        accounts = Accounts(self._home / "web.db")
        try:
            if accounts.has_admin():
                return ""
            if not is_loopback(self._host):
                raise _no_admin(self._host)
            return accounts.mint_setup()
        finally:
            accounts.close()

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + START_S
        while self._server is not None and not self._server.started:
            if time.monotonic() > deadline_s or self._thread is None or not self._thread.is_alive():
                raise TransportProblem(
                    f"The web server did not start on {self.address} within {START_S:.0f} s; see the log."
                )
            time.sleep(0.01)


def require_host(home: Path, host: str) -> None:
    """Check that a home has an admin if the host is not loopback; makes no file.

    Raises:
        UsageError: it has none.
    """
    if not is_loopback(host) and not (home / "web.db").is_file():
        raise _no_admin(host)


def _no_admin(host: str) -> UsageError:
    return UsageError(
        f"This server has no admin yet, so it may not listen on {host}. "
        "Start it on 127.0.0.1, open the set-up link, then start it with this host."
    )


def _hosts(host: str, names: Sequence[str]) -> tuple[str, ...]:
    """Host names to serve: loopback, `host`, the name of this machine, its mDNS name, and the given names."""
    own = socket.gethostname().lower()
    return (*LOOPBACK, host.lower(), own, f"{own.partition('.')[0]}.local", *map(str.lower, names))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with an explicit protocol, asyncio sets TCP_NODELAY: answers do not wait 40 ms for an acknowledgement
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as problem:
        listener.close()
        raise TransportProblem(
            f"The web server cannot listen on {host}:{port} ({problem.strerror}); choose another --port."
        ) from problem
    return listener


def _proxy(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise UsageError(
            f"--proxy {address[:80]!r} is not the address of a proxy; write a numeric address such as 127.0.0.1."
        ) from None


def _check_host_name(option: str, name: str) -> None:
    if not _HOST_NAME.fullmatch(name):
        raise UsageError(
            f"{option} {name[:80]!r} is no host name and no address; write one such as lab.example.org or 127.0.0.1."
        )
