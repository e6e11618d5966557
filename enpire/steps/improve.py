"""Train a candidate in a process of its own when there are enough new episodes. The robots keep working."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from enpire.campaign.learner_data import data_hash
from enpire.campaign.proposed import Experiment
from enpire.campaign.recipe import Recipe, stage_of
from enpire.campaign.state import Training
from enpire.campaign.training_events import LearnerEnded, LearnerFailed, LearnerKilled, LearnerStarted, VersionMade
from enpire.campaign.training_seeds import seed_of_older_run, seed_of_round
from enpire.code_candidates.recipe import code_source, commit_of
from enpire.errors import EnpireError
from enpire.fleet.local import station_files
from enpire.ids import file_name, mint, version_id
from enpire.interfaces import ImprovementJob
from enpire.lab import Lab
from enpire.parts import LEARNERS, parent_kinds
from enpire.processes.training_process import TrainingProcess
from enpire.scheduling.lockstep import demonstrated, experiment_first
from enpire.steps.evaluate import why_unloadable
from enpire.store import versions
from enpire.types import Json

MAX_FAILURES = 3
"""Training runs that may fail in a row before the campaign ends."""
MAX_RESTARTS = 5
"""Number of times that a training run is restarted after its process was killed, before it counts as failed."""


def improve(lab: Lab) -> None:
    """Begin a training run when one is due, follow the current run, and publish the version that it made."""
    if lab.state.training is None:
        if (experiment := _next_experiment(lab)) is not None and experiment.recipe is not None:
            _begin(lab, experiment.recipe, experiment.experiment_id)
        elif _round_is_due(lab):
            _begin(lab, lab.state.proposals.recipe_in_force(lab.recipe) if lab.state.champion else lab.base_recipe)
        return
    if lab.learner is None:
        lab.learner = lab.train(job_of(lab, lab.state.training))
    if (progress := lab.learner.progress()) is not None:
        lab.learner_progress = progress
    lab.learner = follow(lab, lab.state.training, lab.learner)
    if lab.learner is None:
        lab.learner_progress = None


def _is_blocked(lab: Lab) -> bool:
    state = lab.state
    return bool(state.paused or state.free_candidates or state.gates or state.confirmation)


def _next_experiment(lab: Lab) -> Experiment | None:
    """The oldest queued experiment, if the last training run was one of the campaign's own rounds.

    Rounds and experiments alternate, so agents cannot displace the campaign's own recipe. Both use the same budget of
    rounds.
    """
    state, campaign = lab.state, lab.campaign
    if campaign.branches.recipes:
        return None  # experiments run in branches (steps/branch.py)
    if _is_blocked(lab) or not state.proposals.experiment_turn or state.round >= campaign.budget.rounds:
        return None
    if state.usable(_acts(lab)) < campaign.rounds.episodes and not campaign.rounds.lockstep:
        return None  # an experiment learns from as many new rollouts as a round
    return next(iter(state.proposals.queue()), None)


def _round_is_due(lab: Lab) -> bool:
    state, campaign = lab.state, lab.campaign
    if _is_blocked(lab) or state.failures_in_a_row >= MAX_FAILURES or experiment_first(state, campaign):
        return False
    if not state.champion:
        return demonstrated(state, campaign) >= campaign.base.demonstrations
    if state.round >= campaign.budget.rounds or state.data.fresh(acts := _acts(lab)) < campaign.rounds.episodes:
        return False
    return state.usable(acts) >= campaign.rounds.episodes


def _acts(lab: Lab) -> str:
    """The version whose rollouts the next round learns from: its parent, or the champion if no station can run that."""
    state = lab.state
    return state.champion if state.promising and why_unloadable(lab, state.promising) else state.parent


def _begin(lab: Lab, recipe: Recipe, experiment_id: str = "") -> None:
    state = lab.state
    round_number = state.round + 1 if state.champion else 0
    episodes = state.data.of_round(round_number, _acts(lab), lab.campaign, state.open.values())
    wanted, champions = state.champion if experiment_id else state.parent, state.may_be_parents(state.champions)
    parent = suitable_parent(lab, present_stage(recipe, round_number), [wanted], champions)
    lab.write(
        LearnerStarted(
            job=mint(), learner=recipe.learner, parent=parent, round=round_number,
            episodes=tuple(item.order_id for item in episodes), recipe=recipe.without_space(),
            recipe_hash=recipe.hash, data_hash=data_hash(episodes), experiment_id=experiment_id,
            seed=seed_of_round(lab.campaign.seed, round_number),
        )
    )  # fmt: skip
    assert lab.state.training is not None
    lab.learner = lab.train(job_of(lab, lab.state.training))


def present_stage(recipe: Recipe, turn_or_round: int) -> Recipe:
    """The recipe's stage; the recipe itself where the stage cannot be read, because the training run then says why."""
    try:
        return stage_of(recipe, turn_or_round)
    except EnpireError:
        return recipe


def suitable_parent(lab: Lab, recipe: Recipe, wanted: Sequence[str], champions: Sequence[str]) -> str:
    """The version that a training run starts from: the first one wanted that the recipe's learner can start from.

    If none is, it is the newest of these champions that it can start from; empty if there is none. `recipe` has no
    stages (`present_stage`).
    """
    found = (version for version in (*wanted, *reversed(champions)) if version)
    return next((version for version in found if not why_not_parent(lab, recipe, version)), "")


def why_not_parent(lab: Lab, recipe: Recipe, version: str) -> str:
    """Why a recipe's learner cannot start from a version; empty if it can."""
    about, allowed = _manifest(lab, version), parent_kinds(LEARNERS.load(recipe.learner))
    kind = str(about["kind"])
    if allowed is not None and kind not in allowed:
        starts = ", ".join(sorted(allowed)) or "no version"
        return f"a version of kind {kind}; the learner {recipe.learner} can start from {starts}"
    tuned, program = recipe.settings.get("program"), about.get("program")
    if tuned and program and tuned != program:
        return f"a version of the program {program}; this recipe tunes {tuned}"
    return ""


def kind_of(lab: Lab, version: str) -> str:
    """Name of the plug-in that loads a version."""
    return str(_manifest(lab, version)["kind"])


def _manifest(lab: Lab, version: str) -> Mapping[str, Json]:
    return versions.manifest(lab.home.versions / version_id(version))


def job_of(lab: Lab, training: Training) -> ImprovementJob:
    """The job of a training event. It is the same after the orchestrator was killed and resumes."""
    work = lab.home.learning / file_name(training.job, "a training run")
    branch = lab.state.branches.by_experiment[training.experiment_id] if training.turn else None
    seed = training.seed
    return ImprovementJob(
        recipe=training.recipe.mapping(),
        task=lab.campaign.task,
        parent=lab.home.versions / version_id(training.parent) if training.parent else None,
        episodes=tuple(lab.store.folder(order_id, lab.state.campaign_id) for order_id in training.episodes),
        work=work,
        output=work / "version",
        round=training.round,
        seed=seed_of_older_run(lab.campaign.seed, training.round, branch) if seed is None else seed,
        station_seeds={
            file.name: file.seed for file in station_files(lab.campaign, lab.home) if file.driver == "mujoco"
        },
        smoke=training.turn == 1,
        code=code_source(training.recipe, lab.home.root, lab.campaign),
        turn=0 if seed is None else training.turn,  # an older run resumes in the stage of a sequence in which it began
    )


def follow(lab: Lab, training: Training, learner: TrainingProcess) -> TrainingProcess | None:
    """Record the end of a training run; returns its process while it runs, also a restarted one, else None."""
    if (metrics := learner.metrics()) is not None:
        policy_id = versions.publish(learner.folder / "version", lab.home.versions)
        made = VersionMade(
            policy_id=policy_id, policy_kind=kind_of(lab, policy_id), parent=training.parent,
            recipe_hash=training.recipe_hash, data_hash=training.data_hash, round=training.round,
            commit=commit_of(training.recipe),
        )  # fmt: skip
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}  # JSON has no NaN
        ended = LearnerEnded(
            job=training.job, policy_id=policy_id, round=training.round, metrics=finite,
            seconds=round(time.monotonic() - learner.began_s, 3), cpu_s=learner.cpu_s(),
        )  # fmt: skip
        lab.write(made, ended)
    elif learner.was_killed() and learner.restarts < MAX_RESTARTS:
        lab.write(LearnerKilled(job=training.job, restarts=learner.restarts + 1))
        return learner.again(lab.train, job_of(lab, training))
    elif why := learner.failure():
        lab.write(LearnerFailed(job=training.job, why=why, cpu_s=learner.cpu_s()))
    else:
        return learner
    return None
