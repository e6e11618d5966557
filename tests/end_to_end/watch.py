"""What a page must not do, noted while a test looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Page


@dataclass(slots=True)
class Watch:
    """Everything that a page must not do."""

    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def follow(self, page: Page) -> None:
        """Note errors of the console, uncaught exceptions, and every host that is asked for something."""
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url.removeprefix("blob:")).hostname or ""))
        page.on("websocket", lambda socket: self.hosts.add(urlsplit(socket.url).hostname or ""))
