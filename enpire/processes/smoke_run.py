"""Smoke run of a training job: a few steps on a few episodes, and a version that acts, before the whole run.

So a recipe that cannot work costs seconds. A job does it once: a job that is run again does not repeat one that passed,
and one that was killed in it resumes from its checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from enpire.campaign.recipe import Recipe, Setting
from enpire.errors import LearningProblem
from enpire.files import parse
from enpire.interfaces import ImprovementJob, Learner, Progress
from enpire.processes.version_check import LIMIT_S, ending_after, require_acting
from enpire.store import durable, removal
from enpire.wording import counted

EPISODES = 64
"""Most episodes of a smoke run. A learner that cannot learn from so few gets all of them, for as few steps."""
PASSED = "smoke.json"


def smoke_run(job: ImprovementJob, learner: Learner, report: Callable[[Progress], None]) -> None:
    """Do the smoke run of a job, unless it has passed.

    Raises:
        LearningProblem: the learner cannot make a version from a few steps, or the version cannot act.
    """
    if (job.work / PASSED).is_file():
        return

    def in_smoke_run(progress: Progress) -> None:
        report(replace(progress, stage=f"smoke run, {progress.stage}"))

    few = job.episodes[:: max(1, -(-len(job.episodes) // EPISODES))]
    try:
        _try(smoke_job(job, learner, few), learner, in_smoke_run)
    except LearningProblem as problem:
        if len(few) == len(job.episodes):
            raise _failed(problem, few) from problem
        try:
            _try(smoke_job(job, learner, job.episodes), learner, in_smoke_run)
        except LearningProblem as again:
            raise _failed(again, job.episodes) from again
    durable.write(job.work / PASSED, b"{}")


def smoke_job(job: ImprovementJob, learner: Learner, episodes: Sequence[Path]) -> ImprovementJob:
    """The job of a smoke run on some of the episodes, in a folder inside the job's.

    The learner's class attribute `smoke` names the settings under which it takes a few steps.
    """
    short: Mapping[str, Setting] = getattr(type(learner), "smoke", {})
    work = job.work / f"smoke-{len(episodes)}"
    recipe = parse(Recipe, job.recipe, "The recipe of the job")
    recipe = replace(recipe, settings={**recipe.settings, **short})
    return replace(job, recipe=recipe.mapping(), episodes=tuple(episodes), work=work, output=work / "version")


def _try(job: ImprovementJob, learner: Learner, report: Callable[[Progress], None]) -> None:
    """Train a version for a few steps and check it; then its files are removed."""
    if not (job.output / "policy.json").is_file():
        durable.make_folder(job.work)
        learner.improve(job, report)
    if not (job.output / "policy.json").is_file():
        raise LearningProblem(f"The learner {job.recipe['learner']!r} returned without a version.")
    with ending_after(LIMIT_S, job.work.parent / "failure.txt"):
        print("Smoke run:", require_acting(job).sentence)
    removal.try_remove(job.work, job.work.parent)


def _failed(problem: LearningProblem, episodes: Sequence[Path]) -> LearningProblem:
    return LearningProblem(f"The smoke run on {counted(len(episodes), 'episode')} failed: {problem}")
