"""Checks that no power cut loses acknowledged data: `python -m benchmarks.power_loss [--states 100000] [--seed 1]`.

Each way of writing to a home folder is recorded once: the system calls of the real process, and, for a write-ahead log,
those of a newer SQLite with the same statements. From the record, every kind of state is built that a crash could leave
(docs/faults.md gives the rules). The software opens each state, and the result is compared with the acknowledged data.
The last lines leave out syncs on purpose: their violations prove that the check can fail.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from tests.enpire.store.store_samples import an_episode, an_order
from tests.faults import system_calls, wal_recording, writing_process
from tests.faults.durability_checks import broken
from tests.faults.power_loss import crash_states
from tests.faults.system_calls import Op


def records(scratch: Path) -> Iterator[tuple[str, list[Op]]]:
    """(name, operations) of each way of writing, and of two that are wrong on purpose."""
    (scratch / "home").mkdir()
    life = system_calls.record("tests.faults.writing_process", scratch / "home")
    yield "rollback journal, episodes, spool: the real process", life
    episodes = [an_episode(an_order(), sha256="") for _ in range(3)]
    (scratch / "real").mkdir()
    statements = wal_recording.statements(scratch / "real", writing_process.transactions(episodes))
    for synchronous in ("FULL", "NORMAL"):
        (scratch / synchronous).mkdir()
        yield (
            f"write-ahead log, synchronous={synchronous}",
            wal_recording.record(scratch / synchronous, statements, synchronous),
        )
    ignored = [op for op in life if not op.kind.startswith("sync")]
    yield "the real process on a disk that ignores every sync", ignored


def try_states(scratch: Path, ops: Sequence[Op], enough: int, seed: int) -> tuple[int, int]:
    """(states tried, states in which acknowledged data is missing or wrong)."""
    moments = sum(op.kind in ("sync", "sync all", "said") for op in ops) + 1
    tried = bad = 0
    for state in crash_states(ops, max(8, enough // moments), seed):
        state.lay(scratch / "state")
        bad += bool(broken(scratch / "state", state.said))
        shutil.rmtree(scratch / "state")
        tried += 1
    return tried, bad


def main() -> int:
    """Print states and violations for each way of writing; 1 when acknowledged data was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=100000, help="number of states for each way of writing")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(describe([arguments.seed]))
    found: list[Measured] = []
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        scratch = Path(folder)
        for name, ops in records(scratch):
            began = time.monotonic()
            tried, bad = try_states(
                scratch, ops, arguments.states if "ignores" not in name else min(arguments.states, 2000), arguments.seed
            )
            rate = f"at most 3/{tried} = {3 / tried:.1e} (95 %)" if not bad else f"{bad / tried:.1%}"
            print(f"{name}: {bad} of {tried} states lose acknowledged data, {rate}; {time.monotonic() - began:.0f} s")
            lost, wrong = f"lost by: {name}", "ignores" in name or "NORMAL" in name
            found.append(
                Measured(name=lost, value=bad, unit="states", least=1)
                if wrong
                else Measured(name=lost, value=bad, unit="states", most=0)
            )
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
