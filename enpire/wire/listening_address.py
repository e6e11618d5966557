"""Where the orchestrator listens, whether peers need a key there, and how its own stations get one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from enpire.errors import TransportProblem
from enpire.ids import file_name
from enpire.wire.curve_keys import EncryptedBind, enroll, server_keys
from enpire.wire.private_socket import is_private, private_address


def stays_here(address: str) -> bool:
    """Whether no other machine can reach an address: a private socket, or the loopback.

    Raises:
        TransportProblem: it is no address.
    """
    if is_private(address):
        return True
    try:
        parts = urlsplit(address.removesuffix(":*"))
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        raise TransportProblem(f"{address[:80]!r} is no address ({problem}); write tcp://HOST:PORT.") from problem
    if parts.scheme != "tcp" or not host:
        raise TransportProblem(f"{address[:80]!r} is no address; write tcp://HOST:PORT.")
    return host in ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAddress:
    """Where stations reach an orchestrator."""

    private: str
    """For the stations that it starts on this machine: they need no key."""
    public: str = ""
    """For stations with keys; empty if the orchestrator takes none."""


def listening_address(bind: str, keys: Path) -> str | EncryptedBind:
    """The address of a private socket itself; any other address with the keys that it needs.

    Args:
        bind: tcp://ADDRESS:PORT, or ipc:///FOLDER/NAME in a folder that only this user can enter. Empty: a private
            socket in the home of the keys.
        keys: folder of the lab's keys.
    """
    if not bind:
        return private_address(keys.parent, "fleet")
    stays_here(bind)  # refuses what is no address
    return bind if is_private(bind) else EncryptedBind(address=bind, keys=keys)


def station_key(address: str, keys: Path, station: str) -> tuple[Path | None, str]:
    """(key file, server key) of a station that the campaign starts itself; (None, "") at a private socket."""
    if is_private(address):
        return None, ""
    key_file = keys / f"{file_name(station, 'a station')}.secret"
    return key_file if key_file.is_file() else enroll(keys, station), server_keys(keys).public.decode("ascii")


def local_address(address: str) -> str:
    """The address by which a process on this machine reaches an orchestrator that listens on all interfaces."""
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
