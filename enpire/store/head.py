"""The head of the ledger's chain (number and hash of the last event), and what vouches for it.

* The table `head_hmac` holds an HMAC over the head, keyed by the lab's secret and written with every commit. Without
  the secret, events can therefore neither be removed nor rewritten with a new chain.
* The file `ledger.head` next to the ledger repeats the head with its HMAC, a few seconds later. An older copy of the
  ledger in place of the newest one therefore shows.
* An operator can keep a head elsewhere, as one line of text: `enpire ledger head --out FILE`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from enpire.errors import EnpireError, LedgerProblem, UsageError
from enpire.store import durable

SCHEMA = (
    "CREATE TABLE head_hmac (one INTEGER PRIMARY KEY CHECK (one = 1), since INTEGER NOT NULL, hmac TEXT NOT NULL) "
    "STRICT"
)
EVERY_S = 5.0
"""Shortest time between two writes of the head file, in seconds. Every close writes it too."""
_TEXT = re.compile(r"(\d{1,18}):([0-9a-f]{64})?")


@dataclass(frozen=True, slots=True)
class Head:
    """Number and hash of the last event of a chain; (0, "") for a chain without events."""

    seq: int
    hash: str

    def __str__(self) -> str:
        """The head as one word, SEQUENCE:HASH."""
        return f"{self.seq}:{self.hash}"


def parse_head(text: str) -> Head:
    """The head in a text SEQUENCE:HASH; UsageError when it is none."""
    found = _TEXT.fullmatch(text.strip())
    head = Head(int(found[1]), found[2] or "") if found else None
    if head is None or (head.seq == 0) != (head.hash == ""):
        raise UsageError(
            f"{text.strip()[:90]!r} is no head of a ledger: write SEQUENCE:HASH with 64 hexadecimal digits, as "
            "`enpire ledger head` prints it."
        )
    return head


def write_head(head: Head, path: Path) -> None:
    """Write a head to a new file, as one line SEQUENCE:HASH, which a time-stamping service can stamp.

    Raises:
        UsageError: the file exists.
        FileProblem, StorageFull: the disk refuses it.
    """
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already: name a new file for the head.")
    durable.write(path.absolute(), f"{head}\n".encode())


def head_hmac(secret: bytes, head: Head, since: int) -> str:
    """The HMAC-SHA256 over a head and over the number of events that were written before heads had one."""
    return keyed_hmac(secret, b"ledger head", f"{since}\n{head.seq}\n{head.hash}")


def keyed_hmac(secret: bytes, purpose: bytes, text: str) -> str:
    """The HMAC-SHA256 of a text under a key that is derived from a lab's secret for one purpose."""
    key = hmac.digest(secret, purpose, hashlib.sha256)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def same_hmac(one: str, other: str) -> bool:
    """Whether two HMACs are equal."""
    return hmac.compare_digest(one.encode(), other.encode())


@dataclass(slots=True)
class HeadFile:
    """The file `ledger.head` of one ledger: its head as it was a few seconds ago, with the HMAC."""

    ledger: Path
    _written_s: float = field(default=float("-inf"), init=False)

    @property
    def path(self) -> Path:
        """`ledger.head` next to `ledger.db`."""
        return self.ledger.with_suffix(".head")

    def read(self) -> SignedHead | None:
        """The head in the file; None when there is no file.

        Raises:
            LedgerProblem: the file is not one that `write` wrote.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerProblem(f"Cannot read {self.path}: {os.strerror(error.errno or 0)}.") from error
        try:
            found = json.loads(text)
            signed = SignedHead(parse_head(found["head"]), int(found["since"]), str(found["hmac"]))
            whole = text == signed.content()
        except (ValueError, TypeError, LookupError, RecursionError, UsageError):
            whole, signed = False, None
        if not whole or signed is None:
            raise LedgerProblem(
                f"{self.path} is damaged, so it cannot be checked that no event was removed from the ledger. "
                "`enpire ledger restore` lists the copies of the ledger."
            )
        return signed

    def write(self, signed: SignedHead) -> None:
        """Write the file durably.

        Raises:
            StorageFull, OutcomeUnknown, FileProblem: the disk refuses it.
        """
        durable.write(self.path, signed.content())
        self._written_s = time.monotonic()

    def follow(self, signed: SignedHead, *, now: bool = False) -> None:
        """Write the file if it was not written for EVERY_S, or `now`. A disk that refuses it is tried again later.

        The ledger itself is written already; until then the file names an earlier event of it, which is no fault.
        """
        if now or time.monotonic() - self._written_s >= EVERY_S:
            try:
                self.write(signed)
            except EnpireError:
                self._written_s = time.monotonic()


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A head with its HMAC."""

    head: Head
    since: int
    """Number of events that were written before heads had an HMAC."""
    hmac: str

    def content(self) -> bytes:
        """The bytes of the head file."""
        document = {"head": str(self.head), "hmac": self.hmac, "since": self.since}
        return (json.dumps(document, sort_keys=True) + "\n").encode()


def signed_head(secret: bytes, head: Head, since: int) -> SignedHead:
    """A head with its HMAC under a lab's secret."""
    return SignedHead(head, since, head_hmac(secret, head, since))
