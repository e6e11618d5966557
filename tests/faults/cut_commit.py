"""Kill a process inside a commit of the ledger: what remains is a hot journal, which only a writer can undo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from enpire.campaign.station_events import OperatorNeeded
from enpire.errors import CutWrite
from enpire.store.ledger import SqliteLedger
from tests.fakes.point_task import environment

INSIDE = (3, 4)
"""The syncs of a commit at which a kill leaves a hot journal: before the pages of the database are synced, and after.

The journal is synced twice before them, and truncated after them, which is the commit.
"""


def cut_a_commit(home: Path, campaign_id: str, sync: int = INSIDE[-1]) -> None:
    """Leave the ledger of a home as a kill -9 at one sync of a commit leaves it."""
    assert not is_cut(home)
    writer = [sys.executable, "-m", __name__, str(home / "ledger.db"), campaign_id]
    inject = ["-e", "trace=fdatasync", "-e", f"inject=fdatasync:signal=SIGKILL:when={sync}"]
    subprocess.run(["strace", "-f", "-o", "/dev/null", *inject, *writer], env=environment(), check=False)
    assert is_cut(home), "the process was not killed inside its commit"


def is_cut(home: Path) -> bool:
    """Whether a reader finds a write that a killed process did not finish."""
    try:
        SqliteLedger(home / "ledger.db", read_only=True).close()
    except CutWrite:
        return True
    return False


def main() -> None:
    """Append one event."""
    ledger = SqliteLedger(Path(sys.argv[1]))
    ledger.append([OperatorNeeded(station="sim-1", alarm="this event was never acknowledged")], sys.argv[2])


if __name__ == "__main__":
    main()
