"""A program's version round trips; the search goes on where it was cut, and from its parent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import FileProblem, PolicyProblem, UnknownName
from enpire.interfaces import ImprovementJob
from enpire.parts import parent_kinds
from enpire.types import Observation
from policies import program
from policies.program import PROGRAMS, ProgramVersion, point_of, values_at
from policies.program_search import ProgramSearch

MIDDLE = values_at("pin_spiral", np.full(7, 0.5, np.float32))


def job_in(root: Path, **settings: object) -> ImprovementJob:
    small: dict[str, object] = {"generations": 2, "population": 4, "starts": 2, "rigs": 1}
    return ImprovementJob(
        recipe={"name": "test", "learner": "program_search", "settings": small | settings},
        task="pin_insertion_blind",
        parent=None,
        episodes=[],
        work=root / "work",
        output=root / "out" / "version",
        round=1,
        seed=3,
    )


def run(job: ImprovementJob) -> tuple[dict[str, float], list[int]]:
    done: list[int] = []
    return dict(ProgramSearch().improve(job, lambda p: done.append(p.done))), done


def written(folder: Path) -> bytes:
    return (folder / "policy.json").read_bytes()


def test_a_program_round_trips_and_acts(tmp_path: Path) -> None:
    version = ProgramVersion(program="pin_spiral", values=MIDDLE, period_s=1 / 30)
    (tmp_path / "policy.json").write_bytes(program.manifest_bytes(version))
    assert program.read(tmp_path) == version
    policy = program.load(tmp_path)
    policy.begin(0, seed=1)
    chunk = policy.act(Observation(stamp_ns=0, state=np.ones((1, 12), np.float32)), np.array([0]))
    assert chunk.shape == (1, policy.horizon, 3)
    assert np.isfinite(chunk).all()


def test_each_program_acts_from_the_middle_of_its_intervals_and_refuses_the_values_of_another() -> None:
    observation = Observation(stamp_ns=0, state=np.ones((2, 12), np.float32))
    for name in PROGRAMS:
        values = values_at(name, np.full(len(PROGRAMS[name]), 0.5, np.float32))
        policy = program.policy_of(ProgramVersion(program=name, values=values, period_s=1 / 30))
        assert np.isfinite(policy.act(observation, np.array([3, 1]))).all()
    with pytest.raises(ValueError, match="pin_touch allows"):
        ProgramVersion(program="pin_touch", values=MIDDLE, period_s=1 / 30)


def test_the_unit_cube_and_back() -> None:
    place = np.random.default_rng(0).random(7).astype(np.float32)
    np.testing.assert_allclose(point_of("pin_spiral", values_at("pin_spiral", place)), place, atol=1e-5)
    for name in PROGRAMS:
        low, high = (values_at(name, np.full(len(PROGRAMS[name]), end, np.float32)) for end in (-3.0, 4.0))
        assert all(
            low[parameter.name] == parameter.low and high[parameter.name] == parameter.high
            for parameter in PROGRAMS[name]
        )


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="There is no program called 'dance'"):
        program.parameters("dance")
    with pytest.raises(ValueError, match="pitch_mm is 9"):
        ProgramVersion(program="pin_spiral", values=MIDDLE | {"pitch_mm": 9.0}, period_s=0.03)
    with pytest.raises(PolicyProblem, match="cannot be read"):
        program.load(tmp_path)
    with pytest.raises(FileProblem, match="population at least 4"):
        run(job_in(tmp_path, population=1))


def test_a_search_that_was_cut_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    metrics, done = run(job)
    assert done == [1, 2]
    assert metrics["rollouts"] == 16
    cut = replace(job, work=tmp_path / "w2", output=tmp_path / "o2")
    cut.work.mkdir()
    # As a kill leaves it: one generation is on the disk, the version is not.
    whole = (job.work / "generations.json").read_text()
    found = json.loads(whole)
    (cut.work / "generations.json").write_text(json.dumps({"job": found["job"], "costs": found["costs"][:1]}))
    run(cut)
    assert written(cut.output) == written(job.output)
    assert (cut.work / "generations.json").read_text() == whole


def test_the_round_of_the_campaign_does_not_change_the_turn_of_a_branch(tmp_path: Path) -> None:
    first = replace(job_in(tmp_path, generations=1), turn=1)
    later = replace(first, round=5, work=tmp_path / "w2", output=tmp_path / "o2")
    second = replace(first, turn=2, work=tmp_path / "w3", output=tmp_path / "o3")
    for job in (first, later, second):
        run(job)
    assert written(later.output) == written(first.output) != written(second.output)


def test_a_search_starts_from_programs_alone() -> None:
    assert parent_kinds(ProgramSearch) == {"program"}, "else it would continue another regime in name only"


def test_a_search_from_a_program_needs_more_rollouts_of_each_candidate(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / "policy.json").write_bytes(
        program.manifest_bytes(ProgramVersion(program="pin_spiral", values=MIDDLE, period_s=1 / 30))
    )
    job = job_in(tmp_path, generations=1, follow_starts=3)
    assert run(job)[0]["rollouts"] == 4 * 2
    follow = replace(job, parent=parent, work=tmp_path / "w2", output=tmp_path / "o2")
    assert run(follow)[0]["rollouts"] == 4 * 3
    with pytest.raises(FileProblem, match="follow_starts"):
        run(job_in(tmp_path, follow_starts=0))


def test_a_search_goes_on_from_its_parent(tmp_path: Path) -> None:
    job = job_in(tmp_path, generations=1, follow_starts=2)
    run(job)
    child = replace(job, parent=job.output, work=tmp_path / "w2", output=tmp_path / "o2", round=2)
    run(child)
    first, second = (program.read(folder).values for folder in (job.output, child.output))
    moved: Sequence[float] = [
        abs(a - b) for a, b in zip(point_of("pin_spiral", first), point_of("pin_spiral", second), strict=True)
    ]
    assert 0 < max(moved) < 0.4


def test_a_search_does_not_start_from_another_program(tmp_path: Path) -> None:
    spiral = tmp_path / "spiral"
    spiral.mkdir()
    (spiral / "policy.json").write_bytes(
        program.manifest_bytes(ProgramVersion(program="pin_spiral", values=MIDDLE, period_s=1 / 30))
    )
    job = job_in(tmp_path, program="pin_touch", generations=1, follow_starts=3)
    metrics, _ = run(replace(job, parent=spiral))
    assert metrics["rollouts"] == 4 * 2, "a search from its parent runs 4 * 3"
    assert program.read(job.output).program == "pin_touch"
