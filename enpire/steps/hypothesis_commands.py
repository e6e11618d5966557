"""Commands of operators about hypotheses: propose, reject, restore, pin, unpin; and run an experiment again.

A proposal of an operator follows the candidate pipeline like one of an agent; its lane is `human`. Operators may have
several experiments open, an agent session one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from enpire.campaign.agent_events import (
    ExperimentCancelled,
    ExperimentChecked,
    ExperimentSubmitted,
    HypothesisMarked,
    HypothesisProposed,
    Mark,
)
from enpire.campaign.events import Event
from enpire.campaign.experiments import Experiment
from enpire.campaign.recipe import Recipe
from enpire.errors import UsageError
from enpire.ids import mint
from enpire.lab import Lab
from enpire.requests.operator_commands import OperatorCommand
from enpire.steps.branch import branch_ended
from enpire.steps.experiment_checks import (
    Submission,
    changed_recipe,
    find_experiment,
    recipe_to_change,
    require_few_open,
    require_not_rejected,
    require_parent,
    require_untried,
)
from enpire.types import Hypothesis

LANE = "human"
"""The lane of proposals that operators make."""
FALSIFIER = "The gate on hidden starts does not promote the candidate."
MARKS: Mapping[str, Mark] = {
    "hypothesis reject": "rejected", "hypothesis pin": "pinned", "hypothesis restore": "", "hypothesis unpin": "",
}  # fmt: skip
"""Command -> the mark that it sets."""


def why_not_marked(lab: Lab, command: OperatorCommand) -> str:
    """Why a mark is refused; empty if it is accepted."""
    proposed = lab.state.proposals.hypotheses.get(command.target)
    if proposed is None:
        return f"this campaign has no hypothesis {command.target[:70]!r}; `enpire hypothesis list` lists them"
    if command.kind == "hypothesis reject" and not command.reason.strip():
        return "a rejection needs a reason, which agents read: send it as `reason`"
    now = {"hypothesis restore": "rejected", "hypothesis unpin": "pinned"}.get(command.kind)
    if now is not None and proposed.mark != now:
        return f"the hypothesis {command.target} is not {now}"
    if proposed.mark == MARKS[command.kind]:
        return f"{proposed.marked_by} {proposed.mark} the hypothesis {command.target} already"
    if command.kind == "hypothesis pin" and proposed.mark == "rejected":
        return f"{proposed.marked_by} rejected the hypothesis {command.target}; restore it first"
    return ""


def mark(lab: Lab, command: OperatorCommand) -> None:
    """Mark a hypothesis. A rejection cancels its experiments that wait and ends its branches; open gates decide."""
    marked = HypothesisMarked(
        hypothesis_id=command.target, mark=MARKS[command.kind], by=command.operator, reason=command.reason
    )
    mine = [one for one in lab.state.proposals.undecided() if one.hypothesis_id == command.target]
    ended: Sequence[Event] = ended_by(lab, command, mine) if marked.mark == "rejected" else ()
    lab.write(marked, *ended)


def ended_by(lab: Lab, command: OperatorCommand, mine: Sequence[Experiment]) -> Sequence[Event]:
    """The events that end undecided experiments which an operator rejects; open gates decide."""
    why = f"rejected by {command.operator}: {command.reason}"
    cancelled = [
        ExperimentCancelled(
            request_id=command.command_id, author=command.operator, lane=LANE, experiment_id=one.experiment_id, why=why
        )
        for one in mine
        if one.phase == "queued" or (one.phase == "gate" and not one.gate_id)
    ]
    ids = {one.experiment_id for one in mine}
    begun = [one for one in lab.state.branches.undecided if one.experiment_id in ids and one.phase != "queued"]
    return [*cancelled, *(branch_ended(lab, one, "given up", why) for one in begun)]


def why_not_rerun(lab: Lab, command: OperatorCommand) -> str:
    """Why an experiment is not tried again; empty if it is."""
    try:
        _rerun(lab, command)
    except UsageError as problem:
        return str(problem)
    return ""


def rerun(lab: Lab, command: OperatorCommand) -> None:
    """Try an experiment again: the same recipe, trained anew, in a gate of its own with other hidden starts."""
    lab.write(*_rerun(lab, command))


def _rerun(lab: Lab, command: OperatorCommand) -> Sequence[Event]:
    earlier = find_experiment(lab, command.target)
    if not command.reason.strip():
        raise UsageError("Another try needs a reason, which the ledger keeps: send it as `reason`.")
    if not earlier.over:
        raise UsageError(f"Experiment {earlier.experiment_id} is not decided yet; wait for it.")
    if earlier.recipe is None or earlier.commit:
        kind = "code of an agent, which submits it again" if earlier.commit else "refused, so it has no recipe"
        raise UsageError(f"Experiment {earlier.experiment_id} is {kind}; it cannot be tried again here.")
    if earlier.quarantined:
        raise UsageError(f"Experiment {earlier.experiment_id} is in quarantine until a person clears it.")
    require_not_rejected(lab.state.proposals, earlier.hypothesis_id)
    submission = Submission(
        hypothesis_id=earlier.hypothesis_id, changes=earlier.changes, regime=earlier.regime,
        parent_experiment=earlier.parent_experiment,
    )  # fmt: skip
    return _submitted(lab, command, submission, earlier.recipe, rerun_of=earlier.experiment_id)


def why_not_proposed(lab: Lab, command: OperatorCommand) -> str:
    """Why a proposal is refused; empty if it is accepted."""
    try:
        _proposed(lab, command)
    except UsageError as problem:
        return str(problem)
    return ""


def propose(lab: Lab, command: OperatorCommand) -> None:
    """Record the hypothesis of an operator, and queue the experiment that tests it."""
    lab.write(*_proposed(lab, command))


def _proposed(lab: Lab, command: OperatorCommand) -> Sequence[Event]:
    """The events of a proposal: its statement is the reason of the command, its changes are the target."""
    if not command.reason.strip():
        raise UsageError(
            "A proposal needs a statement, such as 'more passes find more successes': send it as `reason`."
        )
    regime, changes = read_changes(command.target)
    hypothesis = Hypothesis(
        hypothesis_id=mint(), statement=command.reason.strip(), falsifier=FALSIFIER, regime="other", kind="improve",
        author=command.operator, lane=LANE, parents=(),
    )  # fmt: skip
    proposed = HypothesisProposed(
        request_id=command.command_id, author=command.operator, lane=LANE, hypothesis=hypothesis, effect="", edges=()
    )
    submission = Submission(hypothesis_id=hypothesis.hypothesis_id, changes=changes, regime=regime)
    recipe = changed_recipe(recipe_to_change(lab, submission, LANE), submission, "proposal")
    require_untried(lab, recipe, submission, LANE)
    return [proposed, *_submitted(lab, command, submission, recipe)]


def _submitted(
    lab: Lab, command: OperatorCommand, submission: Submission, recipe: Recipe, rerun_of: str = ""
) -> Sequence[Event]:
    """The events of an experiment that waits for a training slot."""
    require_few_open(lab.state.proposals)
    require_parent(lab, submission, recipe, LANE)
    experiment_id = mint()
    in_force = recipe_to_change(lab, submission, LANE)
    named = replace(recipe, name=f"{in_force.name.split('+')[0]}+{experiment_id[-6:]}")
    submitted = ExperimentSubmitted(
        request_id=command.command_id, author=command.operator, lane=LANE, experiment_id=experiment_id,
        hypothesis_id=submission.hypothesis_id, changes=dict(submission.changes), champion=lab.state.champion,
        recipe=named.without_space(), recipe_hash=named.hash, rerun_of=rerun_of,
    )  # fmt: skip
    if lab.campaign.branches.recipes:
        regime = submission.regime or lab.state.proposals.regime_in_force
        rollouts = lab.regimes.get(regime, lab.recipe).turn_rollouts or lab.campaign.rounds.episodes
        submitted = replace(
            submitted, regime=regime, turn_rollouts=rollouts, parent_experiment=submission.parent_experiment
        )
    checked = ExperimentChecked(
        request_id=command.command_id, author=command.operator, lane=LANE, experiment_id=experiment_id,
        hypothesis_id=submission.hypothesis_id, recipe_hash=named.hash, in_force=in_force.hash,
    )  # fmt: skip
    return [submitted, checked]


def read_changes(text: str) -> tuple[str, Mapping[str, bool | int | float | str]]:
    """(regime, changes) of one line: `regime=habc_plus passes=8 reweight_interventions=always`.

    Raises:
        UsageError: a word is no KEY=VALUE.
    """
    found: dict[str, bool | int | float | str] = {}
    for word in text.split():
        key, is_pair, value = word.partition("=")
        if not is_pair or not key or not value:
            raise UsageError(f"{word[:60]!r} is no change of a setting; write SETTING=VALUE, such as passes=8.")
        found[key] = _value(value)
    regime = found.pop("regime", "")
    return str(regime), found


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
