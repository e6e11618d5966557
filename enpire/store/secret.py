"""The secret of a lab: 32 random bytes in a file of the home. Hidden starts and the HMAC of the head need it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from enpire.errors import FileProblem
from enpire.store import durable

NAME = "secret"
"""Name of the file in the home folder."""
_HEX = 64


def lab_secret(home: Path) -> bytes:
    """The secret of a home. Created once, readable by its owner only.

    Raises:
        FileProblem: the file cannot be read, or does not hold 64 hexadecimal digits.
        StorageFull: the disk refuses a new one.
    """
    found = known_secret(home)
    if found is not None:
        return found
    durable.write(home / NAME, secrets.token_hex(_HEX // 2).encode(), mode=0o600)
    return lab_secret(home)


def known_secret(home: Path) -> bytes | None:
    """The secret of a home; None where this process finds none or may not read it.

    Raises:
        FileProblem: the file does not hold 64 hexadecimal digits.
    """
    path = home / NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError:
        return None
    except OSError as error:
        raise FileProblem(f"Cannot read the lab's secret {path}: {os.strerror(error.errno or 0)}.") from error
    try:
        secret = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != _HEX // 2:
        raise FileProblem(
            f"The lab's secret {path} is damaged: it must hold {_HEX} hexadecimal digits. Restore the file from a "
            "backup; without it, neither the hidden starts nor the head of the ledger can be checked."
        )
    return secret
