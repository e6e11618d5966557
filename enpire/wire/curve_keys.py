"""Keys of the fleet: who may speak to the orchestrator from another machine, and how that is checked.

Every station has a key pair of its own. The orchestrator lets in only keys that lie in its `allowed` folder, each
under its station's name, and a station may only use the name of its key. Nobody is let in when the check itself
cannot be done: ZeroMQ asks the `KeyAuthenticator` for every connection and refuses without its answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import zmq
from zmq.utils import z85

from enpire.errors import FileProblem, UsageError
from enpire.fields import is_identifier
from enpire.store import durable

DOMAIN = b"enpire"
_ZAP = "inproc://zeromq.zap.01"
_PRIVATE = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A CURVE key pair, each half 40 letters (Z85)."""

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
    """What a station needs to speak to an orchestrator on another machine."""

    pair: KeyPair
    server: bytes
    """Public key of the orchestrator."""


def server_keys(folder: Path) -> KeyPair:
    """The orchestrator's own pair, made at the first call; the secret half is readable by its owner only."""
    path = folder / "server.secret"
    if not path.is_file():
        durable.make_folder(folder / "allowed")
        write_pair(path, _new_pair())
    return read_pair(path)


def enroll(folder: Path, station: str) -> Path:
    """Let a station in: its new public key goes to `allowed`; the file with its pair is returned, to be carried to it.

    UsageError when the name cannot be one or is enrolled already; delete its file in `allowed` to bar it.
    """
    if not is_identifier(station):
        raise UsageError(f"{station!r} cannot be the name of a station: letters, digits and . - _ : only.")
    card = folder / "allowed" / f"{station}.public"
    if card.exists():
        raise UsageError(f"The station {station} is enrolled already; delete {card} to bar its old key first.")
    durable.make_folder(card.parent)
    pair, path = _new_pair(), folder / f"{station}.secret"
    write_pair(path, pair)
    durable.write(card, pair.public + b"\n")
    return path


def station_keys(key_file: Path, server_key: str) -> StationKeys:
    """What a station file says about keys, checked."""
    return StationKeys(pair=read_pair(key_file), server=_checked(server_key.encode(), "server_key of the station file"))


def read_pair(path: Path) -> KeyPair:
    """A pair from its file; FileProblem when others may read it or it is not one."""
    try:
        lines = path.read_bytes().split()
        mode = path.stat().st_mode
    except OSError as problem:
        raise FileProblem(f"The key file {path} cannot be read: {problem.strerror}.") from problem
    if mode & _PRIVATE:
        raise FileProblem(f"The key file {path} may be read by others; allow only its owner: chmod 600 {path}.")
    if len(lines) != 2:
        raise FileProblem(f"The key file {path} must hold two lines, the public and the secret key.")
    return KeyPair(public=_checked(lines[0], str(path)), secret=_checked(lines[1], str(path)))


def allowed(folder: Path) -> Mapping[bytes, str]:
    """Raw public key -> name of the station that it belongs to, read anew so that enrolling needs no restart."""
    found: dict[bytes, str] = {}
    for card in sorted((folder / "allowed").glob("*.public")):
        try:
            found[z85.decode(_checked(card.read_bytes().strip(), str(card)))] = card.stem
        except (FileProblem, OSError):
            continue  # a damaged card lets nobody in
    return found


def _stamps(folder: Path) -> frozenset[tuple[str, int, int, int, int]]:
    """What changes when a card comes, goes or is written anew."""
    with os.scandir(folder / "allowed") as entries:
        found = [(entry.name, entry.stat()) for entry in entries]
    return frozenset((name, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for name, at in found)


class KeyAuthenticator:
    """Answers ZeroMQ's question (ZAP, RFC 27) whether a key may come in. Poll its `socket` and call `answer`."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], folder: Path) -> None:
        self._folder = folder
        self._stamps: object = None
        self._cards: Mapping[bytes, str] = {}
        self.socket = context.socket(zmq.REP)
        self.socket.bind(_ZAP)

    def guard(self, router: zmq.Socket[bytes]) -> None:
        """Encrypt a socket before it is bound; without this doorkeeper it lets in nobody."""
        pair = server_keys(self._folder)
        router.setsockopt(zmq.CURVE_SERVER, 1)
        router.setsockopt(zmq.CURVE_PUBLICKEY, pair.public)
        router.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
        router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def answer(self) -> str:
        """Decide on one connection that waits; the refusal for the log, empty when it was let in."""
        frames = self.socket.recv_multipart(zmq.NOBLOCK)
        sequence = frames[1] if len(frames) > 1 else b""
        name = ""
        if len(frames) == 7 and frames[0] == b"1.0" and frames[2] == DOMAIN and frames[5] == b"CURVE":
            name = self._allowed().get(frames[6], "")
        code, text = (b"200", b"OK") if name else (b"400", b"not enrolled")
        self.socket.send_multipart([b"1.0", sequence, code, text, name.encode(), b""])
        where = frames[3].decode(errors="replace") if len(frames) > 3 else "somewhere"
        return "" if name else f"A connection from {where} has a key that is not enrolled."

    def _allowed(self) -> Mapping[bytes, str]:
        """The cards as they are now; read only when one has changed."""
        try:
            stamps = _stamps(self._folder)
        except OSError:
            return allowed(self._folder)  # it changes at this moment, or is not there
        if stamps != self._stamps:
            self._stamps, self._cards = stamps, allowed(self._folder)
        return self._cards


def encrypt(dealer: zmq.Socket[bytes], keys: StationKeys) -> None:
    """Encrypt a station's socket before it connects."""
    dealer.setsockopt(zmq.CURVE_SERVERKEY, keys.server)
    dealer.setsockopt(zmq.CURVE_PUBLICKEY, keys.pair.public)
    dealer.setsockopt(zmq.CURVE_SECRETKEY, keys.pair.secret)


def _new_pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(public=public, secret=secret)


def write_pair(path: Path, pair: KeyPair) -> None:
    """Keep a pair where only its owner may read it."""
    # Private before the secret is in it: an empty file with the right mode first, then the content in its place.
    durable.write(path, b"")
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(pair.public + b"\n" + pair.secret + b"\n")
    durable.sync(path.parent)


def _checked(key: bytes, where: str) -> bytes:
    try:
        raw = z85.decode(key)
    except (ValueError, KeyError, IndexError) as problem:
        raise FileProblem(f"{where} is not a key: a key is 40 letters (Z85).") from problem
    if len(raw) != 32:
        raise FileProblem(f"{where} is not a key: a key is 40 letters (Z85).")
    return key
