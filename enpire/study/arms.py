"""The arms of a study under blind ids: stations, pages and the ledger's orders show which copy ran, not which arm.

A blind copy is the version with one more file, whose content depends on the lab's secret. So its id, the hash of its
files, tells an operator nothing, also not whether two arms are the same version.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from enpire.home import Home
from enpire.ids import version_id
from enpire.scheduling.scheduler import EXPERT
from enpire.store import versions

_MARK = "study.txt"


def blind_ids(home: Home, campaign_id: str, arms: Mapping[str, str]) -> dict[str, str]:
    """Publish a blind copy of each arm's version; id of the copy -> name of the arm. The same again on a resume.

    The task's expert is no version: it keeps its name.
    """
    return {
        (EXPERT if version == EXPERT else _copy(home, version, _nonce(home, campaign_id, name))): name
        for name, version in arms.items()
    }


def trial_code(home: Home, order_id: str) -> str:
    """A short code by which people name a trial."""
    return _nonce(home, "trial", order_id)[:4].upper()


def block_key(home: Home, campaign_id: str, block: int) -> bytes:
    """The key of what is random in a block: the order of its arms."""
    return bytes.fromhex(_nonce(home, campaign_id, f"block {block}"))


def _nonce(home: Home, campaign_id: str, text: str) -> str:
    return hmac.new(home.secret(), f"study {campaign_id} {text}".encode(), hashlib.sha256).hexdigest()


def _copy(home: Home, version: str, nonce: str) -> str:
    folder = home.versions / version_id(version)
    with tempfile.TemporaryDirectory(dir=home.learning) as made:
        for path in sorted(folder.iterdir()):
            _link(path, Path(made) / path.name)
        (Path(made) / _MARK).write_text(nonce, encoding="ascii")
        return versions.publish(Path(made), home.versions)


def _link(path: Path, target: Path) -> None:
    """A second name for the file, or a copy where the disk has no links: weights may be large."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)
