"""The web server in a thread of its own, beside the orchestrator or alone."""

from __future__ import annotations

import ipaddress
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
from web_ui.request_guard import EVERYWHERE, LOOPBACK

START_S = 20.0
STOP_S = 5.0


class Server:
    """Serves one home. `start` returns the address, `stop` is allowed twice."""

    def __init__(
        self, home: Path, live: LiveLab, host: str = "127.0.0.1", port: int = 0, names: Sequence[str] = ()
    ) -> None:
        """Serve `home` on `host`; `names` are host names under which it is reached beside those of this machine."""
        self._home = home
        self._live = live
        self._host = host
        self._port = port
        self._names = names
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.address = ""
        self.setup_link = ""
        """Where the first admin is made; works once, empty when there is an admin. Show it only to the owner."""

    def start(self) -> str:
        """Listen and serve. Returns the address, such as http://127.0.0.1:8421.

        Raises:
            UsageError: another host than loopback before an admin exists.
            TransportProblem: the port is in use or the host is not ours.
        """
        secret = self._setup_secret()
        listener = _listen(self._host, self._port)
        here = socket.gethostname().lower() if self._host in EVERYWHERE else self._host
        shown = f"[{here}]" if ":" in here else here
        self.address = f"http://{shown}:{listener.getsockname()[1]}"
        # in the fragment: browsers neither send it nor pass it on to another page
        self.setup_link = f"{self.address}/setup#{secret}" if secret else ""
        app = create_app(self._home, self._live, Serving(hosts=_hosts(self._host, self._names)))
        settings = uvicorn.Config(
            app, log_config=None, access_log=False, ws="websockets-sansio", ws_max_size=64 * 1024, server_header=False,
            timeout_graceful_shutdown=1, timeout_keep_alive=20, limit_concurrency=2000, lifespan="on",
        )  # fmt: skip
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="web", daemon=True
        )  # fmt: skip
        self._thread.start()
        self._wait_until_it_serves()
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
        accounts = Accounts(self._home / "web.db")
        try:
            if accounts.has_admin():
                return ""
            if not _is_loopback(self._host):
                raise UsageError(
                    f"This server has no admin yet, so it may not listen on {self._host}: "
                    "start it on 127.0.0.1, open the set-up link, then start it here."
                )
            return accounts.mint_setup()
        finally:
            accounts.close()

    def _wait_until_it_serves(self) -> None:
        deadline_s = time.monotonic() + START_S
        while self._server is not None and not self._server.started:
            if time.monotonic() > deadline_s or self._thread is None or not self._thread.is_alive():
                raise TransportProblem(f"The web server did not start on {self.address}; see the log for the cause.")
            time.sleep(0.01)


def _hosts(host: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names of this machine: its own, the one it has in the local network (mDNS), and the given ones."""
    own = socket.gethostname().lower()
    return (*LOOPBACK, host.lower(), own, f"{own.partition('.')[0]}.local", *map(str.lower, names))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol named, asyncio turns Nagle off: an answer does not wait 40 ms for the acknowledgement
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


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
