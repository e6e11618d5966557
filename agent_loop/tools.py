"""The agents' tools: one registry for use in process, as Anthropic tool schemas and as an MCP server.

No tool sets a verdict, a seed, a score or a budget, and no tool moves a robot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from agent_loop import brief as briefs
from agent_loop import notes
from agent_loop.arguments import (
    WAIT_S,
    AdoptedId,
    CodeSource,
    ConclusionQuery,
    EarlierCode,
    EpisodeId,
    ExperimentId,
    FinalSummary,
    GivingUp,
    NewCandidate,
    NewCode,
    NewConclusion,
    NewHypothesis,
    NewTask,
    NoArguments,
    NotesQuery,
    RecipeComparison,
    SkillId,
    WaitTime,
    object_schema,
)
from agent_loop.episode_summary import episode_summary
from agent_loop.failure_evidence import key_frames
from agent_loop.lab_client import Answer, LabClient
from enpire.campaign.agent_events import (
    CodeReverted,
    ConclusionPosted,
    ExperimentAdopted,
    ExperimentSubmitted,
    GivenUp,
    HypothesisProposed,
    LaneFinished,
)
from enpire.errors import UnknownName, UsageError
from enpire.files import parse, plain
from enpire.home import Home
from enpire.service import code
from enpire.service.asking import Proposals
from enpire.service.authored_tasks import check_task_files, digest_of, find_task, propose, score_task
from enpire.service.skills import find_skill, path_of, text_of

LONGEST_ABOUT = 1000
"""Characters of what an agent says about a task that it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool."""

    name: str
    description: str
    """What the tool does, for the agent that chooses among tools."""
    arguments: type
    run: Callable[[LabClient, Any], dict[str, object]]
    writes: bool

    def schema(self) -> dict[str, object]:
        """JSON schema of the arguments."""
        return object_schema(self.arguments)


def call(client: LabClient, name: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Call a tool by name for one agent session.

    Raises:
        EnpireError: the tool does not exist, its arguments are invalid, or the lab refuses; one sentence.
    """
    tool = BY_NAME.get(name)
    if tool is None:
        raise UnknownName(f"There is no tool {name!r}; there are: {', '.join(BY_NAME)}.")
    return tool.run(client, parse(tool.arguments, arguments, f"The call of {name}"))


def in_process(client: LabClient) -> Mapping[str, Callable[..., dict[str, object]]]:
    """The tools as plain functions with keyword arguments."""

    def bound(tool_name: str, /, call_id: str = "", **arguments: object) -> dict[str, object]:
        return call(replace(client, call_id=call_id), tool_name, arguments)

    return {tool.name: partial(bound, tool.name) for tool in TOOLS}


def anthropic_schemas() -> list[dict[str, object]]:
    """The tools as the Messages API takes them."""
    return [anthropic_schema(tool) for tool in TOOLS]


def anthropic_schema(tool: Tool) -> dict[str, object]:
    """One tool as the Messages API takes it."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema()}


def _get_brief(client: LabClient, _: NoArguments) -> dict[str, object]:
    document = briefs.make_brief(client)
    sha256, size = briefs.digest(document)
    recorded = client.send("brief", {"sha256": sha256, "size": size})
    pictures = key_frames(client, document)
    return {**document, "sha256": sha256, "recorded": recorded, **({"pictures": pictures} if pictures else {})}


def _list_experiments(client: LabClient, _: NoArguments) -> dict[str, object]:
    proposals = client.proposals()
    return {
        "hypotheses": [plain(item) for item in proposals.hypotheses.values()],
        "experiments": [briefs.experiment_summary(item) for item in proposals.experiments.values()],
        "findings": [notes.document(item) for item in proposals.conclusions],
    }


def _get_experiment(client: LabClient, which: ExperimentId) -> dict[str, object]:
    proposals = client.proposals()
    experiment = proposals.experiments.get(which.experiment_id)
    if experiment is None:
        raise UnknownName(f"There is no experiment {which.experiment_id!r}; list_experiments returns all of them.")
    about = {experiment.experiment_id, experiment.hypothesis_id}
    proposed = proposals.hypotheses.get(experiment.hypothesis_id)
    return {
        **briefs.experiment_summary(experiment),
        "recipe": experiment.recipe.mapping() if experiment.recipe else {},
        "training_metrics": plain(experiment.metrics),
        "training_figures": plain(experiment.metrics),  # older name, which agents may read
        "hypothesis": plain(proposed),
        "findings": [notes.document(item) for item in proposals.conclusions if item.about in about],
    }


def _get_episode(client: LabClient, which: EpisodeId) -> dict[str, object]:
    return episode_summary(client, which.episode_id)


def _get_diff(client: LabClient, which: RecipeComparison) -> dict[str, object]:
    proposals = client.proposals()
    if which.against in ("", "in_force"):
        other = client.recipe(proposals) if which.against else proposals.declared
        before = dict(other.settings) if other else {}
    else:
        before = _settings(proposals, which.against)
    after = _settings(proposals, which.experiment_id)
    changed = {
        name: {"from": plain(before.get(name)), "to": plain(after.get(name))}
        for name in sorted({*before, *after}) if plain(before.get(name)) != plain(after.get(name))
    }  # fmt: skip
    return {
        "experiment_id": which.experiment_id,
        "against": which.against or "the campaign's recipe",
        "settings": changed,
    }


def _settings(proposals: Proposals, experiment_id: str) -> dict[str, object]:
    experiment = proposals.experiments.get(experiment_id)
    if experiment is None:
        raise UnknownName(f"There is no experiment {experiment_id!r}; list_experiments returns all of them.")
    if not experiment.recipe:
        shared = "another agent session made it, and the campaign shares results only."
        why = f"it was refused: {experiment.why}" if experiment.phase == "invalid" else shared
        raise UsageError(f"Experiment {experiment_id} has no recipe to compare: {why}")
    return dict(experiment.recipe.settings)


def _query_conclusions(client: LabClient, query: ConclusionQuery) -> dict[str, object]:
    return {"findings": notes.conclusions(client, query.words, query.about, query.lane)}


def _search_notes(client: LabClient, query: NotesQuery) -> dict[str, object]:
    return {"passages": [plain(item) for item in notes.passages(Home(client.home), query.words)]}


def _expected[T](event: Answer, kind: type[T]) -> T:
    """The answer as the class that the request asks for."""
    if not isinstance(event, kind):
        raise UsageError(f"The loop answered with {event.KIND!r}; run the same version of ENPIRE for both.")
    return event


def _finish(client: LabClient, final: FinalSummary) -> dict[str, object]:
    event = client.request("finish", {"text": final.summary})
    return {"noted": isinstance(event, LaneFinished), "over": True}


def _propose(client: LabClient, new: NewHypothesis) -> dict[str, object]:
    event = client.request("hypothesis", _plain(new))
    return {"hypothesis_id": _expected(event, HypothesisProposed).hypothesis.hypothesis_id}


def _submit(client: LabClient, new: NewCandidate) -> dict[str, object]:
    event = _expected(client.request("experiment", _plain(new)), ExperimentSubmitted)
    return {"experiment_id": event.experiment_id, "recipe_hash": event.recipe_hash, "phase": "queued"}


def _submit_code(client: LabClient, new: NewCode) -> dict[str, object]:
    event = _expected(client.submit_code(new.files, new.hypothesis_id, new.parent_experiment), ExperimentSubmitted)
    return {"experiment_id": event.experiment_id, "commit": event.commit, "phase": "queued"}


def _get_code(client: LabClient, which: CodeSource) -> dict[str, object]:
    if not which.experiment_id:
        base = client.proposals().code_base.get(client.sender.lane, "")
        files = code.code_of(client.home, base) if base else code.template()
        return {"files": dict(files), "commit": base, "limits": code.limits()}
    experiment = client.proposals().experiments.get(which.experiment_id)
    if experiment is None or not experiment.recipe or not experiment.commit:
        raise UnknownName(
            f"{which.experiment_id!r} is no code candidate that this session may read; list_experiments returns all "
            "experiments, those with a `commit` are code candidates."
        )
    return {"files": dict(code.code_of(client.home, experiment.commit)), "commit": experiment.commit}


def _adopt(client: LabClient, which: AdoptedId) -> dict[str, object]:
    event = _expected(client.request("adopt", _plain(which)), ExperimentAdopted)
    experiment = client.proposals().experiments[event.experiment_id]
    adopted: dict[str, object] = {"hypothesis_id": event.hypothesis_id, "changes": plain(experiment.changes)}
    if event.commit:
        adopted |= {"commit": event.commit, "files": dict(code.code_of(client.home, event.commit))}
    return adopted


def _revert_code(client: LabClient, which: EarlierCode) -> dict[str, object]:
    event = _expected(client.request("revert", _plain(which)), CodeReverted)
    return {"commit": event.commit, "left": event.left, "files": dict(code.code_of(client.home, event.commit))}


def _take_skill(client: LabClient, which: SkillId) -> dict[str, object]:
    skill = find_skill(client.skills(), which.skill)
    return {"path": path_of(skill.name), "text": text_of(client.home, skill), "commit": skill.commit}


def _submit_task(client: LabClient, new: NewTask) -> dict[str, object]:
    about = new.about[:LONGEST_ABOUT]
    check_task_files(new.files)
    client.request("finding", {"text": f"I wrote a task, files {digest_of(new.files)[:12]}: {about}"})
    made = propose(client.home, new.files, about, client.sender)
    task = find_task(client.home, made.task_id)
    score = task.score or score_task(task, lambda line: None)
    return {"task_id": made.task_id, "state": "waits for a person's approval", "score": plain(score)}


def _post(client: LabClient, new: NewConclusion) -> dict[str, object]:
    return {"finding_id": _expected(client.request("finding", _plain(new)), ConclusionPosted).conclusion_id}


def _give_up(client: LabClient, given_up: GivingUp) -> dict[str, object]:
    event = client.request("give up", {"text": given_up.reason, "about": given_up.about})
    return {"noted": isinstance(event, GivenUp), "scored": "neutral"}


def _wait(client: LabClient, time: WaitTime) -> dict[str, object]:
    newest = client.newest()
    if not 0 <= time.after <= newest:
        raise UsageError(
            f"`after` must be the `after` of an earlier answer of wait, from 0 to {newest}; 0 means from now on."
        )
    began = time.after or newest
    newest = client.wait(began, min(max(0.0, time.seconds), WAIT_S))
    mine = [
        briefs.experiment_summary(item)
        for item in client.proposals().experiments.values()
        if item.lane == client.sender.lane
    ]
    return {
        "something_happened": newest > began,
        "after": newest,
        "over": client.is_over(),
        "your_experiments": mine[-3:],
    }


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="get_brief", arguments=NoArguments, run=_get_brief, writes=False,
        description="Goal, champion and how it fails, recipe, search space, experiments, budget. Call it first.",
    ),
    Tool(
        name="list_experiments", arguments=NoArguments, run=_list_experiments, writes=False,
        description="All hypotheses, experiments and conclusions of the campaign.",
    ),
    Tool(
        name="get_experiment", arguments=ExperimentId, run=_get_experiment, writes=False,
        description="One experiment: its recipe, its training metrics and its gate result, rounded to one point.",
    ),
    Tool(
        name="get_diff", arguments=RecipeComparison, run=_get_diff, writes=False,
        description="The settings in which two recipes differ, with both values.",
    ),
    Tool(
        name="get_episode", arguments=EpisodeId, run=_get_episode, writes=False,
        description="One episode of the train split: outcome, thinned series and camera images.",
    ),
    Tool(
        name="query_findings", arguments=ConclusionQuery, run=_query_conclusions, writes=False,
        description="Search the conclusions of agents, of this campaign and of earlier ones of the same task.",
    ),
    Tool(
        name="search_notes", arguments=NotesQuery, run=_search_notes, writes=False,
        description="Passages from the lab's papers and notes.",
    ),
    Tool(
        name="propose_hypothesis", arguments=NewHypothesis, run=_propose, writes=True,
        description="State one falsifiable claim about a change to the recipe.",
    ),
    Tool(
        name="submit_candidate", arguments=NewCandidate, run=_submit, writes=True,
        description="Test a hypothesis: new values for settings of the recipe, inside the search space.",
    ),
    Tool(
        name="get_code", arguments=CodeSource, run=_get_code, writes=False,
        description="Files of a code candidate: the template with the contract, or those of an experiment.",
    ),
    Tool(
        name="submit_code", arguments=NewCode, run=_submit_code, writes=True,
        description="Test a hypothesis with a learner and a policy that you wrote; only where the brief has `code`.",
    ),
    Tool(
        name="adopt", arguments=AdoptedId, run=_adopt, writes=True,
        description="Build on an experiment of another agent session; returns its changes, and the files of its code.",
    ),
    Tool(
        name="revert_code", arguments=EarlierCode, run=_revert_code, writes=True,
        description="Go back to earlier code of your session: your next code candidate continues it.",
    ),
    Tool(
        name="submit_task", arguments=NewTask, run=_submit_task, writes=True,
        description="Propose a task that you wrote for later campaigns. The lab measures it; a person approves it.",
    ),
    Tool(
        name="take_skill", arguments=SkillId, run=_take_skill, writes=False,
        description="A module for `skills/` that a gate confirmed: one of `skills` of the brief.",
    ),
    Tool(
        name="post_finding", arguments=NewConclusion, run=_post, writes=True,
        description="Post a conclusion for the other agents, the operators and later campaigns.",
    ),
    Tool(
        name="give_up", arguments=GivingUp, run=_give_up, writes=True,
        description="Give up a queued experiment (it is cancelled), a hypothesis, or your session (ends). Not scored.",
    ),
    Tool(
        name="finish", arguments=FinalSummary, run=_finish, writes=True,
        description="End your session for good with a summary, once your experiments are decided.",
    ),
    Tool(
        name="wait", arguments=WaitTime, run=_wait, writes=False,
        description="Wait until an experiment changes its phase or an agent posts a conclusion.",
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}


def _plain(arguments: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", plain(arguments))
