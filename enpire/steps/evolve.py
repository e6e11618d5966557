"""Agents propose what to try next; what they submit takes the same road as any candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from enpire.campaign.agent_events import (
    AgentTurned,
    BriefRead,
    ConclusionPosted,
    Edge,
    ExperimentAdopted,
    ExperimentCancelled,
    ExperimentChecked,
    ExperimentRefused,
    ExperimentSubmitted,
    GivenUp,
    HypothesisProposed,
    LaneFinished,
    RecipeDeclared,
    RequestRefused,
    TokensSpent,
)
from enpire.campaign.events import Event
from enpire.campaign.experiments import Experiment, Proposals, decided
from enpire.campaign.recipe import Recipe, changed
from enpire.errors import EnpireError, UsageError
from enpire.files import parse
from enpire.ids import mint
from enpire.lab import Lab
from enpire.requests import agent_requests
from enpire.requests.agent_requests import AgentRequest, RequestKind
from enpire.requests.file_queue import Unreadable
from enpire.steps.agent_process import lanes_of
from enpire.types import Hypothesis

QUEUE = 8
"""Experiments that may wait or run at one time, over all lanes."""
LONGEST = 2000
"""Characters of one text that an agent gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an agent says when it proposes a hypothesis."""

    statement: str
    falsifier: str
    regime: str
    kind: str
    effect: str = ""
    parents: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What an agent says when it submits a candidate: settings, never code."""

    hypothesis_id: str
    changes: Mapping[str, bool | int | float | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What an agent says when it builds on an experiment of another lane."""

    experiment_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A finding, or the reason why something is given up."""

    text: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Which brief an agent was given."""

    sha256: str
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one call of a language model cost, in tokens."""

    fresh: int
    cached: int
    output: int
    model: str = ""


class _Signature(TypedDict):
    """Which request an event answers."""

    request_id: str
    author: str
    lane: str


def _signed(request: AgentRequest) -> _Signature:
    return {"request_id": request.request_id, "author": request.author, "lane": request.lane}


def evolve(lab: Lab) -> None:
    """Decide the experiments whose gates decided, answer agents' requests, keep agents' processes running."""
    _decide(lab)
    if not lab.due("agents", 0.1):
        return
    if lab.recipe.space and lab.state.proposals.declared != lab.recipe:
        lab.write(RecipeDeclared(recipe=lab.recipe, recipe_hash=lab.recipe.hash))
    for request in agent_requests.waiting(lab.home.inbox):
        if isinstance(request, Unreadable):
            lab.write(RequestRefused(why=request.why))
            continue
        if request.request_id not in lab.state.proposals.answered:
            lab.write(*_answer(lab, request))
        agent_requests.remove(lab.home.inbox, request)
    if lab.campaign.agents and not lab.agent_lanes:
        lab.agent_lanes.extend(lanes_of(lab))
    for lane in lab.agent_lanes:
        lane.turn(lab)


def _decide(lab: Lab) -> None:
    for experiment in lab.state.proposals.undecided():
        if experiment.gate is not None:
            lab.write(decided(experiment, experiment.gate))


def _answer(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """The events of one request: what was asked for, or why not."""
    try:
        if request.campaign_id != lab.state.campaign_id:
            raise UsageError(f"Campaign {request.campaign_id} is not the one that runs ({lab.state.campaign_id}).")
        return _ANSWERS[request.kind](lab, request)
    except EnpireError as problem:
        why = str(problem)
    except Exception as mistake:  # noqa: BLE001  no request of an agent may end the loop; the ledger records why
        why = f"It cannot be judged ({type(mistake).__name__}): {mistake}."
    return [RequestRefused(**_signed(request), request=request.kind, why=why)]


def _hypothesis(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    claim = parse(Claim, request.content, "The hypothesis")
    _at_work(lab.state.proposals, request.lane)
    for name in ("statement", "falsifier", "regime", "effect"):
        _short(getattr(claim, name), name)
    if not claim.statement.strip() or not claim.falsifier.strip():
        raise UsageError("A hypothesis needs a statement, and a falsifier: what would show that it is wrong.")
    known = lab.state.proposals.hypotheses
    for cited in (*claim.parents, *(edge.to for edge in claim.edges)):
        if cited not in known:
            raise UsageError(f"There is no hypothesis {cited!r} to cite; list_experiments names those there are.")
    written = {
        "hypothesis_id": mint(), "statement": claim.statement, "falsifier": claim.falsifier, "regime": claim.regime,
        "kind": claim.kind, "author": request.author, "lane": request.lane, "parents": list(claim.parents),
    }  # fmt: skip
    hypothesis = parse(Hypothesis, written, "The hypothesis")
    return [HypothesisProposed(**_signed(request), hypothesis=hypothesis, effect=claim.effect, edges=claim.edges)]


def _experiment(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    submission = parse(Submission, request.content, "The submission")
    proposals = lab.state.proposals
    _at_work(proposals, request.lane)
    if submission.hypothesis_id not in proposals.hypotheses:
        raise UsageError(f"There is no hypothesis {submission.hypothesis_id!r}; propose it first.")
    experiment_id = mint()
    submitted = ExperimentSubmitted(
        **_signed(request), experiment_id=experiment_id, hypothesis_id=submission.hypothesis_id,
        changes=dict(submission.changes), champion=lab.state.champion,
    )  # fmt: skip
    force = proposals.recipe_in_force(lab.recipe)
    try:
        recipe = changed(force, submission.changes, f"{lab.recipe.name}+{experiment_id[-6:]}")
        _room(proposals, request.lane)
        _new(proposals, recipe, lab.state.champion)
    except UsageError as problem:
        refused = ExperimentRefused(
            **_signed(request), experiment_id=experiment_id, hypothesis_id=submission.hypothesis_id, why=str(problem)
        )
        return [submitted, refused]
    checked = ExperimentChecked(
        **_signed(request), experiment_id=experiment_id, hypothesis_id=submission.hypothesis_id,
        recipe_hash=recipe.hash, in_force=force.hash,
    )  # fmt: skip
    return [replace(submitted, recipe=recipe.without_space(), recipe_hash=recipe.hash), checked]


def _at_work(proposals: Proposals, lane: str) -> None:
    if lane in proposals.finished:
        raise UsageError(f"The lane {lane!r} ended its work ({proposals.finished[lane]}); propose from another one.")


def _room(proposals: Proposals, lane: str) -> None:
    if mine := proposals.undecided(lane):
        raise UsageError(f"Your experiment {mine[0].experiment_id} is not decided yet; wait for it, or give it up.")
    if len(proposals.undecided()) >= QUEUE:
        raise UsageError(f"{QUEUE} experiments are waiting already; wait until one is decided.")


def _new(proposals: Proposals, recipe: Recipe, champion: str) -> None:
    """The same recipe against the same champion is asked once: a gate is no lottery."""
    for earlier in proposals.experiments.values():
        counts = not earlier.over or (earlier.phase == "decided" and earlier.champion == champion)
        if counts and earlier.recipe_hash == recipe.hash:
            told = earlier.decision or "not decided yet"
            raise UsageError(f"Experiment {earlier.experiment_id} has tried exactly this recipe ({told}).")


def _adopt(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    adoption = parse(Adoption, request.content, "The adoption")
    experiment = _known(lab, adoption.experiment_id)
    if experiment.lane == request.lane:
        raise UsageError(f"Experiment {experiment.experiment_id} is your own; adopt those of other lanes.")
    if not experiment.recipe:
        raise UsageError(f"Experiment {experiment.experiment_id} was refused, so there is nothing to adopt.")
    return [
        ExperimentAdopted(
            **_signed(request), experiment_id=experiment.experiment_id, hypothesis_id=experiment.hypothesis_id
        )
    ]


def _finding(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    note = parse(Note, request.content, "The finding")
    _short(note.text, "text")
    if not note.text.strip():
        raise UsageError("A finding needs a text.")
    proposals = lab.state.proposals
    if note.about and note.about not in proposals.hypotheses and note.about not in proposals.experiments:
        raise UsageError(f"There is no hypothesis or experiment {note.about!r} that a finding could be about.")
    return [ConclusionPosted(**_signed(request), conclusion_id=mint(), text=note.text, about=note.about)]


def _give_up(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """An honest way out, which counts for nobody: what is queued is cancelled, what runs is decided all the same."""
    note = parse(Note, request.content, "What is given up")
    _short(note.text, "reason")
    proposals, lane = lab.state.proposals, request.lane
    mine = proposals.undecided(lane)
    if note.about in proposals.hypotheses:
        mine = [item for item in mine if item.hypothesis_id == note.about]
    elif note.about:
        mine = [_known(lab, note.about)]
        if mine[0].lane != lane:
            raise UsageError(f"Experiment {note.about} belongs to the lane {mine[0].lane!r}.")
    why = f"given up: {note.text}"
    cancelled = [
        ExperimentCancelled(**_signed(request), experiment_id=experiment.experiment_id, why=why)
        for experiment in mine
        if experiment.phase == "queued"
    ]
    return [GivenUp(**_signed(request), about=note.about, reason=note.text), *cancelled]


def _finish(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """A lane that ended its work proposes nothing more, and is not started again."""
    note = parse(Note, request.content, "The summary")
    _short(note.text, "summary")
    if not note.text.strip():
        raise UsageError("A summary needs a text: what was tried, what worked, what did not.")
    if mine := lab.state.proposals.undecided(request.lane):
        raise UsageError(f"Your experiment {mine[0].experiment_id} is not decided yet; wait for it, or give it up.")
    return [LaneFinished(**_signed(request), text=note.text)]


def _brief(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    read = parse(Read, request.content, "The brief")
    return [BriefRead(**_signed(request), sha256=read.sha256, size=read.size)]


def _tokens(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    spent = parse(Spent, request.content, "The tokens")
    if min(spent.fresh, spent.cached, spent.output) < 0:
        raise UsageError("Tokens that were spent cannot be negative.")
    return [
        TokensSpent(**_signed(request), fresh=spent.fresh, cached=spent.cached, output=spent.output, model=spent.model)
    ]


def _turn(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    note = parse(Note, request.content, "The turn")
    return [AgentTurned(**_signed(request), text=note.text[:LONGEST])]


def _known(lab: Lab, experiment_id: str) -> Experiment:
    experiment = lab.state.proposals.experiments.get(experiment_id)
    if experiment is None:
        raise UsageError(f"There is no experiment {experiment_id!r}; list_experiments names those there are.")
    return experiment


def _short(text: str, name: str) -> None:
    if len(text) > LONGEST:
        raise UsageError(f"The {name} has {len(text)} characters; at most {LONGEST} are taken.")


_ANSWERS: Mapping[RequestKind, Callable[[Lab, AgentRequest], Sequence[Event]]] = {
    "hypothesis": _hypothesis,
    "experiment": _experiment,
    "adopt": _adopt,
    "finding": _finding,
    "give up": _give_up,
    "finish": _finish,
    "brief": _brief,
    "tokens": _tokens,
    "turn": _turn,
}
