"""Alternating phases with and without faults: memory and files of a lab do not grow."""

from __future__ import annotations

import gc
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest

from enpire.store.durable import STAGED
from tests.chaos.harness import audit
from tests.faults.simulation import Laboratory

QUIET_S = 50.0
SLACK = {"descriptors": 3, "threads": 1, "journal": 1 << 20, "spooled": 40}
"""Allowed difference between two moments of the same lab."""


def held(laboratory: Laboratory) -> Counter[str]:
    """Objects that could accumulate, counted after a phase without faults."""
    gc.collect()
    home = laboratory.home.root
    spools = [path for name in laboratory.names for path in (laboratory.root / name / "spool").rglob("*")]
    return Counter({
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "journal": sum(path.stat().st_size for path in home.glob("ledger.db-*")),
        "spooled": sum(path.is_file() for path in spools),
        "staged": sum(path.name.startswith(STAGED) for path in home.rglob("*")),
        "wishes and commands": len(list(laboratory.home.inbox.rglob("operator/**/*.json"))),
    })  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("count", "broken_s"), [(2, 20.0), (8, 60.0)])
def test_memory_and_files_of_a_lab_do_not_grow_with_faults(count: int, broken_s: float) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        laboratory = Laboratory(Path(folder), seed=37, names=("alpha", "beta"))
        spells: list[Counter[str]] = []
        for _ in range(count):
            began_s = laboratory.world.now_s
            laboratory.break_things(began_s + broken_s)
            laboratory.run_until(began_s + broken_s)
            for process in (laboratory.orchestrator, *(station.process for station in laboratory.stations)):
                process.dies_in = -1
            laboratory.run_until(laboratory.world.now_s + QUIET_S)
            spells.append(held(laboratory))
        laboratory.run_until(laboratory.world.now_s + QUIET_S, end_campaign=True)
        assert audit(laboratory.home.root, laboratory.witness).problems() == []
        for virtual in laboratory.stations:
            if virtual.station is not None:
                virtual.station.close()
    told = "\n".join(str(dict(spell)) for spell in spells)
    print(f"{sum(laboratory.faults.values())} faults in {count} spells\n{told}")
    early, late = spells[: count // 2], spells[count // 2 :]
    for name in spells[0]:
        assert max(spell[name] for spell in late) <= max(spell[name] for spell in early) + SLACK.get(name, 0), told
