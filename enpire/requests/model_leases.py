"""Model leases: tokens with which agent sessions call the model gateway instead of holding the key of a provider.

The session makes the token and gives it to its room. The home holds only the token's hash, as the name of a file. A new
lease of a session ends its older ones.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem
from enpire.files import canonical, parse
from enpire.requests.file_queue import names_in
from enpire.store import durable, removal

PREFIX = "enpire-lease-"
"""Beginning of every token, so that a person who finds one knows what it is."""
MOST = 4096
"""Leases of one home that one look reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """What agent sessions may spend on language models; 0 is unlimited."""

    tokens: int = 0
    money: float = 0.0
    """In the currency of the price file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLease:
    """Who may call language models, and what that may cost."""

    campaign_id: str
    author: str
    """Plug-in name of the agent."""
    lane: str
    """Name of the agent session."""
    providers: tuple[str, ...]
    """Providers that the session may call."""
    own: ModelLimits
    """Limits of this session in its campaign."""
    shared: ModelLimits
    """Limits of all sessions of the campaign together."""


@dataclass(frozen=True, slots=True)
class ModelLeases:
    """The leases of one home."""

    home: Path

    def grant(self, lease: ModelLease) -> str:
        """A token for this lease; older leases of the same session end."""
        self.end(lease)
        token = PREFIX + secrets.token_urlsafe(32)
        durable.make_folder(self._folder)
        durable.write(self._path(token), canonical(lease).encode(), mode=0o600)
        return token

    def end(self, lease: ModelLease) -> None:
        """End all leases of a session."""
        for path in names_in(self._folder, MOST):
            found = _read(path)
            if found and (found.campaign_id, found.lane) == (lease.campaign_id, lease.lane):
                removal.remove(path, self._folder)

    def find(self, token: str) -> ModelLease | None:
        """The lease of a token; None if there is none or it has ended."""
        return _read(self._path(token))

    @property
    def _folder(self) -> Path:
        return self.home / "agents" / ".model-leases"

    def _path(self, token: str) -> Path:
        return self._folder / f"{hashlib.sha256(token.encode(errors='replace')).hexdigest()}.json"


def _read(path: Path) -> ModelLease | None:
    try:
        return parse(ModelLease, json.loads(path.read_bytes()), f"The model lease {path.name}")
    except (FileProblem, OSError, ValueError):
        return None
