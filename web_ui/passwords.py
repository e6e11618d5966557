"""Stored forms of passwords and secrets: scrypt for chosen passwords, SHA-256 for random secrets."""

from __future__ import annotations

import hashlib
import hmac
import secrets

COST = 2**14
BLOCK = 8
SHORTEST, LONGEST = 10, 200


def seal(password: str) -> str:
    """The password's scrypt hash with its salt and cost (RFC 7914); about 50 ms and 16 MiB."""
    salt = secrets.token_bytes(16)
    return f"scrypt${COST}${BLOCK}${salt.hex()}${_derive(password, salt, COST, BLOCK).hex()}"


def matches(password: str, sealed: str) -> bool:
    """Whether a password belongs to a hash made by `seal`; compares in constant time."""
    _, cost, block, salt, digest = sealed.split("$")
    derived = _derive(password, bytes.fromhex(salt), int(cost), int(block))
    return hmac.compare_digest(derived.hex(), digest)


def draw() -> str:
    """A new random secret of 256 bits for a cookie, a token or a link."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """The stored form of a random secret. It has full entropy, so a plain hash suffices."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _derive(password: str, salt: bytes, cost: int, block: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=1, maxmem=64 * 2**20, dklen=32)


DUMMY = seal(draw())
"""Compared when the name is unknown, so that the answer takes as long as for a known name."""
