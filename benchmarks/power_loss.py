"""What a power cut takes away: `python -m benchmarks.power_loss [--states 100000] [--seed 1]`.

Every way of writing to a home folder is recorded once (system calls of the real process; and, over a write-ahead log,
what a newer SQLite does with the same statements). From the record every kind of state is built that a crash could
leave (docs/faults.md says by which rules), opened as the software does at its next start, and held against what had
been acknowledged. The last lines leave out syncs on purpose: what they find says that the states can show a violation.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.machine import describe
from tests.enpire.store.store_samples import an_episode, an_order
from tests.faults import system_calls, wal_recording, writing_process
from tests.faults.durability_checks import broken
from tests.faults.power_loss import crash_states
from tests.faults.system_calls import Op


def records(shelf: Path) -> Iterator[tuple[str, list[Op]]]:
    """(name, what was done) of each way of writing, and of two that are wrong."""
    (shelf / "home").mkdir()
    life = system_calls.record("tests.faults.writing_process", shelf / "home")
    yield "rollback journal, episodes, spool: the real process", life
    episodes = [an_episode(an_order(), sha256="") for _ in range(3)]
    (shelf / "real").mkdir()
    told = wal_recording.statements(shelf / "real", writing_process.transactions(episodes))
    for synchronous in ("FULL", "NORMAL"):
        (shelf / synchronous).mkdir()
        yield (
            f"write-ahead log, synchronous={synchronous}",
            wal_recording.record(shelf / synchronous, told, synchronous),
        )
    ignored = [op for op in life if not op.kind.startswith("sync")]
    yield "the real process on a disk that ignores every sync", ignored


def try_states(shelf: Path, ops: Sequence[Op], enough: int, seed: int) -> tuple[int, int]:
    """(states, states in which something that was acknowledged is missing or wrong)."""
    moments = sum(op.kind in ("sync", "sync all", "said") for op in ops) + 1
    tried = bad = 0
    for state in crash_states(ops, max(8, enough // moments), seed):
        state.lay(shelf / "state")
        bad += bool(broken(shelf / "state", state.said))
        shutil.rmtree(shelf / "state")
        tried += 1
    return tried, bad


def main() -> None:
    """Print states and violations for each way of writing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=100000, help="about so many for each way of writing")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(describe([asked.seed]))
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        shelf = Path(folder)
        for name, ops in records(shelf):
            began = time.monotonic()
            tried, bad = try_states(shelf, ops, asked.states if "ignores" not in name else 2000, asked.seed)
            rate = f"at most 3/{tried} = {3 / tried:.1e} (95 %)" if not bad else f"{bad / tried:.1%}"
            print(f"{name}: {bad} of {tried} states violate a promise, {rate}; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
