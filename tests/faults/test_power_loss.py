"""Power loss at any moment: a home folder opens and holds all acknowledged data."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.enpire.store.store_samples import a_recording, an_order
from tests.faults import system_calls, wal_recording, writing_process
from tests.faults.durability_checks import broken
from tests.faults.power_loss import State, crash_states, written
from tests.faults.system_calls import STRACE, WHY_NOT, Op

LIFE = "tests.faults.writing_process"
needs_strace = pytest.mark.skipif(STRACE is None, reason=WHY_NOT)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of states are written to it."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def life(shelf: Path) -> list[Op]:
    (shelf / "home").mkdir()
    return system_calls.record(LIFE, shelf / "home")


def violations(shelf: Path, states: Sequence[State]) -> list[str]:
    found: list[str] = []
    for state in states:
        state.lay(shelf / "state")
        found += broken(shelf / "state", state.said)
        shutil.rmtree(shelf / "state")
    return found


def some(ops: Sequence[Op], count: int, per_moment: int) -> list[State]:
    """A sample of the states over the whole run; all where they are fewer."""
    states = list(crash_states(ops, per_moment))
    return random.Random(1).sample(states, min(count, len(states)))


@needs_strace
@pytest.mark.parametrize("count", [200, pytest.param(30000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_no_power_cut_loses_data_that_ledger_store_and_spool_acknowledged(shelf: Path, count: int) -> None:
    states = some(life(shelf), count, per_moment=max(12, count // 30))
    assert len(states) > 150
    assert max(len(state.said) for state in states) > 10
    assert violations(shelf, states) == []


@needs_strace
@pytest.mark.parametrize(
    "ignored",
    ["ledger.db", "spool", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ledger.db-journal", "episodes"))],
)
def test_a_disk_that_ignores_syncs_is_caught(shelf: Path, ignored: str) -> None:
    # A sync of all files would replace the missing one.
    kept = [op for op in life(shelf) if op.kind != "sync all"]
    ops = [op for op in kept if not (op.kind == "sync" and op.path.startswith(ignored))]
    assert violations(shelf, some(ops, 40, 6)), "the states would not show a missing sync"


def wal_states(shelf: Path, synchronous: str, per_moment: int) -> list[State]:
    for name in ("real", synchronous):
        (shelf / name).mkdir()
    episodes = [replace(a_recording(an_order(), seed=seed)[0], sha256="") for seed in range(3)]
    told = wal_recording.statements(shelf / "real", writing_process.transactions(episodes))
    return list(crash_states(wal_recording.record(shelf / synchronous, told, synchronous), per_moment))


@pytest.mark.parametrize("per_moment", [6, pytest.param(600, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_no_power_cut_loses_data_that_a_write_ahead_log_acknowledged(shelf: Path, per_moment: int) -> None:
    states = wal_states(shelf, "FULL", per_moment)
    assert len(states) > 40
    assert violations(shelf, states) == []


def test_a_log_that_is_not_synced_in_every_commit_loses_acknowledged_events(shelf: Path) -> None:
    found = violations(shelf, wal_states(shelf, "NORMAL", 4))
    assert any("was acknowledged and is not there" in problem for problem in found)


def test_all_states_of_two_sectors_are_generated() -> None:
    write = Op(kind="write", path="f", offset=256, data=b"a" * 512)
    ops = [Op(kind="create", path="f"), Op(kind="sync", path="."), write, Op(kind="sync", path="f")]
    left = {state.files["f"] for state in crash_states(ops, 100) if "f" in state.files}
    gap = bytes(256)
    assert left == {b"", gap + b"a" * 256, gap + gap + b"a" * 256, gap + b"a" * 512}
    assert written(b"old", [Op(kind="truncate", path="f", offset=1), write]) == b"o" + bytes(255) + b"a" * 512


def test_a_name_is_durable_with_its_folder_and_a_rename_is_atomic() -> None:
    ops = [
        Op(kind="create", path="staged"), Op(kind="write", path="staged", data=b"new"), Op(kind="sync", path="staged"),
        Op(kind="rename", path="staged", to="named"), Op(kind="said", data=b"renamed"), Op(kind="sync", path="."),
        Op(kind="said", data=b"durable"),
    ]  # fmt: skip
    after = [(len(state.said), state.files) for state in crash_states(ops, 100)]
    assert (1, {}) in after
    assert (1, {"staged": b"new"}) in after
    assert [files for said, files in after if said == 2] == [{"named": b"new"}]
