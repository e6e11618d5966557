"""Where the orchestrator listens, whether peers need a key there, and how its own stations get one."""

from __future__ import annotations

from pathlib import Path

from enpire.wire.curve_keys import EncryptedBind, enroll, server_keys
from enpire.wire.zmq_link import stays_here


def listening_address(bind: str, keys: Path) -> str | EncryptedBind:
    """The address itself if it is local; otherwise an encrypted address that accepts only enrolled keys.

    Args:
        bind: from the campaign file, tcp://ADDRESS:PORT.
        keys: folder of the lab's keys.
    """
    return bind if stays_here(bind) else EncryptedBind(address=bind, keys=keys)


def station_key(address: str, keys: Path, station: str) -> tuple[Path | None, str]:
    """(key file, server key) of a station that the campaign starts itself; (None, "") where no encryption is used."""
    if stays_here(address):
        return None, ""
    key_file = keys / f"{station}.secret"
    return key_file if key_file.is_file() else enroll(keys, station), server_keys(keys).public.decode("ascii")


def local_address(address: str) -> str:
    """The address by which a process on this machine reaches an orchestrator that listens on all interfaces."""
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
