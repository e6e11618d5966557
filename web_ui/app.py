"""The application: the API under /api/v1 with its WebSocket, the page, /metrics and /healthz."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from enpire.home import Home
from web_ui import problems
from web_ui.accounts import Accounts
from web_ui.archive import Archive
from web_ui.attempts import Attempts
from web_ui.commands import CommandTracker
from web_ui.hub import Hub
from web_ui.live import LiveLab
from web_ui.openapi import Application
from web_ui.request_guard import LOOPBACK, RequestGuard
from web_ui.routes import (
    authored_tasks,
    campaigns,
    commands,
    episodes,
    failures,
    fleet,
    metrics,
    page,
    sessions,
    socket,
    starting,
    stills,
    takeover,
    users,
    webhook,
)
from web_ui.stills import Stills
from web_ui.webhook import Webhook

API = "/api/v1"
ABOUT = "Watch and command a fleet of robots that improve their own policy. Errors are application/problem+json."


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the application is served."""

    hosts: tuple[str, ...] = LOOPBACK
    """Host names under which it is served. A request for another name is refused (DNS rebinding)."""
    static: Path = page.BUILT
    """The folder of the built page."""
    address: str = ""
    """Address of the page, for links in messages; empty for none."""
    example: bool = False
    """Whether the home is the bundled example: every visitor reads it, none changes it."""


def create_app(home: Path, live: LiveLab, serving: Serving | None = None) -> FastAPI:
    """The application for one home folder and the lab that runs in it."""
    chosen = serving or Serving()
    app = Application(
        title="ENPIRE", version="1", description=ABOUT, lifespan=_life, openapi_url=f"{API}/openapi.json",
        docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.accounts = Accounts(home / "web.db")
    app.state.attempts = Attempts()
    app.state.home = Home(home)
    app.state.live = live
    app.state.example = chosen.example
    app.state.static = chosen.static
    app.state.archive = Archive(home)
    app.state.commands = CommandTracker(live)
    app.state.stills = Stills(live)
    app.state.webhook = Webhook(home, app.state.stills, chosen.address)
    app.state.holders = takeover.Holders()
    app.state.hub = Hub(live, app.state.commands, app.state.archive, app.state.webhook.show, app.state.holders.name)
    app.state.replaying = threading.Lock()
    app.state.command_pool = ThreadPoolExecutor(4, thread_name_prefix="command")
    for part in (
        sessions, users, commands, fleet, campaigns, starting, authored_tasks, episodes, failures, socket, takeover,
        webhook,
    ):  # fmt: skip
        app.include_router(part.router, prefix=API)
    app.include_router(fleet.health_router)
    app.include_router(metrics.router)
    app.include_router(stills.router)
    app.include_router(page.router)
    problems.install(app)
    app.add_middleware(RequestGuard, hosts=chosen.hosts, read_only=chosen.example)
    return app


@contextlib.asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    following = asyncio.create_task(app.state.hub.run())
    following.add_done_callback(_log_failure)
    app.state.webhook.start()
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        app.state.webhook.stop()
        app.state.command_pool.shutdown(wait=False, cancel_futures=True)
        app.state.accounts.close()


def _log_failure(following: asyncio.Task[None]) -> None:
    """Log why the hub stopped; the page then shows old data as stale."""
    if not following.cancelled() and following.exception() is not None:
        logging.getLogger("enpire.web").error(
            "The web server stopped following the lab.", exc_info=following.exception()
        )
