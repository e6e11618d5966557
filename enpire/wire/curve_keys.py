"""CURVE keys of the fleet: which stations may connect to the orchestrator from other machines, and how that is checked.

Every station has its own key pair. The orchestrator accepts only the public keys in its `allowed` folder; each file is
named after its station, and a station may use only the name of its key. ZeroMQ asks the `KeyAuthenticator` about every
connection and refuses the connection if it gets no reply.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import zmq
from zmq.utils import z85

from enpire.errors import FileProblem, UsageError
from enpire.ids import file_name
from enpire.store import durable

DOMAIN = b"enpire"
SERVER = "server"
"""Name of the orchestrator's own keys."""
_ZAP = "inproc://zeromq.zap.01"
_PRIVATE = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A CURVE key pair, 40 characters (Z85) for each key."""

    public: bytes
    secret: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptedBind:
    """Where an orchestrator listens with encryption."""

    address: str
    keys: Path
    """Folder of the orchestrator's keys (see `server_keys`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationKeys:
    """The keys that a station needs to connect to an orchestrator on another machine."""

    pair: KeyPair
    server: bytes
    """Public key of the orchestrator."""


def server_keys(folder: Path) -> KeyPair:
    """The orchestrator's own key pair, created at the first call in a file that only its owner can read."""
    path = folder / f"{SERVER}.secret"
    if not path.is_file():
        durable.make_folder(folder / "allowed")
        write_pair(path, _new_pair())
    return read_pair(path)


def enroll(folder: Path, station: str) -> Path:
    """Create a station's key pair and allow its public key; returns the file with the pair, to copy to the station.

    Delete the station's file in `allowed` to refuse it again.

    Raises:
        UsageError: the name is invalid, taken by the orchestrator, or enrolled already.
    """
    if station == SERVER:
        raise UsageError(f"A station cannot be named {SERVER!r}, like the orchestrator's keys; choose another name.")
    key_file = folder / "allowed" / f"{file_name(station, 'a station')}.public"
    if key_file.exists():
        raise UsageError(f"The station {station} is enrolled already; delete {key_file} to refuse its old key.")
    durable.make_folder(key_file.parent)
    pair, path = _new_pair(), folder / f"{file_name(station, 'a station')}.secret"
    write_pair(path, pair)
    durable.write(key_file, pair.public + b"\n")
    return path


def station_keys(key_file: Path, server_key: str) -> StationKeys:
    """The keys named in a station file, checked."""
    return StationKeys(pair=read_pair(key_file), server=_checked(server_key.encode(), "server_key of the station file"))


def read_pair(path: Path) -> KeyPair:
    """Read a key pair.

    Raises:
        FileProblem: the file is missing, is no key pair, or can be read by other users.
    """
    try:
        lines = path.read_bytes().split()
        mode = path.stat().st_mode
    except OSError as problem:
        raise FileProblem(f"The key file {path} cannot be read: {problem.strerror}.") from problem
    if mode & _PRIVATE:
        raise FileProblem(f"The key file {path} can be read by other users; run chmod 600 {path}.")
    if len(lines) != 2:
        raise FileProblem(f"The key file {path} must hold two lines, the public and the secret key.")
    return KeyPair(public=_checked(lines[0], str(path)), secret=_checked(lines[1], str(path)))


def allowed(folder: Path) -> Mapping[bytes, str]:
    """Raw public key (32 bytes) -> name of its station. The folder is read now: enrolling needs no restart."""
    found: dict[bytes, str] = {}
    for file in sorted((folder / "allowed").glob("*.public")):
        try:
            found[z85.decode(_checked(file.read_bytes().strip(), str(file)))] = file.stem
        except (FileProblem, OSError):
            continue  # a damaged key file allows no station
    return found


def _stamps(folder: Path) -> frozenset[tuple[str, int, int, int, int]]:
    """File attributes of the allowed keys; they change when a key is added, removed or rewritten."""
    with os.scandir(folder / "allowed") as entries:
        found = [(entry.name, entry.stat()) for entry in entries]
    return frozenset((name, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for name, at in found)


class KeyAuthenticator:
    """Decides for ZeroMQ (ZAP, RFC 27) which keys may connect. Poll its `socket` and call `decide`."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], folder: Path) -> None:
        self._folder = folder
        self._stamps: object = None
        self._keys: Mapping[bytes, str] = {}
        self.socket = context.socket(zmq.REP)
        self.socket.bind(_ZAP)

    def encrypt(self, router: zmq.Socket[bytes]) -> None:
        """Encrypt a socket before it is bound; from then on it accepts only connections that `decide` accepts."""
        pair = server_keys(self._folder)
        router.setsockopt(zmq.CURVE_SERVER, 1)
        router.setsockopt(zmq.CURVE_PUBLICKEY, pair.public)
        router.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
        router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def decide(self) -> str:
        """Accept or refuse one waiting connection; returns the reason of a refusal, empty if accepted."""
        frames = self.socket.recv_multipart(zmq.NOBLOCK)
        sequence = frames[1] if len(frames) > 1 else b""
        name = ""
        if len(frames) == 7 and frames[0] == b"1.0" and frames[2] == DOMAIN and frames[5] == b"CURVE":
            name = self._allowed().get(frames[6], "")
        code, text = (b"200", b"OK") if name else (b"400", b"not enrolled")
        self.socket.send_multipart([b"1.0", sequence, code, text, name.encode(), b""])
        where = frames[3].decode(errors="replace") if len(frames) > 3 else "an unknown address"
        return "" if name else f"A connection from {where} has a key that is not enrolled."

    def _allowed(self) -> Mapping[bytes, str]:
        """The allowed keys, read again only when a file has changed."""
        try:
            stamps = _stamps(self._folder)
        except OSError:
            return allowed(self._folder)  # the folder is changing now, or is missing
        if stamps != self._stamps:
            self._stamps, self._keys = stamps, allowed(self._folder)
        return self._keys


def encrypt(dealer: zmq.Socket[bytes], keys: StationKeys) -> None:
    """Encrypt a station's socket before it connects."""
    dealer.setsockopt(zmq.CURVE_SERVERKEY, keys.server)
    dealer.setsockopt(zmq.CURVE_PUBLICKEY, keys.pair.public)
    dealer.setsockopt(zmq.CURVE_SECRETKEY, keys.pair.secret)


def _new_pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(public=public, secret=secret)


def write_pair(path: Path, pair: KeyPair) -> None:
    """Write a key pair durably to a file that only its owner can read."""
    durable.write(path, pair.public + b"\n" + pair.secret + b"\n", mode=0o600)


def _checked(key: bytes, where: str) -> bytes:
    try:
        raw = z85.decode(key)
    except (ValueError, KeyError, IndexError) as problem:
        raise FileProblem(f"{where} is not a key; a key has 40 characters (Z85).") from problem
    if len(raw) != 32:
        raise FileProblem(f"{where} is not a key; a key has 40 characters (Z85).")
    return key
