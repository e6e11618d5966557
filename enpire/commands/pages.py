"""The web pages in this process, and `enpire serve`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Never, Protocol

import typer

from enpire.commands.installs import USER, To, User, install_serve
from enpire.commands.options import Home, log
from enpire.errors import MissingExtra, TransportProblem, UsageError

if TYPE_CHECKING:
    from enpire.home import Home as HomeFolder
    from enpire.service.watching import LiveLab


@dataclass(frozen=True, slots=True)
class Address:
    """Where the pages are served; by default for this machine only."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: PORT, or a free one where another program uses PORT."""
    names: tuple[str, ...] = ()
    """More host names under which the pages are reached."""
    proxies: tuple[str, ...] = ()
    """Addresses of the proxies whose X-Forwarded-For is believed."""
    example: bool = False
    """Whether the pages show the example: read-only, without signing in."""


PORT = 8000
"""Where the pages are, so that a tab and a bookmark still work after a restart."""
PORT_HELP = f"Port of the pages; 0 uses a free one. Default: {PORT}, or a free one where another program uses it."
Host = Annotated[str, typer.Option(help="Address to listen on; keep it on the loopback.")]
Port = Annotated[int | None, typer.Option(help=PORT_HELP, min=0, max=65535, show_default=False)]


class PageServer(Protocol):
    """The web server, as `web_ui` gives it."""

    address: str
    """Where the pages are, once `start` returned."""
    setup_link: str
    """Where the first admin is made; empty when there is one."""

    def start(self) -> str:
        """Listen; returns the address to open."""
        ...

    def stop(self) -> None:
        """Close the sockets."""


def add_to(app: typer.Typer) -> None:
    """Register the subcommand."""
    app.command()(serve)


def serve(  # noqa: PLR0913 - the options of a subcommand are its parameters
    word: Annotated[
        str, typer.Argument(help="The word `install`: what systemd needs to serve them.", metavar="[install]")
    ] = "",
    home: Home = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Another host name of this server; the option may be repeated.")
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address of a proxy whose X-Forwarded-For is believed; the option may be repeated."),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Show a recorded campaign that comes with ENPIRE, read-only.")
    ] = False,
    to: To = None,
    user: User = USER,
) -> None:
    """Serve the web pages and the API of a home until Ctrl-C, also while a campaign runs there."""
    if word:
        _install(word, home, host, port, to, user)
        return
    if to is not None or user != USER:
        raise UsageError("--to and --user are for `enpire serve install`.")
    at = Address(host, port, tuple(name or ()), tuple(proxy or ()), example)
    if example:
        _serve_example(home, at)
        return
    from enpire.home import open_home, require_home
    from enpire.service.running import migrate_ledger
    from enpire.service.watching import LiveFileReader, LiveLab

    folder = open_home(require_home(home))
    migrate_ledger(folder)
    live = LiveLab(folder)
    with LiveFileReader(folder, live), served_pages(folder, live, at):
        wait_for_ctrl_c()


def _install(word: str, home: Path | None, host: str, port: int | None, to: Path | None, user: str) -> None:  # noqa: PLR0913
    from enpire.home import find_home

    if word != "install":
        raise UsageError(f"`enpire serve {word}` is no command; did you mean `enpire serve install`?")
    install_serve(find_home(home), host, PORT if port is None else port, to, user)


def _serve_example(home: Path | None, at: Address) -> None:
    """Serve the example until Ctrl-C. Its folder is removed then."""
    from enpire.service.example import example_home
    from enpire.service.watching import LiveLab

    if home is not None:
        raise UsageError("--example shows the recorded campaign of ENPIRE, not a home: leave out --home or --example.")
    with example_home() as folder:
        live = LiveLab(folder)
        live.update(None)
        log("This is a recorded campaign, read-only; `enpire demo` runs one on this machine.")
        with suppress(KeyboardInterrupt), served_pages(folder, live, at, show=True):
            wait_for_ctrl_c()


def wait_for_ctrl_c() -> Never:
    """Wait for ever; KeyboardInterrupt ends it."""
    while True:
        time.sleep(3600)


def follow_home(home: HomeFolder, live: LiveLab) -> None:
    """Keep the pages up to date with the campaigns of other processes until Ctrl-C."""
    from enpire.service.watching import LiveFileReader

    live.detach()
    with LiveFileReader(home, live), suppress(KeyboardInterrupt):
        wait_for_ctrl_c()


def require_pages(home: Path, at: Address) -> None:
    """Check what can be wrong with the address of the pages, before a home is made.

    Raises:
        UsageError: the pages may not be served there.
    """
    from enpire.parts import PartGroup

    pages: PartGroup[[Path, str], None] = PartGroup("pages")
    with suppress(MissingExtra):
        pages.load("web_ui.server:require_host")(home, at.host)


@contextmanager
def served_pages(home: HomeFolder, live: LiveLab, at: Address, *, show: bool = False) -> Generator[str]:
    """Serve the web pages while entered; gives their address, empty without their package.

    Args:
        home: of the lab.
        live: the lab that the pages show.
        at: where to listen.
        show: whether to open them in a browser, where there is a screen.

    Raises:
        EnpireError: the pages cannot be served there.
    """
    from enpire.parts import PartGroup

    group: PartGroup[..., PageServer] = PartGroup("pages")
    try:
        server = group.load("web_ui.server:Server")
    except MissingExtra as problem:
        log(f"No web page: {problem}")
        yield ""
        return
    import webbrowser

    from enpire.service.starting import QueueRunner

    def opened(port: int) -> PageServer:
        made = server(home.root, live, host=at.host, port=port, names=at.names, proxies=at.proxies, example=at.example)
        made.start()
        return made

    try:
        pages = opened(PORT if at.port is None else at.port)
    except TransportProblem:
        if at.port is not None:
            raise
        log(f"Another program uses port {PORT}, so the page has a free one; --port chooses it.")
        pages = opened(0)
    log(f"Page: {pages.setup_link or pages.address}")
    try:
        if show and _has_screen():
            webbrowser.open(pages.setup_link or pages.address)
        with nullcontext() if at.example else QueueRunner(home, log):
            yield pages.address
    finally:
        pages.stop()


def _has_screen() -> bool:
    """Whether a browser can open on the screen of the person who typed the command."""
    return sys.stderr.isatty() and (sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)))
