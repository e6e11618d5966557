"""Faults in a simulated lab: no episode is lost or counted twice, and the campaign continues afterwards."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from enpire.fleet import uploads
from enpire.store.pictures import Pictures
from tests.chaos.harness import audit
from tests.fakes.point_task import environment
from tests.faults.simulation import Laboratory, simulate
from tests.faults.virtual_sockets import World


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder in memory where there is one: a simulated lab syncs thousands of files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def test_a_lab_with_all_faults_loses_and_doubles_nothing(shelf: Path) -> None:
    result = simulate(shelf, seed=4, broken_s=36.0, quiet_s=55.0)
    assert result.problems() == []
    assert sum(result.faults.values()) > 20
    assert result.audit.outcomes["success"] > 50


@pytest.mark.slow
def test_images_arrive_complete_with_their_episodes_under_all_faults(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LEAST", 4096)
    monkeypatch.setattr(uploads, "MOST", 4096)
    cameras = {"record": ("top",), "options": {"picture_px": 64}}
    result = simulate(shelf, seed=6, broken_s=20.0, quiet_s=45.0, **cameras)
    assert result.problems() == []
    assert result.resumed > 0
    seen = list((shelf / "home" / "episodes").glob("*/*/pictures.zip"))
    assert len(seen) >= sum(result.audit.outcomes[verdict] for verdict in ("success", "failure"))
    assert sum(len(Pictures(path).names) for path in seen) > 1000
    assert not list((shelf / "home" / "episodes" / ".incoming").iterdir())


def test_unknown_orders_become_late_results_after_a_minute_without_network(shelf: Path) -> None:
    laboratory = Laboratory(shelf, seed=2, names=("alpha", "beta"))
    began_s = laboratory.world.now_s
    laboratory.world.after(6.0, lambda: laboratory.cut("alpha", 60.0))
    laboratory.run_until(began_s + 85.0, end_campaign=True)
    found = audit(laboratory.home.root, laboratory.witness)
    assert found.problems() == []
    assert found.refused == 0
    unknown = [line for line in laboratory.trace if "orders ended" in line and "sent nothing for 30 s" in line]
    assert len(unknown) == 1
    assert any(" orders found " in line for line in laboratory.trace)
    assert set(found.outcomes) <= {"success", "failure", "aborted"}, "no order stays unknown"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(101, 109))
def test_more_seeds(shelf: Path, seed: int) -> None:
    result = simulate(shelf, seed, broken_s=300.0)
    assert result.problems() == []


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_in_another_process(shelf: Path) -> None:
    told: list[str] = []
    for hashing in ("1", "2"):
        folder = shelf / "lab"  # the same folder: paths are part of the events
        code = (
            "import sys; from pathlib import Path; from tests.faults.simulation import simulate; "
            "print('\\n'.join(simulate(Path(sys.argv[1]), 7, 40.0, 45.0).trace))"
        )
        around = {**environment(), "PYTHONHASHSEED": hashing}
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder)], env=around, capture_output=True, text=True, check=True
        )
        told.append(done.stdout)
        shutil.rmtree(folder)
    assert told[0].count("\n") > 100
    assert told[0] == told[1]


def test_simultaneous_events_happen_in_the_order_of_planning() -> None:
    world, seen = World(1), list[str]()
    for name in "abc":
        world.after(1.0, lambda name=name: seen.append(name))
    world.after(0.5, lambda: world.after(0.5, lambda: seen.append("d")))
    world.run_for(0.75)
    assert seen == []
    world.run_for(10.0, lambda: len(seen) == 2)
    assert (seen, world.now_s) == (["a", "b"], 1001.0)
    world.run_for(10.0)
    assert (seen, world.now_s) == (["a", "b", "c", "d"], 1011.0)
