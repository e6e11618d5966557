"""Scripted versions load through the task's plug-in and say what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from enpire.errors import FileProblem, PolicyProblem
from enpire.types import Observation
from policies import scripted
from policies.scripted import Script


@pytest.mark.parametrize("name", ["expert", "clean_expert"])
def test_a_script_round_trips_and_acts(tmp_path: Path, name: Literal["expert", "clean_expert"]) -> None:
    scripted.save(Script(task="pin_insertion", script=name), tmp_path)
    policy = scripted.load(tmp_path)
    policy.begin(0, seed=1)
    chunk = policy.act(Observation(stamp_ns=0, state=np.ones((1, 12), np.float32)), np.array([0]))
    assert chunk.shape == (1, policy.horizon, 3)
    assert np.isfinite(chunk).all()


def test_problems_are_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyProblem, match="cannot be read"):
        scripted.load(tmp_path)
    path = tmp_path / "policy.json"
    path.write_text('{"kind": "scripted", "task": "pin_insertion", "speed": 2}')
    with pytest.raises(FileProblem, match="unknown key 'speed'"):
        scripted.load(tmp_path)
    path.write_text('{"kind": "scripted", "task": "no_such_task"}')
    with pytest.raises(PolicyProblem, match="no_such_task"):
        scripted.load(tmp_path)
    path.write_text('{"kind": "scripted", "task": "site:addsitedir"}')
    with pytest.raises(PolicyProblem, match="a version may name an installed task: .*push_t"):
        scripted.load(tmp_path)
