"""Versions on their way to a policy server: files that grow part by part, and together never fill the disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import PolicyProblem
from enpire.station.remote_policy import PART

LEAST_FREE = 2**30
"""Bytes of free disk below which no further version is taken."""
GIVEN_UP_S = 600.0
"""A version of which no part came for so long is dropped."""


@dataclass(slots=True)
class _Coming:
    total: int
    have: int
    came_s: float

    @property
    def needs(self) -> int:
        """Bytes that are still to be written: the other parts, then the version's own files."""
        return (2 * self.total - self.have) * PART


class VersionUploads:
    """The parts of versions below one folder, each in `ID.parts`.

    Args:
        folder: what was left there by an earlier process is removed.
        clock: monotonic seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        for left in [*folder.glob("incoming-*"), *folder.glob("*.parts")]:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        self._folder, self._clock = folder, clock
        self._coming: dict[str, _Coming] = {}

    def take(self, policy_id: str, number: int, total: int, data: bytes) -> int:
        """Keep a part if it is the next one of `total`; how many are here now. PolicyProblem without space for all."""
        now_s, path = self._clock(), self._path(policy_id)
        coming = self._coming.get(policy_id)
        if coming is None:
            coming = _Coming(total, 0, now_s)
            needed = coming.needs + sum(other.needs for other in self._coming.values())
            if shutil.disk_usage(self._folder).free < LEAST_FREE + needed:
                raise PolicyProblem(f"the disk of the policy server ({self._folder}) is too full for it")
            path.write_bytes(b"")
            self._coming[policy_id] = coming
        if total != coming.total:
            raise PolicyProblem(f"it has {coming.total} parts, not {total}")
        if number == coming.have:
            with path.open("ab") as file:
                file.write(data)
            coming.have, coming.came_s = coming.have + 1, now_s
        return coming.have

    def arrived(self, policy_id: str) -> Path:
        """All parts of a version are here: who asks has the file from now on."""
        del self._coming[policy_id]
        return self._path(policy_id)

    def sweep(self) -> None:
        """Drop what nobody goes on with."""
        late_s = self._clock() - GIVEN_UP_S
        for policy_id in [key for key, coming in self._coming.items() if coming.came_s < late_s]:
            self.arrived(policy_id).unlink(missing_ok=True)

    def _path(self, policy_id: str) -> Path:
        return self._folder / f"{policy_id}.parts"
