"""Where the verified copies of a ledger lie, and the sentence that names them when the ledger is damaged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from enpire.ids import file_name

FOLDER = "copies"
"""Folder of the copies, next to the ledger."""
_NAME = re.compile(r"\d{4}-\d{2}-\d{2}_[0-9A-Za-z][0-9A-Za-z_.-]{0,127}\.db")


def copy_path(ledger: Path, campaign_id: str, day: str) -> Path:
    """The copy of a campaign and day (YYYY-MM-DD, UTC)."""
    return ledger.parent / FOLDER / f"{day}_{file_name(campaign_id, 'a campaign')}.db"


def copies(ledger: Path) -> Sequence[Path]:
    """The verified copies of a ledger, oldest first."""
    folder = ledger.parent / FOLDER
    try:
        return sorted(
            (path for path in folder.iterdir() if _NAME.fullmatch(path.name)),
            key=lambda path: (path.name[:10], path.stat().st_mtime_ns),
        )
    except OSError:
        return ()


def advice(ledger: Path) -> str:
    """What to do with a damaged ledger: restore the newest verified copy, or a backup of the home if there is none."""
    known = copies(ledger)
    if not known:
        return f"There is no copy in {ledger.parent / FOLDER}: restore the home from your own backup."
    return (
        f"The newest verified copy is {known[-1]}; `enpire ledger restore` shows what it contains and puts it in place."
    )
