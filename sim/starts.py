"""Start states: train starts are public; holdout and confirm starts depend on a secret."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np

from enpire.errors import UsageError
from enpire.types import Split, Start

_PUBLIC_SALT = b"enpire train starts"
_BLIND_SALT = b"enpire hidden starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """The start states of one task: uniform in a box, equal on every machine."""

    task: str
    """Part of every seed, so that two tasks share no starts."""
    ranges: tuple[tuple[float, float], ...]
    """(low, high) of every start value, in the units of `TaskSpec.start_names`."""
    least_aside: float = 0.0
    """Starts whose first two values are nearer to the origin than this are drawn again."""

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        """The index-th start of a split. Train starts need no secret; the others are HMAC(secret, task, split, index).

        Raises:
            UsageError: a negative index, an unknown split, or a hidden split with a secret under 16 bytes.
        """
        if index < 0:
            raise UsageError(f"Starts are numbered from 0; {index} is not one.")
        rng = np.random.Generator(np.random.PCG64(_seed(self.task, split, index, secret)))
        seed = int(rng.integers(0, 2**62))
        low, high = np.array(self.ranges, dtype=np.float64).T
        values = rng.uniform(low, high)
        while float(np.hypot(values[0], values[1])) < self.least_aside:
            values = rng.uniform(low, high)
        return Start(split=split, index=index, values=tuple(float(v) for v in values), seed=seed)


def _seed(task: str, split: Split, index: int, secret: bytes) -> int:
    message = f"{task}/{split}/{index}".encode()
    if split == "train":
        key = _PUBLIC_SALT
    elif split in ("holdout", "confirm"):
        if len(secret) < 16:
            raise UsageError(
                f"The {split} starts need a secret of at least 16 bytes, not {len(secret)}: "
                "the lab keeps one in its home folder."
            )
        key = _BLIND_SALT + secret
    else:
        raise UsageError(f"There is no split {split!r}; there are train, holdout and confirm.")
    return int.from_bytes(hmac.new(key, message, hashlib.sha256).digest()[:16], "big")
