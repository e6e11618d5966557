"""Cloning: deterministic, resumable to the same bytes, and honest about what it may learn from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import FileProblem, LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.types import Bounds, Observation, TaskSpec
from policies import flow_policy
from policies.clone import Clone
from tests.policies.recorded import driven, write

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"hidden": 64, "depth": 2, "frequencies": 1, "batch": 64, "least_steps": 400, "most_steps": 400}


def job_in(root: Path, **settings: object) -> ImprovementJob:
    episodes = [write(root / "episodes", driven(seed, expert=True)) for seed in range(30)]
    return ImprovementJob(
        recipe={"name": "test", "learner": "clone", "settings": SETTINGS | settings},
        task="point",
        parent=None,
        episodes=episodes,
        work=root / "work",
        output=root / "out" / "version",
        round=0,
        seed=3,
    )


def run(job: ImprovementJob) -> dict[str, float]:
    return dict(Clone().improve(job, lambda _: None))


def files(folder: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(folder.iterdir())}


def test_a_clone_drives_the_point_home(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    reports: list[Progress] = []
    metrics = Clone().improve(job, reports.append)
    assert metrics["n_demonstrations"] > 20
    assert reports[-1].done == reports[-1].total == 400
    policy = flow_policy.load(job.output)
    place, moved = np.array([[0.8, -0.6, 1.0]], np.float32), 0
    policy.begin(0, seed=0)
    while np.abs(place[0, :2]).max() > 0.15 and moved < 40:
        chunk = policy.act(Observation(stamp_ns=0, state=place), np.array([0]))[0]
        for command in chunk[: policy.execute]:
            place[0, :2] += command
            place[0, 2] -= 1 / 40
            moved += 1
    assert np.abs(place[0, :2]).max() <= 0.15


def test_the_same_job_gives_the_same_bytes(tmp_path: Path) -> None:
    job = job_in(tmp_path, most_steps=60, least_steps=60)
    again = replace(job, work=tmp_path / "work2", output=tmp_path / "out2")
    run(job)
    run(again)
    assert files(job.output) == files(again.output)


def test_a_version_has_the_temperatures_of_its_recipe(tmp_path: Path) -> None:
    base = job_in(tmp_path, most_steps=20, least_steps=20, collect_temperature=1.2)
    run(base)
    assert flow_policy.read(base.output).collect_temperature == 1.2
    settings = {**SETTINGS, "most_steps": 20, "least_steps": 20, "cooling": 0.5, "least_temperature": 0.1}
    recipe = {"name": "test", "learner": "clone", "settings": {**settings, "collect_temperature": 0.9}}
    later = replace(base, recipe=recipe, parent=base.output, work=tmp_path / "w", output=tmp_path / "later", round=1)
    run(later)
    made = flow_policy.read(later.output)
    assert (made.temperature, made.collect_temperature) == (0.5, 0.9)


class Point:
    """The task of the invented episodes, as far as a recipe asks for it."""

    spec = TaskSpec(
        name="point", instruction="home", rate_hz=10.0, limit_ticks=40,
        state=tuple(Bounds(name=name, unit="1", low=-2.0, high=2.0) for name in ("x", "y", "time_left")),
        action=tuple(Bounds(name=name, unit="1", low=-1.0, high=1.0) for name in ("vx", "vy")),
    )  # fmt: skip


def test_a_policy_never_sees_what_the_recipe_hides(tmp_path: Path) -> None:
    job = replace(job_in(tmp_path, most_steps=60, least_steps=60, unseen="time_left"), task=f"{__name__}:Point")
    run(job)
    child = replace(job, parent=job.output, output=tmp_path / "child", work=tmp_path / "work2", round=1)
    run(child)
    for folder in (job.output, child.output):
        early, late = (said(folder, [0.5, 0.2, left]) for left in (1.0, 0.0))
        assert np.array_equal(early, late)
        assert not np.array_equal(early, said(folder, [0.4, 0.2, 1.0]))


def said(folder: Path, state: list[float]) -> np.ndarray:
    policy = flow_policy.load(folder)
    policy.begin(0, seed=0)
    return policy.act(Observation(stamp_ns=0, state=np.array([state], np.float32)), np.array([0]))


def test_what_is_hidden_must_be_sensed(tmp_path: Path) -> None:
    job = replace(job_in(tmp_path, unseen="time_left clock"), task=f"{__name__}:Point")
    with pytest.raises(LearningProblem, match=r"'clock', which .* does not sense; it senses x, y, time_left"):
        run(job)


PROGRAM = """
import sys
from pathlib import Path
from tests.policies.test_clone import JOB_OF
from policies.clone import Clone
Clone().improve(JOB_OF(Path(sys.argv[1])), lambda p: print(p.done, flush=True))
"""


def JOB_OF(root: Path) -> ImprovementJob:  # noqa: N802
    """The same job in another process, over the episodes that are there already."""
    return ImprovementJob(
        recipe={"name": "test", "learner": "clone", "settings": SETTINGS | {"most_steps": 600, "least_steps": 600}},
        task="point",
        parent=None,
        episodes=sorted((root / "episodes" / "test").iterdir()),
        work=root / "work",
        output=root / "out" / "version",
        round=0,
        seed=3,
    )


def test_killed_training_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    job_in(tmp_path)
    job = JOB_OF(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 300:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait(600)
    process.stdout.close()
    assert (job.work / "checkpoint.safetensors").exists()
    assert not job.output.exists()
    first: list[int] = []
    Clone().improve(job, lambda progress: first.append(progress.done))
    assert first[0] > 250
    whole = replace(job, work=tmp_path / "work2", output=tmp_path / "out2")
    run(whole)
    assert files(job.output) == files(whole.output)


def test_a_damaged_or_foreign_checkpoint_is_not_used(tmp_path: Path) -> None:
    job = job_in(tmp_path, most_steps=250, least_steps=250)
    run(replace(job, seed=4))
    starts: list[int] = []
    Clone().improve(replace(job, output=tmp_path / "second"), lambda progress: starts.append(progress.done))
    assert starts[0] == 50
    (job.work / "checkpoint.safetensors").write_bytes(b"broken")
    starts.clear()
    Clone().improve(replace(job, output=tmp_path / "third"), lambda progress: starts.append(progress.done))
    assert starts[0] == 50
    assert files(tmp_path / "second") == files(tmp_path / "third")


def test_filtered_cloning_takes_the_policys_successes(tmp_path: Path) -> None:
    job = job_in(tmp_path, data="successes", most_steps=10, least_steps=10)
    own = [write(tmp_path / "own", driven(seed, expert=False, round_=1)) for seed in range(100, 110)]
    metrics = run(replace(job, episodes=[*job.episodes, *own]))
    assert metrics["n_success"] > 0


def test_what_may_not_be_learned_from_is_refused(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    hidden = write(tmp_path / "hidden", driven(200, expert=True), split="holdout")
    with pytest.raises(LearningProblem, match="began from a holdout start"):
        run(replace(job, episodes=[*job.episodes, hidden]))
    lost = write(tmp_path / "lost", driven(201, expert=True), outcome="aborted")
    with pytest.raises(LearningProblem, match="None of the 1 episodes"):
        run(replace(job, episodes=[lost]))
    with pytest.raises(FileProblem, match="episode.json"):
        run(replace(job, episodes=[tmp_path / "nothing"]))


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="learning_speed"):
        run(job_in(tmp_path, learning_speed=1.0))


def test_a_parent_of_other_sizes_is_refused(tmp_path: Path) -> None:
    job = job_in(tmp_path, most_steps=10, least_steps=10)
    run(job)
    recipe = {"name": "test", "settings": SETTINGS | {"hidden": 32}}
    with pytest.raises(LearningProblem, match="use the parent's sizes"):
        run(replace(job, parent=job.output, recipe=recipe, output=tmp_path / "child", work=tmp_path / "w"))


def test_the_child_of_a_round_is_cooled(tmp_path: Path) -> None:
    job = job_in(tmp_path, most_steps=10, least_steps=10, cooling=0.5, least_temperature=0.7)
    run(job)
    child = replace(job, parent=job.output, output=tmp_path / "child", work=tmp_path / "w", round=1)
    assert run(child)["temperature"] == pytest.approx(0.7)
