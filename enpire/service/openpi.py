"""openpi's WebSocket protocol: a policy of a server elsewhere as a version here, a version here for its clients."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import TransportProblem
from enpire.home import Home
from enpire.parts import TASKS
from enpire.policy_server.openpi_policy import OpenpiChoices, OpenpiVersion, connect_version, save
from enpire.policy_server.openpi_server import OpenpiServer, ServedPolicy
from enpire.store import durable, versions
from enpire.store.load_version import AllowedKinds, load_version, require_horizon

__all__ = ["OpenpiChoices", "OpenpiOptions", "OpenpiServer", "OpenpiVersion", "connect_policy", "open_openpi_server"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenpiOptions:
    """What is served, and where."""

    bind: str
    """HOST:PORT."""
    folder: Path
    """Of the version."""
    task: str
    kinds: Sequence[str] = ()
    """Kinds "module:name" of versions that are loaded besides the installed kinds."""


def connect_policy(home: Home, choices: OpenpiChoices, task: str) -> tuple[str, OpenpiVersion]:
    """Make the policy of an openpi server a version of the home; its id and contents.

    Raises:
        EnpireError: there is no such task, the server does not answer, or its actions do not fit the task.
    """
    version = connect_version(choices, TASKS.make(task).spec)
    with tempfile.TemporaryDirectory() as made:
        save(version, Path(made))
        return versions.publish(Path(made), home.versions), version


def open_openpi_server(
    home: Home, options: OpenpiOptions, log: Callable[[str], None]
) -> tuple[OpenpiServer, Path | None]:
    """A server for openpi's clients, and the file with the API key that clients must send; None where none is needed.

    Raises:
        EnpireError: the version cannot be loaded, or the server cannot listen there.
    """
    host, separator, port = options.bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise TransportProblem(f"{options.bind[:80]!r} is no address; write HOST:PORT, such as 127.0.0.1:8000.")
    spec = TASKS.make(options.task).spec
    allowed = AllowedKinds(kinds=options.kinds, where="repeat this with --allow-kind")
    policy_id = versions.identify(options.folder)
    policy = load_version(options.folder, policy_id, allowed)
    require_horizon(policy)
    path = None if host in LOOPBACK else home.keys / "openpi.key"
    key = _kept_key(path) if path is not None else ""
    return OpenpiServer(
        ServedPolicy(policy=policy, policy_id=policy_id, spec=spec, key=key), host, int(port), log
    ), path


def _kept_key(path: Path) -> str:
    if not path.is_file():
        durable.make_folder(path.parent)
        durable.write(path, secrets.token_urlsafe(32).encode(), mode=0o600)
    return path.read_text(encoding="ascii").strip()
