"""The web pages in this process, and `enpire serve`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from enpire.commands.options import Home, log
from enpire.errors import MissingExtra

if TYPE_CHECKING:
    from enpire.home import Home as HomeFolder
    from enpire.service.watching import LiveLab


@dataclass(frozen=True, slots=True)
class Address:
    """Where the pages are served; by default on a free port, for this machine only."""

    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    """More host names under which the pages are reached."""
    proxies: tuple[str, ...] = ()
    """Addresses of the proxies whose X-Forwarded-For is believed."""


class PageServer(Protocol):
    """The web server, as `web_ui` gives it."""

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


def serve(
    home: Home = None,
    host: Annotated[str, typer.Option(help="Address to listen on; keep it on the loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the pages; 0 uses a free one.", min=0, max=65535)] = 8000,
    name: Annotated[
        list[str] | None, typer.Option(help="Another host name of this server; the option may be repeated.")
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address of a proxy whose X-Forwarded-For is believed; the option may be repeated."),
    ] = None,
) -> None:
    """Serve the web pages and the API of a home until Ctrl-C, also while a campaign runs there."""
    from enpire.home import open_home, require_home
    from enpire.service.running import migrate_ledger
    from enpire.service.watching import LiveFileReader, LiveLab

    folder = open_home(require_home(home))
    migrate_ledger(folder)
    live = LiveLab(folder)
    at = Address(host, port, tuple(name or ()), tuple(proxy or ()))
    with LiveFileReader(folder, live), served_pages(folder, live, at):
        while True:
            time.sleep(3600)


@contextmanager
def served_pages(home: HomeFolder, live: LiveLab, at: Address, *, show: bool = False) -> Generator[None]:
    """Serve the web pages while entered; without their package, print that and serve nothing.

    Args:
        home: of the lab.
        live: the lab that the pages show.
        at: where to listen.
        show: whether to open them in a browser, where there is a screen.
    """
    from enpire.parts import PartGroup

    group: PartGroup[..., PageServer] = PartGroup("pages")
    try:
        server = group.load("web_ui.server:Server")
    except MissingExtra as problem:
        log(f"No web page: {problem}")
        yield
        return
    import webbrowser

    pages = server(home.root, live, host=at.host, port=at.port, names=at.names, proxies=at.proxies)
    address = pages.start()
    log(f"Page: {pages.setup_link or address}")
    try:
        if show and _has_screen():
            webbrowser.open(pages.setup_link or address)
        yield
    finally:
        pages.stop()


def _has_screen() -> bool:
    """Whether a browser can open on the screen of the person who typed the command."""
    return sys.stderr.isatty() and (sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)))
