"""What an experiment must fulfil when an agent submits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from enpire.campaign.experiments import Proposals
from enpire.campaign.proposed import Experiment
from enpire.campaign.recipe import Recipe, changed, stage_of
from enpire.campaign.sharing import visible
from enpire.errors import UsageError
from enpire.lab import Lab
from enpire.steps.improve import why_not_parent

MAX_OPEN_EXPERIMENTS = 8
"""Experiments that may wait or run at one time, over all agent sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Content of a request to try an experiment: settings, no code."""

    hypothesis_id: str
    changes: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    regime: str = ""
    """One of the campaign's recipes of branches; empty: the recipe in force."""
    parent_experiment: str = ""
    """The experiment whose branch is continued; empty: the branch starts from the champion."""


def recipe_to_change(lab: Lab, submission: Submission, lane: str) -> Recipe:
    """The recipe that an experiment changes: one of branches by name, or the one in force that the session knows."""
    if not submission.regime:
        return visible(lab.state.proposals, lab.campaign.branches, lane).recipe_in_force(lab.recipe)
    if submission.regime not in lab.regimes:
        allowed = ", ".join(lab.regimes) or "none, because the campaign has no branches"
        raise UsageError(f"There is no regime {submission.regime!r} in this campaign; allowed are: {allowed}.")
    return lab.regimes[submission.regime]


def changed_recipe(recipe: Recipe, submission: Submission, name: str) -> Recipe:
    """The changed recipe. The recipe of a regime may be tried as it is."""
    if submission.regime and not submission.changes:
        return replace(recipe, name=name)
    return changed(recipe, submission.changes, name)


def require_active(proposals: Proposals, lane: str) -> None:
    """Refuse proposals of an agent session that ended its work."""
    if lane in proposals.finished:
        raise UsageError(
            f"The agent session {lane!r} ended its work ({proposals.finished[lane]}); propose from another session."
        )


def require_not_rejected(proposals: Proposals, hypothesis_id: str) -> None:
    """Refuse to test a hypothesis that an operator rejected."""
    proposed = proposals.hypotheses.get(hypothesis_id)
    if proposed is not None and proposed.mark == "rejected":
        why = f": {proposed.marked_why}" if proposed.marked_why else ""
        raise UsageError(
            f"{proposed.marked_by} rejected the hypothesis {hypothesis_id}{why}; propose another hypothesis."
        )


def require_queue_space(proposals: Proposals, lane: str) -> None:
    """Refuse a second undecided experiment of a session, and more experiments than may be open."""
    if mine := proposals.in_the_way(lane):
        raise UsageError(f"Your experiment {mine[0].experiment_id} is not decided yet; wait for it, or give it up.")
    require_few_open(proposals)


def require_few_open(proposals: Proposals) -> None:
    """Refuse more experiments than may be open over all agent sessions and operators."""
    if len(proposals.in_the_way()) >= MAX_OPEN_EXPERIMENTS:
        raise UsageError(f"{MAX_OPEN_EXPERIMENTS} experiments are open, which is the limit; wait until one is decided.")


def require_parent(lab: Lab, submission: Submission, recipe: Recipe, lane: str) -> None:
    """Refuse a parent that the sharing forbids, that has no version, or whose version the learner cannot start from."""
    if not submission.parent_experiment:
        return
    parent = find_experiment(lab, submission.parent_experiment)
    require_shared(lab, parent, lane, "continue a branch of your own")
    branch = lab.state.branches.by_experiment.get(parent.experiment_id)
    if branch is None or not branch.newest:
        raise UsageError(f"Experiment {parent.experiment_id} has no version to continue from; leave it out.")
    if lab.state.quarantine.holds(branch.newest):
        raise UsageError(f"Experiment {parent.experiment_id} is in quarantine until a person clears it; leave it out.")
    if branch.newest in lab.state.rolled_back:
        raise UsageError(
            f"The version of experiment {parent.experiment_id} was the champion and was rolled back; leave it out."
        )
    if why := why_not_parent(lab, stage_of(recipe, 1), branch.newest):
        raise UsageError(f"Experiment {parent.experiment_id} made {why}; leave it out, or choose another regime.")


def require_shared(lab: Lab, experiment: Experiment, lane: str, instead: str) -> None:
    """Refuse to build on an experiment of another session unless the campaign shares everything between the two."""
    level = lab.campaign.branches.between(lane, experiment.lane)
    if level != "adopt":
        raise UsageError(
            f"Experiment {experiment.experiment_id} belongs to the agent session {experiment.lane!r}; between it and "
            f"{lane!r} the campaign has sharing: {level}, and `adopt` is needed; {instead}."
        )


def require_untried(lab: Lab, recipe: Recipe, submission: Submission, lane: str) -> None:
    """Refuse a recipe that was tried against the same champion: a repeated gate would raise the false-positive rate.

    In a branch that continues another one, it is a new experiment. Between isolated sessions it is one, too: each gate
    has its own level, and a refusal would tell one session what the other tried.
    """
    plan = lab.campaign.branches
    for earlier in lab.state.proposals.experiments.values():
        counts = not earlier.over or (earlier.phase == "decided" and earlier.champion == lab.state.champion)
        same = earlier.recipe_hash == recipe.hash and earlier.parent_experiment == submission.parent_experiment
        if counts and same and plan.between(lane, earlier.lane) != "isolated":
            result = earlier.decision or "not decided yet"
            raise UsageError(
                f"Experiment {earlier.experiment_id} tried exactly this recipe ({result}); change a setting."
            )


def find_experiment(lab: Lab, experiment_id: str) -> Experiment:
    """An experiment of the campaign; UsageError if there is none of this id."""
    experiment = lab.state.proposals.experiments.get(experiment_id)
    if experiment is None:
        raise UsageError(f"There is no experiment {experiment_id!r}; list_experiments lists the experiments.")
    return experiment
