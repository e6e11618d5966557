"""Answer the submission of a code candidate: an experiment whose learner and policy an agent wrote (docs/code.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enpire.campaign.agent_events import ExperimentChecked, ExperimentRefused, ExperimentSubmitted
from enpire.campaign.events import Event
from enpire.campaign.sharing import visible
from enpire.code_candidates.probes import probes
from enpire.code_candidates.recipe import REGIME, read_code_recipe, recipe_of, tree_of
from enpire.code_candidates.repository import CodeRepository, Commit, lane_ref
from enpire.code_candidates.rooms import require_sandbox
from enpire.code_candidates.sameness import form_of
from enpire.code_candidates.skills import skills_of
from enpire.code_candidates.surface import check_files
from enpire.errors import UsageError
from enpire.files import parse
from enpire.ids import mint
from enpire.lab import Lab
from enpire.requests.agent_requests import AgentRequest
from enpire.steps.experiment_checks import (
    find_experiment,
    require_active,
    require_not_rejected,
    require_queue_space,
    require_shared,
)
from enpire.steps.tripwires import read_submission

LONGEST_WHY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSubmission:
    """Content of a request to try a code candidate, whose files the session has put into the repository."""

    hypothesis_id: str
    commit: str = ""
    """Empty where the files were refused."""
    refused: str = ""
    """Why the files were refused; nothing of them was kept."""
    parent_experiment: str = ""
    """The code candidate that this one continues; empty for none."""


def code_experiment(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """The events that answer a submission: the experiment waits for a training slot, or why it is refused."""
    submission = parse(CodeSubmission, request.content, "The submission")
    proposals = lab.state.proposals
    require_active(proposals, request.lane)
    if submission.hypothesis_id not in visible(proposals, lab.campaign.branches, request.lane).hypotheses:
        raise UsageError(f"There is no hypothesis {submission.hypothesis_id!r}; propose it first.")
    require_not_rejected(proposals, submission.hypothesis_id)
    experiment_id = mint()
    submitted = ExperimentSubmitted(
        request_id=request.request_id, author=request.author, lane=request.lane, experiment_id=experiment_id,
        hypothesis_id=submission.hypothesis_id, changes={}, champion=lab.state.champion, regime=REGIME,
        parent_experiment=submission.parent_experiment,
    )  # fmt: skip
    try:
        return _accepted(lab, submission, submitted)
    except UsageError as problem:
        refused = ExperimentRefused(
            request_id=request.request_id, author=request.author, lane=request.lane, experiment_id=experiment_id,
            hypothesis_id=submission.hypothesis_id, why=str(problem)[:LONGEST_WHY],
        )  # fmt: skip
        return [submitted, refused]


def _accepted(lab: Lab, submission: CodeSubmission, submitted: ExperimentSubmitted) -> Sequence[Event]:
    """The events of an accepted candidate, after its commit has got the ref of the experiment.

    Raises:
        UsageError: it is refused.
    """
    if not lab.campaign.code.allowed:
        raise UsageError("This campaign allows no code candidates; its file must say code: {allowed: true}.")
    if submission.refused:
        raise UsageError(submission.refused)
    sandbox = require_sandbox(unsandboxed=lab.campaign.code.unsandboxed)
    require_queue_space(lab.state.proposals, submitted.lane)
    _require_parent(lab, submission, submitted.lane)
    repository = CodeRepository(lab.home.root)
    kept = repository.resolve(submission.commit)
    files = repository.files(kept.commit)
    trees = check_files(files, files)  # what it changes was checked against its parent before it was committed
    asked, skills = probes(trees), skills_of(files, trees)
    written, form = read_code_recipe(files), form_of(files, trees)
    _require_untried(lab, kept, form, submission, submitted.lane)
    recipe = recipe_of(kept, written, f"{REGIME}+{submitted.experiment_id[-6:]}")
    repository.name(submitted.experiment_id, kept.commit)
    repository.point(lane_ref(lab.state.campaign_id, submitted.lane), kept.commit)
    rollouts = recipe.turn_rollouts or lab.campaign.rounds.episodes
    signed = {"request_id": submitted.request_id, "author": submitted.author, "lane": submitted.lane}
    accepted = ExperimentSubmitted(
        **signed,
        experiment_id=submitted.experiment_id,
        hypothesis_id=submitted.hypothesis_id,
        changes={},
        champion=submitted.champion,
        recipe=recipe.without_space(),
        recipe_hash=recipe.hash,
        regime=REGIME,
        parent_experiment=submission.parent_experiment,
        turn_rollouts=rollouts,
        commit=kept.commit,
        sandbox=sandbox,
        form=form,
        skills=skills,
    )
    return [
        accepted,
        ExperimentChecked(
            **signed, experiment_id=submitted.experiment_id, hypothesis_id=submitted.hypothesis_id,
            recipe_hash=recipe.hash, in_force=recipe.hash,
        ),
        *read_submission(lab, accepted, files, asked),
    ]  # fmt: skip


def _require_parent(lab: Lab, submission: CodeSubmission, lane: str) -> None:
    if not submission.parent_experiment:
        return
    parent = find_experiment(lab, submission.parent_experiment)
    require_shared(lab, parent, lane, "continue a branch of your own")
    branch = lab.state.branches.by_experiment.get(parent.experiment_id)
    if branch is None or not branch.newest:
        raise UsageError(f"Experiment {parent.experiment_id} has no version to continue from; leave it out.")


def _require_untried(lab: Lab, kept: Commit, form: str, submission: CodeSubmission, lane: str) -> None:
    """Refuse code that was tried against the same champion: a repeated gate would raise the false-positive rate."""
    for earlier in lab.state.proposals.experiments.values():
        counts = not earlier.over or (earlier.phase == "decided" and earlier.champion == lab.state.champion)
        identical = earlier.recipe is not None and tree_of(earlier.recipe) == kept.tree
        if counts and (identical or earlier.form == form) and earlier.parent_experiment == submission.parent_experiment:
            if lab.campaign.branches.between(lane, earlier.lane) == "isolated":
                continue
            result = earlier.decision or "not decided yet"
            difference = "" if identical else ", apart from comments, layout and names"
            raise UsageError(
                f"Experiment {earlier.experiment_id} tried exactly this code{difference} ({result}); change it."
            )
