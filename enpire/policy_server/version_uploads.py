"""Uploads of versions to a policy server: files that grow part by part, and never fill the disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import PolicyProblem
from enpire.ids import version_id
from enpire.station.remote_policy import PART
from enpire.store import durable, removal

LEAST_FREE = 2**30
"""Free bytes of disk below which no further version is accepted."""
EXPIRED_S = 600.0
"""An upload without a new part for this long is dropped."""


@dataclass(slots=True)
class _Upload:
    total: int
    have: int
    came_s: float

    @property
    def needs(self) -> int:
        """Bytes still to be written: the other parts, then the version's own files."""
        return (2 * self.total - self.have) * PART


class VersionUploads:
    """The uploads below one folder, each in a file `ID.parts`.

    Args:
        folder: uploads left there by an earlier process are removed.
        clock: monotonic seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        durable.sweep(folder)
        for left in [*folder.glob("incoming-*"), *folder.glob("*.parts")]:
            removal.remove(left, folder)
        self._folder, self._clock = folder, clock
        self._uploads: dict[str, _Upload] = {}

    def take(self, policy_id: str, number: int, total: int, data: bytes) -> int:
        """Keep a part if it is the next one of `total`; returns the number of parts here.

        Raises:
            PolicyProblem: the disk has no space for all uploads, or `total` has changed.
        """
        now_s, path = self._clock(), self._path(policy_id)
        upload = self._uploads.get(policy_id)
        if upload is None:
            upload = _Upload(total, 0, now_s)
            needed = upload.needs + sum(other.needs for other in self._uploads.values())
            if shutil.disk_usage(self._folder).free < LEAST_FREE + needed:
                raise PolicyProblem(f"the disk of the policy server ({self._folder}) is too full for it")
            path.write_bytes(b"")
            self._uploads[policy_id] = upload
        if total != upload.total:
            raise PolicyProblem(f"it has {upload.total} parts, not {total}")
        if number == upload.have:
            with path.open("ab") as file:
                file.write(data)
            upload.have, upload.came_s = upload.have + 1, now_s
        return upload.have

    def arrived(self, policy_id: str) -> Path:
        """The file of a complete upload, which belongs to the caller from now on."""
        del self._uploads[policy_id]
        return self._path(policy_id)

    def sweep(self) -> None:
        """Drop uploads without a new part for `EXPIRED_S`."""
        late_s = self._clock() - EXPIRED_S
        for policy_id in [key for key, upload in self._uploads.items() if upload.came_s < late_s]:
            removal.remove(self.arrived(policy_id), self._folder)

    def _path(self, policy_id: str) -> Path:
        return self._folder / f"{version_id(policy_id)}.parts"
