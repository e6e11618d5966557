"""Answer the requests of agents. An accepted experiment follows the candidate pipeline: training, then a gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from enpire.campaign.agent_events import (
    AgentTurned,
    BriefRead,
    ConclusionPosted,
    Edge,
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
from enpire.campaign.experiment_decisions import decided
from enpire.campaign.experiments import Proposals
from enpire.campaign.recipe import Recipe
from enpire.campaign.sharing import visible
from enpire.code_candidates.authored_tasks import author_of
from enpire.errors import EnpireError, UnrecordableEvent, UsageError
from enpire.files import parse
from enpire.ids import mint
from enpire.lab import Lab
from enpire.requests.agent_requests import FLOOD, MOST_WAITING, AgentRequest, ForgedRequest, RequestKind
from enpire.requests.file_queue import Unreadable
from enpire.steps.adoption import adopt, name_champions, revert
from enpire.steps.agent_process import agent_sessions_of
from enpire.steps.branch import branch_ended
from enpire.steps.code_experiments import code_experiment
from enpire.steps.experiment_checks import (
    Submission,
    changed_recipe,
    find_experiment,
    recipe_to_change,
    require_active,
    require_not_rejected,
    require_parent,
    require_queue_space,
    require_untried,
)
from enpire.steps.model_calls import ModelGateway, needs_models, record_model_calls
from enpire.steps.tripwires import read_submission, suspect_lane
from enpire.types import Hypothesis

MAX_HYPOTHESES, MAX_EXPERIMENTS = 1000, 500
"""Hypotheses and experiments of one lane in a campaign, with the refused ones."""
MAX_RECORDED_BYTES = 64 * 2**20
"""Bytes of the events that answer one lane in a campaign. Beyond it the lane may only give up or finish."""
PROPOSALS: frozenset[RequestKind] = frozenset({"hypothesis", "experiment", "code", "adopt"})
"""Requests that the author of the campaign's task may not send."""
PERIOD_S = 0.25
"""Period, in seconds, at which the requests of agents are answered."""
STATIONS_FIRST_S = 10.0
"""Longest time that agents wait for the stations of the campaign, in seconds."""
ANSWER_S = 0.05
"""Time for the requests of agents in one turn of the loop, in seconds. The others wait for the next turn."""
MAX_TEXT_LENGTH = 2000
"""Most characters of one text of an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisRequest:
    """Content of a request to record a hypothesis."""

    statement: str
    falsifier: str
    regime: str
    kind: str
    effect: str = ""
    parents: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Content of a request with one text: a conclusion, a summary, or a reason to give up."""

    text: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Content of a request that records which brief an agent read."""

    sha256: str
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """Content of a request that records the tokens of a language model by the agent's own count."""

    fresh: int
    cached: int
    output: int
    model: str = ""
    cache_write: int = 0


def evolve(lab: Lab) -> None:
    """Decide experiments whose gates decided, answer the agents' requests, and keep the agent sessions running."""
    _decide(lab)
    if not lab.due("agents", PERIOD_S):
        return
    _declare_recipes(lab)
    name_champions(lab)
    _answer_requests(lab)
    record_model_calls(lab)
    if lab.campaign.agents and not lab.agent_sessions and _stations_are_here(lab):
        gateway = [ModelGateway()] if needs_models(lab) else []
        lab.agent_sessions.extend([*agent_sessions_of(lab), *gateway])
    for session in lab.agent_sessions:
        session.turn(lab)


def _stations_are_here(lab: Lab) -> bool:
    """Whether the campaign's own stations have joined: robots wait for them, and no one waits for an agent.

    Their processes take seconds of processor time to start, as those of agents do.
    """
    return set(lab.campaign.stations.names) <= lab.stations.keys() or lab.clock() - lab.began_s > STATIONS_FIRST_S


def _declare_recipes(lab: Lab) -> None:
    """Record the search spaces of the campaign's recipe and of the recipes of branches, when they are new."""
    proposals, new = lab.state.proposals, list[RecipeDeclared]()
    if (lab.recipe.space or lab.regimes) and not _is_declared(lab.recipe, proposals.declared):
        new.append(RecipeDeclared(recipe=lab.recipe, recipe_hash=lab.recipe.hash))
    for name, recipe in lab.regimes.items():
        if not _is_declared(recipe, proposals.regimes.get(name)):
            new.append(RecipeDeclared(recipe=recipe, recipe_hash=recipe.hash, regime=name))
    lab.write(*new)


def _is_declared(recipe: Recipe, declared: Recipe | None) -> bool:
    """Whether a recipe is the declared one, whatever its `turn_rollouts` are. A copy would check its space again."""
    names = (one.name for one in fields(Recipe) if one.name != "turn_rollouts")
    return declared is not None and all(getattr(recipe, name) == getattr(declared, name) for name in names)


def _answer_requests(lab: Lab) -> None:
    """Answer the requests that wait, for at most ANSWER_S: a stop of an operator must not wait for agents."""
    began_s = lab.clock()
    for flood in lab.agent_inbox.floods():
        why = (
            f"{FLOOD} requests or more of its session waited at one time; the lab's tools leave at most {MOST_WAITING}"
        )
        suspect_lane(lab, flood.author, flood.lane, "flood", why)
    for request in lab.agent_inbox.waiting():
        if isinstance(request, Unreadable):
            lab.write(RequestRefused(author=request.author, lane=request.lane, why=request.why))
        else:
            if request.request_id not in lab.state.proposals.answered:
                if isinstance(request, ForgedRequest) and request.campaign_id == lab.state.campaign_id:
                    why = f"a request in the lane of its session names {request.claimed}, as no tool of the lab does"
                    suspect_lane(lab, request.author, request.lane, "forged lane", why)
                _write_answer(lab, request)
            lab.agent_inbox.remove(request)
        if lab.clock() - began_s > ANSWER_S:
            return


def _decide(lab: Lab) -> None:
    for experiment in lab.state.proposals.undecided():
        if experiment.gate is not None:
            lab.write(decided(experiment, experiment.gate))


def _write_answer(lab: Lab, request: AgentRequest) -> None:
    try:
        lab.write(*_answer(lab, request))
    except UnrecordableEvent as problem:
        lab.write(RequestRefused(**request.signature, request=request.kind, why=str(problem)))


def _answer(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """The events that answer one request, or the event that refuses it."""
    try:
        if request.campaign_id != lab.state.campaign_id:
            raise UsageError(
                f"The request is for campaign {request.campaign_id}, but campaign {lab.state.campaign_id} runs."
            )
        if isinstance(request, ForgedRequest):
            raise UsageError(f"The request names {request.claimed}, but lies in the lane {request.lane!r}.")
        _require_quota(lab.state.proposals, request)
        if request.kind in PROPOSALS and request.author == author_of(lab.campaign.task):
            raise UsageError(f"The agent {request.author} wrote this campaign's task, so it proposes nothing in it.")
        return _ANSWERS[request.kind](lab, request)
    except EnpireError as problem:
        why = str(problem)
    except Exception as mistake:  # noqa: BLE001  no request of an agent may end the loop; the ledger records why
        why = f"The request caused an error ({type(mistake).__name__}): {mistake}."
    return [RequestRefused(**request.signature, request=request.kind, why=why)]


def _require_quota(proposals: Proposals, request: AgentRequest) -> None:
    """Refuse what would go beyond the quotas of a lane. The counts come from the ledger, so a restart keeps them."""
    lane, kind = request.lane, request.kind
    if proposals.recorded.get(lane, 0) > MAX_RECORDED_BYTES and kind not in ("give up", "finish", "tokens"):
        raise UsageError(
            f"The requests of the agent session {lane!r} fill {MAX_RECORDED_BYTES >> 20} MiB of the ledger, the "
            "limit in one campaign; finish, or continue in another campaign."
        )
    made = sum(item.hypothesis.lane == lane for item in proposals.hypotheses.values())
    if kind == "hypothesis" and made >= MAX_HYPOTHESES:
        raise UsageError(f"The agent session {lane!r} proposed {made} hypotheses, which is the limit in one campaign.")
    tried = sum(item.lane == lane for item in proposals.experiments.values())
    if kind in ("experiment", "code") and tried >= MAX_EXPERIMENTS:
        raise UsageError(
            f"The agent session {lane!r} submitted {tried} experiments, which is the limit in one campaign."
        )


def _hypothesis(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    content = parse(HypothesisRequest, request.content, "The hypothesis")
    require_active(lab.state.proposals, request.lane)
    for name in ("statement", "falsifier", "regime", "effect"):
        _require_short(getattr(content, name), name)
    if not content.statement.strip() or not content.falsifier.strip():
        raise UsageError(
            "A hypothesis needs a `statement`, and a `falsifier`: the result that would show that it is wrong."
        )
    known = _visible(lab, request).hypotheses
    for cited in (*content.parents, *(edge.to for edge in content.edges)):
        if cited not in known:
            raise UsageError(f"There is no hypothesis {cited!r} to cite; list_experiments lists the hypotheses.")
    written = {
        "hypothesis_id": mint(), "statement": content.statement, "falsifier": content.falsifier,
        "regime": content.regime, "kind": content.kind, "author": request.author, "lane": request.lane,
        "parents": list(content.parents),
    }  # fmt: skip
    hypothesis = parse(Hypothesis, written, "The hypothesis")
    return [HypothesisProposed(**request.signature, hypothesis=hypothesis, effect=content.effect, edges=content.edges)]


def _visible(lab: Lab, request: AgentRequest) -> Proposals:
    """The proposals that the session of a request may see."""
    return visible(lab.state.proposals, lab.campaign.branches, request.lane)


def _experiment(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    submission = parse(Submission, request.content, "The submission")
    proposals = lab.state.proposals
    require_active(proposals, request.lane)
    if submission.hypothesis_id not in _visible(lab, request).hypotheses:
        raise UsageError(f"There is no hypothesis {submission.hypothesis_id!r}; propose it first.")
    require_not_rejected(proposals, submission.hypothesis_id)
    experiment_id = mint()
    submitted = ExperimentSubmitted(
        **request.signature, experiment_id=experiment_id, hypothesis_id=submission.hypothesis_id,
        changes=dict(submission.changes), champion=lab.state.champion,
    )  # fmt: skip
    branches = bool(lab.campaign.branches.recipes)
    if branches:
        submitted = replace(submitted, regime=submission.regime, parent_experiment=submission.parent_experiment)
    try:
        in_force = recipe_to_change(lab, submission, request.lane)
        recipe = changed_recipe(in_force, submission, f"{in_force.name.split('+')[0]}+{experiment_id[-6:]}")
        require_queue_space(proposals, request.lane)
        require_parent(lab, submission, recipe, request.lane)
        require_untried(lab, recipe, submission, request.lane)
    except UsageError as problem:
        refused = ExperimentRefused(
            **request.signature, experiment_id=experiment_id, hypothesis_id=submission.hypothesis_id, why=str(problem)
        )
        return [submitted, refused]
    checked = ExperimentChecked(
        **request.signature, experiment_id=experiment_id, hypothesis_id=submission.hypothesis_id,
        recipe_hash=recipe.hash, in_force=in_force.hash,
    )  # fmt: skip
    submitted = replace(submitted, recipe=recipe.without_space(), recipe_hash=recipe.hash)
    if branches:
        regime = submission.regime or _visible(lab, request).regime_in_force
        rollouts = lab.regimes.get(regime, lab.recipe).turn_rollouts or lab.campaign.rounds.episodes
        submitted = replace(submitted, regime=regime, turn_rollouts=rollouts)
    return [submitted, checked, *read_submission(lab, submitted, {})]


def _conclusion(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    note = parse(Note, request.content, "The conclusion")
    _require_short(note.text, "text")
    if not note.text.strip():
        raise UsageError("A conclusion needs a `text`.")
    proposals = _visible(lab, request)
    if note.about and note.about not in proposals.hypotheses and note.about not in proposals.experiments:
        raise UsageError(
            f"There is no hypothesis or experiment {note.about!r}, named in `about`; list_experiments lists them."
        )
    return [ConclusionPosted(**request.signature, conclusion_id=mint(), text=note.text, about=note.about)]


def _give_up(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """Cancel the queued experiments of the agent session, and end its branches. Open gates still decide."""
    note = parse(Note, request.content, "The request to give up")
    _require_short(note.text, "reason")
    proposals, lane = lab.state.proposals, request.lane
    mine = proposals.undecided(lane)
    if note.about in proposals.hypotheses:
        mine = [item for item in mine if item.hypothesis_id == note.about]
    elif note.about:
        mine = [find_experiment(lab, note.about)]
        if mine[0].lane != lane:
            raise UsageError(
                f"Experiment {note.about} belongs to the agent session {mine[0].lane!r}, which alone can give it up."
            )
    why = f"given up: {note.text}"
    cancelled = [
        ExperimentCancelled(**request.signature, experiment_id=experiment.experiment_id, why=why)
        for experiment in mine
        if experiment.phase == "queued"
    ]
    ids = {experiment.experiment_id for experiment in mine}
    begun = [one for one in lab.state.branches.undecided if one.experiment_id in ids and one.phase != "queued"]
    ended = [branch_ended(lab, one, "given up", note.text) for one in begun]
    return [GivenUp(**request.signature, about=note.about, reason=note.text), *cancelled, *ended]


def _finish(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    """End the work of an agent session: it can propose no more, and it is not restarted."""
    note = parse(Note, request.content, "The summary")
    _require_short(note.text, "summary")
    if not note.text.strip():
        raise UsageError("A summary needs a `text`: the experiments that you tried, and their results.")
    if mine := lab.state.proposals.in_the_way(request.lane):
        raise UsageError(f"Your experiment {mine[0].experiment_id} is not decided yet; wait for it, or give it up.")
    return [LaneFinished(**request.signature, text=note.text)]


def _brief(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    read = parse(Read, request.content, "The brief")
    return [BriefRead(**request.signature, sha256=read.sha256, size=read.size)]


def _tokens(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    tokens = parse(TokenCount, request.content, "The tokens")
    if min(tokens.fresh, tokens.cached, tokens.cache_write, tokens.output) < 0:
        raise UsageError("Token counts must be 0 or more.")
    _require_short(tokens.model, "model")
    spent = TokensSpent(
        **request.signature, fresh=tokens.fresh, cached=tokens.cached, output=tokens.output, model=tokens.model,
        cache_write=tokens.cache_write, self_reported=True,
    )  # fmt: skip
    return [spent]


def _turn(lab: Lab, request: AgentRequest) -> Sequence[Event]:
    note = parse(Note, request.content, "The turn")
    return [AgentTurned(**request.signature, text=note.text[:MAX_TEXT_LENGTH])]


def _require_short(text: str, name: str) -> None:
    if len(text) > MAX_TEXT_LENGTH:
        raise UsageError(f"The {name} has {len(text)} characters; at most {MAX_TEXT_LENGTH} are allowed.")


_ANSWERS: Mapping[RequestKind, Callable[[Lab, AgentRequest], Sequence[Event]]] = {
    "hypothesis": _hypothesis,
    "experiment": _experiment,
    "adopt": adopt,
    "finding": _conclusion,
    "give up": _give_up,
    "finish": _finish,
    "brief": _brief,
    "tokens": _tokens,
    "turn": _turn,
    "code": code_experiment,
    "revert": revert,
}
