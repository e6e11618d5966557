"""No older resume undoes a newer stop: every order of stops, resumes, pauses, kills, restarts and rejoins."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from enpire.home import Home, open_home
from enpire.station import robot_session
from enpire.store import durable
from tests.enpire.steps.stop_machine import OPERATIONS, World, open_rig

MEMORY = Path("/dev/shm")
"""Where the files of the inbox are made, many thousand times."""


@contextmanager
def worlds() -> Iterator[Home]:
    """A home in memory whose secret every world uses."""
    folder = Path(tempfile.mkdtemp(prefix="enpire-stops-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        yield open_home(folder / "home")
    finally:
        shutil.rmtree(folder)


def explore(home: Home, depth: int) -> tuple[int, int, list[str]]:
    """(states, sequences, faults) of all sequences of operations up to a length, without repeating a state."""
    reached: dict[object, str] = {}
    frontier, sequences, faults = [""], 0, list[str]()
    numbers = itertools.count()
    for _ in range(depth):
        following: list[str] = []
        for path, letter in itertools.product(frontier, OPERATIONS):
            folder = home.root.parent / str(next(numbers))
            folder.mkdir()
            world = World(home, folder)
            for step in path + letter:
                OPERATIONS[step](world)
            sequences += 1
            key = world.key()
            if key not in reached:
                reached[key] = path + letter
                following.append(path + letter)
                if why := world.fault() or world.stuck():
                    faults.append(f"{path + letter}: {why}")
            shutil.rmtree(folder)
        frontier = following
    return len(reached), sequences, faults


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fsync, because only the order of the writes counts here; and the robot is opened without a search for it."""
    monkeypatch.setattr(durable.os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(robot_session, "open_robot", lambda file, task: open_rig(task, 1, 0, {}))


@pytest.mark.parametrize("depth", [3, pytest.param(5, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_no_resume_ends_a_stop_that_its_operator_did_not_see(depth: int) -> None:
    with worlds() as home:
        states, sequences, faults = explore(home, depth)
    assert not faults, f"{len(faults)} of {sequences} sequences: {faults[:5]}"
    assert states > 100 * depth
