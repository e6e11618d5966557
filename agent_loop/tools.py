"""The tools of agents: one registry, shown in process, as Anthropic tool schemas, and as an MCP server.

No tool sets a verdict, a seed, a score or a budget, and none moves a robot: there is simply no such verb.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, cast

from agent_loop import brief as briefs
from agent_loop.desk import Desk
from agent_loop.shown_episode import shown_episode
from enpire.errors import UnknownName
from enpire.files import parse, plain
from enpire.proposals import EdgeKind
from enpire.types import Event

WAIT_S = 60.0
"""The longest that `wait` waits."""
Kind = Literal["draft", "improve", "debug", "ablate", "merge", "simplify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """A tool without arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentName:
    """Arguments that name an experiment."""

    experiment_id: Annotated[str, "Id of an experiment, from list_experiments."]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeName:
    """Arguments that name an episode."""

    episode_id: Annotated[str, "Id of an episode of the train split, such as those of the brief's failures_to_look_at."]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEdge:
    """A line from the new hypothesis to an older one."""

    kind: Annotated[EdgeKind, "What the line means."]
    to: Annotated[str, "hypothesis_id of the older one."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Arguments of propose_hypothesis."""

    statement: Annotated[str, "The claim, one sentence."]
    falsifier: Annotated[str, "What observation would show that it is wrong."]
    regime: Annotated[str, "heuristic, behaviour cloning, offline RL, online RL, off-to-on, or infrastructure."]
    kind: Annotated[Kind, "What sort of step this is."]
    effect: Annotated[str, "The effect you expect, with its size."] = ""
    parents: Annotated[tuple[str, ...], "hypothesis_ids that this one grew from."] = ()
    edges: Annotated[tuple[ProposedEdge, ...], "Lines to other hypotheses."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Arguments of submit_candidate."""

    hypothesis_id: Annotated[str, "The hypothesis that this tests."]
    changes: Annotated[
        Mapping[str, bool | int | float | str],
        "Settings of the recipe in force to change: name -> new value, inside the brief's space.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Arguments of post_finding."""

    text: Annotated[str, "What you learned, for the other agents and the people of the lab."]
    about: Annotated[str, "experiment_id or hypothesis_id, where it is about one."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrender:
    """Arguments of give_up."""

    reason: Annotated[str, "Why; an honest reason counts against nobody."]
    about: Annotated[str, "experiment_id or hypothesis_id; empty for the whole line of work."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Arguments of wait."""

    seconds: Annotated[float, f"How long at most, up to {WAIT_S:.0f}."] = 30.0
    after: Annotated[int, "Event number that the last wait answered; 0 for now."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One thing that an agent may do."""

    name: str
    says: str
    """What it does, for whoever chooses among tools."""
    arguments: type
    run: Callable[[Desk, Any], dict[str, object]]
    writes: bool

    def schema(self) -> dict[str, object]:
        """JSON schema of the arguments."""
        return _object_schema(self.arguments)


def call(desk: Desk, name: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Call a tool by name, as one lane.

    Raises:
        EnpireError: the tool does not exist, its arguments do not fit, or the lab refuses; one sentence.
    """
    tool = BY_NAME.get(name)
    if tool is None:
        raise UnknownName(f"There is no tool {name!r}; there are: {', '.join(BY_NAME)}.")
    return tool.run(desk, parse(tool.arguments, arguments, f"The arguments of {name}"))


def in_process(desk: Desk) -> Mapping[str, Callable[..., dict[str, object]]]:
    """The tools as plain functions with keyword arguments."""

    def bound(tool_name: str, /, **arguments: object) -> dict[str, object]:
        return call(desk, tool_name, arguments)

    return {tool.name: partial(bound, tool.name) for tool in TOOLS}


def anthropic_schemas() -> list[dict[str, object]]:
    """The tools as the Messages API takes them."""
    return [{"name": tool.name, "description": tool.says, "input_schema": tool.schema()} for tool in TOOLS]


def _get_brief(desk: Desk, _: Nothing) -> dict[str, object]:
    told = briefs.brief(desk)
    sha256, size = briefs.digest(told)
    recorded = desk.tell("brief", {"sha256": sha256, "size": size})
    return {**told, "sha256": sha256, "recorded": recorded}


def _list_experiments(desk: Desk, _: Nothing) -> dict[str, object]:
    ideas = desk.ideas()
    return {
        "hypotheses": [plain(item) for item in ideas.ideas.values()],
        "experiments": [briefs.card(item) for item in ideas.experiments.values()],
        "findings": [plain(item) for item in ideas.findings],
    }


def _get_experiment(desk: Desk, which: ExperimentName) -> dict[str, object]:
    ideas = desk.ideas()
    experiment = ideas.experiments.get(which.experiment_id)
    if experiment is None:
        raise UnknownName(f"There is no experiment {which.experiment_id!r}; list_experiments names those there are.")
    about = {experiment.experiment_id, experiment.hypothesis_id}
    idea = ideas.ideas.get(experiment.hypothesis_id)
    return {
        **briefs.card(experiment), "recipe": plain(experiment.recipe), "training_figures": plain(experiment.figures),
        "hypothesis": plain(idea), "findings": [plain(item) for item in ideas.findings if item.about in about],
    }  # fmt: skip


def _get_episode(desk: Desk, which: EpisodeName) -> dict[str, object]:
    return shown_episode(desk, which.episode_id)


def _propose(desk: Desk, proposal: Proposal) -> dict[str, object]:
    event = desk.wish("hypothesis", _plain(proposal))
    return {"hypothesis_id": cast("Mapping[str, object]", event.body["hypothesis"])["hypothesis_id"]}


def _submit(desk: Desk, candidate: Candidate) -> dict[str, object]:
    event = desk.wish("experiment", _plain(candidate))
    return {"experiment_id": event.body["experiment_id"], "recipe_hash": event.body["recipe_hash"], "phase": "queued"}


def _adopt(desk: Desk, which: ExperimentName) -> dict[str, object]:
    desk.wish("adopt", _plain(which))
    experiment = desk.ideas().experiments[which.experiment_id]
    return {"hypothesis_id": experiment.hypothesis_id, "changes": plain(experiment.changes)}


def _post(desk: Desk, told: Told) -> dict[str, object]:
    return {"finding_id": desk.wish("finding", _plain(told)).body["finding_id"]}


def _give_up(desk: Desk, surrender: Surrender) -> dict[str, object]:
    event: Event = desk.wish("give up", {"text": surrender.reason, "about": surrender.about})
    return {"noted": event.kind == "given up", "scored": "neutral"}


def _wait(desk: Desk, pause: Pause) -> dict[str, object]:
    began = pause.after or desk.newest()
    newest = desk.wait(began, min(max(0.0, pause.seconds), WAIT_S))
    mine = [briefs.card(item) for item in desk.ideas().experiments.values() if item.lane == desk.sender.lane]
    return {"something_happened": newest > began, "after": newest, "over": desk.over(), "your_experiments": mine[-3:]}


TOOLS: tuple[Tool, ...] = (
    Tool(name="get_brief", says="Goal, champion, recipe, search space, what was tried, what is left. Read it first.",
         arguments=Nothing, run=_get_brief, writes=False),
    Tool(name="list_experiments", says="All hypotheses, experiments and findings of the campaign.",
         arguments=Nothing, run=_list_experiments, writes=False),
    Tool(name="get_experiment", says="One experiment with its recipe, training figures and coarse gate result.",
         arguments=ExperimentName, run=_get_experiment, writes=False),
    Tool(name="get_episode", says="One episode of the train split: outcome, thinned series, key frames.",
         arguments=EpisodeName, run=_get_episode, writes=False),
    Tool(name="propose_hypothesis", says="State one falsifiable claim about a change of the recipe.",
         arguments=Proposal, run=_propose, writes=True),
    Tool(name="submit_candidate", says="Test a hypothesis: settings of the recipe to change, inside the search space.",
         arguments=Candidate, run=_submit, writes=True),
    Tool(name="adopt", says="Build on an experiment of another lane; answers with its changes.",
         arguments=ExperimentName, run=_adopt, writes=True),
    Tool(name="post_finding", says="Tell the other agents and the people what you learned.",
         arguments=Told, run=_post, writes=True),
    Tool(name="give_up", says="Stop with an honest reason; a queued experiment is cancelled. Counts against nobody.",
         arguments=Surrender, run=_give_up, writes=True),
    Tool(name="wait", says="Wait until an experiment moves on or somebody posts something.",
         arguments=Pause, run=_wait, writes=False),
)  # fmt: skip
BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}


def _plain(arguments: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", plain(arguments))


def _object_schema(cls: type) -> dict[str, object]:
    hints = typing.get_type_hints(cls, include_extras=True)
    properties: dict[str, object] = {}
    required: list[str] = []
    for item in dataclasses.fields(cls):
        properties[item.name] = _schema(hints[item.name])
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            required.append(item.name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema(hint: object) -> dict[str, object]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return {**_schema(arguments[0]), "description": arguments[1]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _object_schema(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin in (types.UnionType, typing.Union):
        return {"type": [_SCALARS[cast(type, item)] for item in arguments]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    return {"type": _SCALARS[cast(type, hint)]}


_SCALARS: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
