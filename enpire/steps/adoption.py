"""What the next candidate of an agent session starts from: adopt another experiment, or go back to an earlier commit.

The harness alone moves refs of the repository (`enpire.code_candidates.repository`); the ledger records each move.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from enpire.campaign.agent_events import CodeReverted, ExperimentAdopted
from enpire.campaign.events import Event
from enpire.campaign.proposed import Experiment
from enpire.code_candidates.repository import CodeRepository, champion_ref, is_commit_id, lane_ref
from enpire.errors import EnpireError, UsageError
from enpire.files import parse, shown
from enpire.lab import Lab
from enpire.requests.agent_requests import AgentRequest
from enpire.steps.experiment_checks import find_experiment, require_active, require_not_rejected, require_shared

CHAMPION = "champion"
"""In the place of an experiment's id: the experiment that made the champion."""
MOST_BACK = 500
"""Commits of an agent session to which it may go back, the newest."""
SHORTEST_ID = 7
"""Fewest digits by which a commit is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Content of a request to build on another experiment."""

    experiment_id: str
    """Its id, or `champion`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversion:
    """Content of a request to go back to an earlier commit."""

    to: str = ""
    """A commit of this session, its first digits, or its experiment; empty: what its present one continues."""


def adopt(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """Build on an experiment of another session, or on the code of the champion."""
    adoption = parse(Adoption, request.content, "The adoption")
    if adoption.experiment_id == CHAMPION:
        experiment = _champion(lab)
    else:
        experiment = find_experiment(lab, adoption.experiment_id)
        if experiment.lane == request.lane:
            raise UsageError(
                f"Experiment {experiment.experiment_id} is your own; adopt one of another agent session, or go back to "
                "code of your own with revert_code."
            )
    require_shared(lab, experiment, request.lane, "try a change of your own")
    require_not_rejected(lab.state.proposals, experiment.hypothesis_id)
    if experiment.quarantined:
        raise UsageError(f"Experiment {experiment.experiment_id} is in quarantine until a person clears it.")
    if not experiment.recipe:
        raise UsageError(f"Experiment {experiment.experiment_id} was refused, so it has no recipe to adopt.")
    if experiment.commit:
        require_active(lab.state.proposals, request.lane)
        _move(lab, request.lane, experiment.commit)
    return [
        ExperimentAdopted(
            **request.signature, experiment_id=experiment.experiment_id, hypothesis_id=experiment.hypothesis_id,
            commit=experiment.commit,
        )
    ]  # fmt: skip


def revert(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """Let the next code candidate of a session continue an earlier commit: a named one, or what its own continues."""
    to = parse(Reversion, request.content, "The reversion").to
    proposals = lab.state.proposals
    require_active(proposals, request.lane)
    present = proposals.code_base.get(request.lane, "")
    if not present:
        raise UsageError(f"The agent session {request.lane!r} has submitted and adopted no code to go back from.")
    mine = [one.commit for one in proposals.experiments.values() if one.lane == request.lane and one.commit]
    ancestors = CodeRepository(lab.home.root).ancestors(present, MOST_BACK)
    known = [*ancestors, *reversed(mine)]
    commit = _named(known, proposals.experiments.get(to), request.lane, to) if to else _before(ancestors, request.lane)
    _move(lab, request.lane, commit)
    return [CodeReverted(**request.signature, commit=commit, left=present)]


def name_champions(lab: Lab) -> None:
    """Give each champion that is code a ref with its position among the champions of the campaign."""
    deployed = list(lab.state.crowned)
    if lab.named_champions == len(deployed):
        return
    proposals, repository = lab.state.proposals, CodeRepository(lab.home.root)
    for position in range(lab.named_champions, len(deployed)):
        maker = proposals.experiments.get(lab.state.quarantine.subject_of(deployed[position])[0])
        if maker is not None and maker.commit:
            # The ref is for readers; a training run that lacks the commit fails and says so.
            with suppress(EnpireError):
                repository.point(champion_ref(lab.state.campaign_id, position + 1), maker.commit)
    lab.named_champions = len(deployed)


def _champion(lab: Lab) -> Experiment:
    """The code candidate that made the champion.

    Raises:
        UsageError: no code of an agent made it.
    """
    maker = lab.state.proposals.experiments.get(lab.state.quarantine.subject_of(lab.state.champion)[0])
    if maker is None or not maker.commit:
        raise UsageError(
            "The champion was made by a recipe of the lab and holds no code to adopt; begin with the template."
        )
    return maker


def _before(ancestors: Sequence[str], lane: str) -> str:
    """The commit that the present one of a session continues; `ancestors` begins with the present one."""
    if len(ancestors) < 2:
        raise UsageError(f"The code of the agent session {lane!r} continues no earlier code; name another commit.")
    return ancestors[1]


def _named(known: Sequence[str], experiment: Experiment | None, lane: str, to: str) -> str:
    """The commit that a session asks for, among those that it knows; `known` begins with the present one."""
    if experiment is not None and experiment.lane == lane and experiment.commit:
        return experiment.commit
    found = {one for one in known if len(to) >= SHORTEST_ID and one.startswith(to)}
    if len(found) != 1 or not is_commit_id(next(iter(found))):
        listed = ", ".join(one[:12] for one in dict.fromkeys(known[:8]))
        raise UsageError(
            f"{shown(to)} names {len(found)} commits of the agent session {lane!r}; its newest are {listed}."
        )
    return found.pop()


def _move(lab: Lab, lane: str, commit: str) -> None:
    CodeRepository(lab.home.root).point(lane_ref(lab.state.campaign_id, lane), commit)
