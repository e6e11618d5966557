"""Before the whole training, a learner of a branch trains on a slice, and its version acts; a kill repeats nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from enpire.campaign.recipe import read_recipe, settings_of
from enpire.errors import LearningProblem
from enpire.files import plain
from enpire.interfaces import ImprovementJob, Progress
from enpire.parts import LEARNERS, settings_class
from enpire.processes import smoke_run
from enpire.processes.cpu_time import FILE, counting_cpu_time, read_cpu_s
from enpire.processes.learner_process import run_job
from enpire.store import durable
from tests.enpire.processes.test_version_check import recorded
from tests.fakes.smoke_policies import write_version
from tests.policies.recorded import driven, write

CALLS: list[ImprovementJob] = []
"""Every call of `Counting`."""


class Counting:
    """A learner whose settings name a fault of its version, and the fewest episodes that it learns from."""

    smoke: ClassVar = {"steps": 2}

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        CALLS.append(job)
        settings = job.recipe["settings"]
        assert isinstance(settings, dict)
        report(Progress(stage="actor", done=1, total=settings["steps"], metrics={}))
        if len(job.episodes) < settings["least"]:
            raise LearningProblem("There are too few episodes.")
        if settings.get("die") and settings["steps"] > 2:
            raise KeyboardInterrupt
        write_version(job.output, settings["fault"])
        return {"loss": 0.5}


def job_of(tmp_path: Path, episodes: int = 100, **settings: object) -> Path:
    """The folder of a job of `Counting`."""
    CALLS.clear()
    work = tmp_path / "work"
    work.mkdir()
    job = ImprovementJob(
        recipe={
            "name": "counting", "learner": f"{__name__}:Counting",
            "settings": {"steps": 1000, "fault": "", "least": 1, **settings},
        },
        task="tests.fakes.point_task:PointTask", parent=None, work=work, round=1, seed=1, smoke=True,
        output=work / "version", episodes=tuple(recorded(tmp_path / "home", episodes)),
    )  # fmt: skip
    durable.write(work / "job.json", json.dumps(plain(job)).encode())
    return work


def test_a_slice_is_learned_from_for_a_few_steps_before_the_whole_run(tmp_path: Path) -> None:
    work = job_of(tmp_path)
    run_job(work)
    first, second = CALLS
    assert (len(first.episodes), first.recipe["settings"]["steps"]) == (50, 2)  # pyright: ignore[reportIndexIssue]
    assert (len(second.episodes), second.recipe["settings"]["steps"]) == (100, 1000)  # pyright: ignore[reportIndexIssue]
    assert first.work.parent == second.work == work
    assert not first.work.exists(), "the smoke run leaves no files"
    lines = [json.loads(line) for line in (work / "progress.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines] == ["smoke run, actor", "actor"]


@pytest.mark.parametrize("fault", ["nan", "slow"])
def test_a_version_that_cannot_act_ends_the_job_before_the_whole_run(tmp_path: Path, fault: str) -> None:
    work = job_of(tmp_path, fault=fault)
    with pytest.raises(LearningProblem, match="The smoke run on 100 episodes failed: The learner .* cannot act"):
        run_job(work)
    assert [call.recipe["settings"]["steps"] for call in CALLS] == [2, 2]  # pyright: ignore[reportIndexIssue]


def test_a_learner_that_needs_more_episodes_gets_all_of_them(tmp_path: Path) -> None:
    run_job(job_of(tmp_path, least=80))
    assert [len(call.episodes) for call in CALLS] == [50, 100, 100]


def test_a_killed_run_does_not_repeat_a_smoke_run_that_passed(tmp_path: Path) -> None:
    work = job_of(tmp_path, die=True)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_job(work)
    assert [len(call.episodes) for call in CALLS] == [50, 100, 100]


def test_a_smoke_run_that_was_killed_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoints lie in a folder of its own; a version that it made is checked and not trained again."""
    work = job_of(tmp_path)
    with monkeypatch.context() as killed:
        killed.setattr(smoke_run, "require_acting", lambda job: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_job(work)
    run_job(work)
    assert [len(call.episodes) for call in CALLS] == [50, 100]


def test_the_cpu_time_of_a_run_counts_its_killed_processes(tmp_path: Path) -> None:
    durable.write(tmp_path / FILE, json.dumps({"cpu_s": 40.0}).encode())
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")  # each of the two times is rounded to this
    before = sum(os.times()[:4])
    with counting_cpu_time(tmp_path):
        while sum(os.times()[:4]) < before + 0.2:
            pass
    counted = read_cpu_s(tmp_path) - 40.0
    assert 0.2 - 4 * tick_s <= counted <= sum(os.times()[:4]) - before + 4 * tick_s


@pytest.mark.parametrize(
    "name", ["habc_plus", "habc_paper", "filtered_bc", "recap", "best_of_n", "residual_td3", "dsrl", "rlt"]
)
def test_shipped_recipes_pass_a_smoke_run(tmp_path: Path, name: str) -> None:
    demonstrations = [write(tmp_path / "episodes", driven(seed, expert=True)) for seed in range(12)]
    rollouts = [write(tmp_path / "episodes", driven(seed, expert=False, round_=1)) for seed in range(100, 180)]
    base = trained(tmp_path / "base", "clone_demonstrations", demonstrations, None)
    recipe = read_recipe(name)
    job = job_for(tmp_path / "job", name, [*demonstrations, *rollouts], base.output)
    learner = LEARNERS.make(recipe.learner)
    reports: list[Progress] = []
    smoke_run.smoke_run(job, learner, reports.append)
    assert all(report.stage.startswith("smoke run") for report in reports)
    assert not job.output.exists()


def test_the_smoke_settings_of_every_shipped_recipe_are_allowed(tmp_path: Path) -> None:
    for path in (Path(__file__).parents[3] / "configs" / "recipes").glob("*.yaml"):
        job = job_for(tmp_path / path.stem, path.stem, [], None)
        learner = LEARNERS.make(str(job.recipe["learner"]))
        if (kind := settings_class(type(learner), "settings")) is not None:
            settings_of(kind, smoke_run.smoke_job(job, learner, []).recipe)


def trained(work: Path, name: str, episodes: list[Path], parent: Path | None) -> ImprovementJob:
    """A version of a few steps."""
    job = job_for(work, name, episodes, parent)
    learner = LEARNERS.make(str(job.recipe["learner"]))
    small = replace(smoke_run.smoke_job(job, learner, job.episodes), work=job.work, output=job.output)
    learner.improve(small, lambda progress: None)
    return job


def job_for(work: Path, name: str, episodes: list[Path], parent: Path | None) -> ImprovementJob:
    work.mkdir()
    return ImprovementJob(
        recipe=read_recipe(name).mapping(), task="point", parent=parent, episodes=tuple(episodes), work=work,
        output=work / "version", round=1 if parent else 0, seed=1, smoke=True,
    )  # fmt: skip
