"""The tools of agents: one registry, shown in process, as Anthropic tool schemas, and as an MCP server.

No tool sets a verdict, a seed, a score or a budget, and none moves a robot: there is simply no such verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from agent_loop import brief as briefs
from agent_loop import notes
from agent_loop.arguments import (
    WAIT_S,
    Candidate,
    Comparison,
    EpisodeName,
    ExperimentName,
    Farewell,
    FindingsWanted,
    Nothing,
    Pause,
    Proposal,
    Surrender,
    Told,
    Words,
    object_schema,
)
from agent_loop.episode_summary import episode_summary
from agent_loop.lab_client import LabClient
from enpire.campaign.experiments import Ideas
from enpire.errors import UnknownName, UsageError
from enpire.files import parse, plain
from enpire.home import Home
from enpire.queries.campaign_history import mapping
from enpire.types import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One thing that an agent may do."""

    name: str
    says: str
    """What it does, for whoever chooses among tools."""
    arguments: type
    run: Callable[[LabClient, Any], dict[str, object]]
    writes: bool

    def schema(self) -> dict[str, object]:
        """JSON schema of the arguments."""
        return object_schema(self.arguments)


def call(client: LabClient, name: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Call a tool by name, as one lane.

    Raises:
        EnpireError: the tool does not exist, its arguments do not fit, or the lab refuses; one sentence.
    """
    tool = BY_NAME.get(name)
    if tool is None:
        raise UnknownName(f"There is no tool {name!r}; there are: {', '.join(BY_NAME)}.")
    return tool.run(client, parse(tool.arguments, arguments, f"The call of {name}"))


def in_process(client: LabClient) -> Mapping[str, Callable[..., dict[str, object]]]:
    """The tools as plain functions with keyword arguments."""

    def bound(tool_name: str, /, **arguments: object) -> dict[str, object]:
        return call(client, tool_name, arguments)

    return {tool.name: partial(bound, tool.name) for tool in TOOLS}


def anthropic_schemas() -> list[dict[str, object]]:
    """The tools as the Messages API takes them."""
    return [{"name": tool.name, "description": tool.says, "input_schema": tool.schema()} for tool in TOOLS]


def _get_brief(client: LabClient, _: Nothing) -> dict[str, object]:
    told = briefs.brief(client)
    sha256, size = briefs.digest(told)
    recorded = client.tell("brief", {"sha256": sha256, "size": size})
    return {**told, "sha256": sha256, "recorded": recorded}


def _list_experiments(client: LabClient, _: Nothing) -> dict[str, object]:
    ideas = client.ideas()
    return {
        "hypotheses": [plain(item) for item in ideas.ideas.values()],
        "experiments": [briefs.card(item) for item in ideas.experiments.values()],
        "findings": [plain(item) for item in ideas.findings],
    }


def _get_experiment(client: LabClient, which: ExperimentName) -> dict[str, object]:
    ideas = client.ideas()
    experiment = ideas.experiments.get(which.experiment_id)
    if experiment is None:
        raise UnknownName(f"There is no experiment {which.experiment_id!r}; list_experiments names those there are.")
    about = {experiment.experiment_id, experiment.hypothesis_id}
    idea = ideas.ideas.get(experiment.hypothesis_id)
    return {
        **briefs.card(experiment), "recipe": plain(experiment.recipe), "training_metrics": plain(experiment.metrics),
        "hypothesis": plain(idea), "findings": [plain(item) for item in ideas.findings if item.about in about],
    }  # fmt: skip


def _get_episode(client: LabClient, which: EpisodeName) -> dict[str, object]:
    return episode_summary(client, which.episode_id)


def _get_diff(client: LabClient, which: Comparison) -> dict[str, object]:
    ideas = client.ideas()
    if which.against in ("", "in_force"):
        other = client.recipe(ideas) if which.against else ideas.declared
        before = dict(other.settings) if other else {}
    else:
        before = _settings(ideas, which.against)
    after = _settings(ideas, which.experiment_id)
    changed = {
        name: {"from": plain(before.get(name)), "to": plain(after.get(name))}
        for name in sorted({*before, *after}) if plain(before.get(name)) != plain(after.get(name))
    }  # fmt: skip
    return {
        "experiment_id": which.experiment_id,
        "against": which.against or "the campaign's recipe",
        "settings": changed,
    }


def _settings(ideas: Ideas, experiment_id: str) -> dict[str, object]:
    experiment = ideas.experiments.get(experiment_id)
    if experiment is None:
        raise UnknownName(f"There is no experiment {experiment_id!r}; list_experiments names those there are.")
    if not experiment.recipe:
        raise UsageError(f"Experiment {experiment_id} was refused, so there is no recipe to compare: {experiment.why}")
    return dict(mapping(experiment.recipe, "settings"))


def _query_findings(client: LabClient, wanted: FindingsWanted) -> dict[str, object]:
    return {"findings": notes.findings(client, wanted.words, wanted.about, wanted.lane)}


def _search_notes(client: LabClient, wanted: Words) -> dict[str, object]:
    return {"passages": [plain(item) for item in notes.passages(Home(client.home), wanted.words)]}


def _finish(client: LabClient, farewell: Farewell) -> dict[str, object]:
    event = client.wish("finish", {"text": farewell.summary})
    return {"noted": event.kind == "lane finished", "over": True}


def _propose(client: LabClient, proposal: Proposal) -> dict[str, object]:
    event = client.wish("hypothesis", _plain(proposal))
    return {"hypothesis_id": cast("Mapping[str, object]", event.body["hypothesis"])["hypothesis_id"]}


def _submit(client: LabClient, candidate: Candidate) -> dict[str, object]:
    event = client.wish("experiment", _plain(candidate))
    return {"experiment_id": event.body["experiment_id"], "recipe_hash": event.body["recipe_hash"], "phase": "queued"}


def _adopt(client: LabClient, which: ExperimentName) -> dict[str, object]:
    client.wish("adopt", _plain(which))
    experiment = client.ideas().experiments[which.experiment_id]
    return {"hypothesis_id": experiment.hypothesis_id, "changes": plain(experiment.changes)}


def _post(client: LabClient, told: Told) -> dict[str, object]:
    return {"finding_id": client.wish("finding", _plain(told)).body["finding_id"]}


def _give_up(client: LabClient, surrender: Surrender) -> dict[str, object]:
    event: Event = client.wish("give up", {"text": surrender.reason, "about": surrender.about})
    return {"noted": event.kind == "given up", "scored": "neutral"}


def _wait(client: LabClient, pause: Pause) -> dict[str, object]:
    newest = client.newest()
    if not 0 <= pause.after <= newest:
        raise UsageError(f"`after` is the number that the last wait answered, from 0 to {newest}; 0 is now.")
    began = pause.after or newest
    newest = client.wait(began, min(max(0.0, pause.seconds), WAIT_S))
    mine = [briefs.card(item) for item in client.ideas().experiments.values() if item.lane == client.sender.lane]
    return {"something_happened": newest > began, "after": newest, "over": client.over(), "your_experiments": mine[-3:]}


TOOLS: tuple[Tool, ...] = (
    Tool(name="get_brief", says="Goal, champion, recipe, search space, what was tried, what is left. Read it first.",
         arguments=Nothing, run=_get_brief, writes=False),
    Tool(name="list_experiments", says="All hypotheses, experiments and findings of the campaign.",
         arguments=Nothing, run=_list_experiments, writes=False),
    Tool(name="get_experiment", says="One experiment with its recipe, training metrics and coarse gate result.",
         arguments=ExperimentName, run=_get_experiment, writes=False),
    Tool(name="get_diff", says="Which settings of an experiment's recipe differ from another's: from what, to what.",
         arguments=Comparison, run=_get_diff, writes=False),
    Tool(name="get_episode", says="One episode of the train split: outcome, thinned series, key frames.",
         arguments=EpisodeName, run=_get_episode, writes=False),
    Tool(name="query_findings", says="What agents found out, in this campaign and in earlier ones of the same task.",
         arguments=FindingsWanted, run=_query_findings, writes=False),
    Tool(name="search_notes", says="Passages of the lab's own papers and notes.",
         arguments=Words, run=_search_notes, writes=False),
    Tool(name="propose_hypothesis", says="State one falsifiable claim about a change of the recipe.",
         arguments=Proposal, run=_propose, writes=True),
    Tool(name="submit_candidate", says="Test a hypothesis: settings of the recipe to change, inside the search space.",
         arguments=Candidate, run=_submit, writes=True),
    Tool(name="adopt", says="Build on an experiment of another lane; answers with its changes.",
         arguments=ExperimentName, run=_adopt, writes=True),
    Tool(name="post_finding", says="Tell the other agents and the people what you learned.",
         arguments=Told, run=_post, writes=True),
    Tool(name="give_up", says="An honest way out, which counts against nobody: of a queued experiment, which is then "
         "cancelled, of a hypothesis, or of your whole line of work, which then ends.",
         arguments=Surrender, run=_give_up, writes=True),
    Tool(name="finish", says="End your line of work for good with a summary, once your experiments are decided.",
         arguments=Farewell, run=_finish, writes=True),
    Tool(name="wait", says="Wait until an experiment moves on or somebody posts something.",
         arguments=Pause, run=_wait, writes=False),
)  # fmt: skip
BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}


def _plain(arguments: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", plain(arguments))
