"""The address of the chat that gets a message when an operator is needed: a secret in one file of the home.

A second line of the file, if there is one, is the address under which the admin who set it reached the page.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from enpire.errors import UsageError
from enpire.store import durable, removal

NAME = "webhook"
"""Name of the file with the address in the home."""
LONGEST = 2000
"""Most characters of an address."""


def read_address(home: Path) -> str:
    """The address of the chat; empty if none is set."""
    return _line(home, 0)


def read_page(home: Path) -> str:
    """The address under which the admin who set the webhook reached the page; empty if it is not known."""
    return _line(home, 1)


def _line(home: Path, number: int) -> str:
    try:
        lines = (home / NAME).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return lines[number].strip() if number < len(lines) else ""


def keep_address(home: Path, address: str, page: str = "") -> None:
    """Keep an address, readable by the owner of the home only; an empty one removes it.

    Args:
        home: folder of the lab.
        address: of the chat.
        page: address of the page for the links in messages, one line; empty for the one that the server prints.

    Raises:
        UsageError: it is no http or https address.
        EnpireError: the disk refuses it.
    """
    if not address:
        if (home / NAME).exists():
            removal.remove(home / NAME, home)
        return
    parts = urlsplit(address) if len(address) <= LONGEST and address.isprintable() else urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in address:
        raise UsageError("The address of a webhook begins with https:// (or http://) and names a host; copy it again.")
    durable.write(home / NAME, "\n".join((address, page)).encode(), mode=0o600)
