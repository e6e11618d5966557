"""The chat that gets a message when an operator is needed: its address is a secret, in one file of the home.

Lines of the file: the address; the address under which the admin who set it reached the page; `images`, if an admin has
allowed that live images are sent.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from enpire.errors import UsageError
from enpire.store import durable, removal

NAME = "webhook"
"""Name of the file in the home."""
LONGEST = 2000
"""Most characters of an address."""
IMAGES = "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """What admins have set."""

    address: str = ""
    """Of the chat; empty if none is set."""
    page: str = ""
    """Address under which the admin who set the webhook reached the page; empty if it is not known."""
    images: bool = False
    """Whether live images may be sent."""


def read_webhook(home: Path) -> WebhookSettings:
    """The settings of a home; those of no webhook where the file is missing, damaged or names no chat."""
    try:
        lines = [line.strip() for line in (home / NAME).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return WebhookSettings()
    address, page, images = (*lines, "", "", "")[:3]
    if _why_not(address):
        return WebhookSettings()
    return WebhookSettings(address=address, page=_site(page), images=images == IMAGES)


def keep_webhook(home: Path, settings: WebhookSettings) -> None:
    """Keep the settings, readable by the owner of the home only; an empty address removes them.

    Raises:
        UsageError: the address is no http or https address of a chat.
        EnpireError: the disk refuses it.
    """
    if not settings.address:
        if (home / NAME).exists():
            removal.remove(home / NAME, home)
        return
    if why := _why_not(settings.address):
        raise UsageError(why)
    lines = (settings.address, _site(settings.page), IMAGES if settings.images else "")
    durable.write(home / NAME, "\n".join(lines).encode(), mode=0o600)


def _why_not(address: str) -> str:
    """Why an address is none of a chat; empty if it can be one."""
    wrong = "The address of a webhook begins with https:// (or http://) and names a host; copy it again."
    if len(address) > LONGEST or not address.isascii() or not address.isprintable() or " " in address:
        return wrong
    try:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            return wrong
    except ValueError:
        return wrong
    try:
        host = ipaddress.ip_address(parts.hostname)
    except ValueError:
        return ""
    if host.is_link_local or host.is_multicast or host.is_unspecified:
        return (
            f"{host} is the address of no chat (link-local, multicast or unspecified); copy the chat's address again."
        )
    return ""


def _site(address: str) -> str:
    """Scheme and host of an address of the page; empty if it is none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    good = parts.scheme in ("http", "https") and parts.netloc.isascii() and not set("<>|@ ") & set(parts.netloc)
    return f"{parts.scheme}://{parts.netloc}" if good and parts.hostname else ""
