"""Arguments of the agents' tools: one dataclass each, from which the JSON schema is made."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast

from enpire.service.asking import EdgeKind

WAIT_S = 60.0
"""Longest time of one call of `wait`, in seconds."""
Kind = Literal["draft", "improve", "debug", "ablate", "merge", "simplify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArguments:
    """A tool without arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentId:
    """Arguments of get_experiment."""

    experiment_id: Annotated[str, "Id of an experiment, from list_experiments."]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedId:
    """Arguments of adopt."""

    experiment_id: Annotated[
        str, "An experiment of another agent session, or `champion`: the code that made the champion."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeComparison:
    """Arguments of get_diff."""

    experiment_id: Annotated[str, "Id of an experiment, from list_experiments."]
    against: Annotated[
        str, "Another experiment_id; empty: the campaign's own recipe; in_force: the recipe that is used now."
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConclusionQuery:
    """Arguments of query_findings."""

    words: Annotated[str, "Words to search for. Without words: the newest conclusions."] = ""
    about: Annotated[str, "Only conclusions about this experiment_id or hypothesis_id."] = ""
    lane: Annotated[str, "Only conclusions of this agent session."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesQuery:
    """Arguments of search_notes."""

    words: Annotated[str, "Words to search for."]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalSummary:
    """Arguments of finish."""

    summary: Annotated[str, "What you tried, what worked and what did not. Operators and later campaigns read it."]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeId:
    """Arguments of get_episode."""

    episode_id: Annotated[
        str, "Id of an episode of the train split, for example from failures_to_look_at in the brief."
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEdge:
    """An edge of the idea tree from the new hypothesis to an older one."""

    kind: Annotated[EdgeKind, "Meaning of the edge."]
    to: Annotated[str, "hypothesis_id of the older hypothesis."]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHypothesis:
    """Arguments of propose_hypothesis."""

    statement: Annotated[str, "The claim, in one sentence."]
    falsifier: Annotated[str, "The observation that would show that the claim is wrong."]
    regime: Annotated[str, "heuristic, behaviour cloning, offline RL, online RL, off-to-on, or infrastructure."]
    kind: Annotated[Kind, "Type of the change."]
    effect: Annotated[str, "The effect that you expect, with its size."] = ""
    parents: Annotated[tuple[str, ...], "hypothesis_ids that this hypothesis builds on."] = ()
    edges: Annotated[tuple[ProposedEdge, ...], "Edges to other hypotheses."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCandidate:
    """Arguments of submit_candidate."""

    hypothesis_id: Annotated[str, "The hypothesis that the candidate tests."]
    changes: Annotated[
        Mapping[str, bool | int | float | str],
        "Settings to change in the recipe in force: name -> new value, inside `space` of the brief. With `regime`, "
        "settings of that recipe, inside its space; may be empty.",
    ] = field(default_factory=dict[str, bool | int | float | str])
    regime: Annotated[
        str, "One of `regimes` of the brief, to use another recipe than the one in force; only with branches."
    ] = ""
    parent_experiment: Annotated[
        str, "An experiment whose branch this one continues; empty: it starts from the champion. Only with branches."
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderCode:
    """Arguments of submit_code for an agent with a folder of its own."""

    hypothesis_id: Annotated[str, "The hypothesis that the code tests."]
    parent_experiment: Annotated[
        str, "A code candidate that this one continues, from its newest version; empty: it starts from the champion."
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCode(FolderCode):
    """Arguments of submit_code."""

    files: Annotated[
        Mapping[str, str],
        "All files of the candidate: path -> text. learner.py, policy.py and recipe.yaml are needed; README.md and "
        "skills/NAME.py are allowed. get_code returns a template and the contract.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSource:
    """Arguments of get_code."""

    experiment_id: Annotated[
        str, "A code candidate; empty: what your session continues, or the template to begin with."
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """Arguments of submit_task."""

    files: Annotated[
        Mapping[str, str],
        "path -> text: task.py with the class Task (scene, reset, verifier), README.md, and NAME.xml, NAME.yaml or "
        "NAME.json beside it.",
    ]
    about: Annotated[str, "What the task is, and why a campaign of it is of use. A person reads it."]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillId:
    """Arguments of take_skill."""

    skill: Annotated[str, "`skill` of one of `skills` of the brief, or its first 6 digits."]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierCode:
    """Arguments of revert_code."""

    to: Annotated[
        str,
        "An experiment or a commit of your session, or its first 7 digits; empty: what your present code continues.",
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConclusion:
    """Arguments of post_finding."""

    text: Annotated[str, "Your conclusion. Other agents and the operators read it."]
    about: Annotated[str, "experiment_id or hypothesis_id that the conclusion is about; may be empty."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivingUp:
    """Arguments of give_up."""

    reason: Annotated[str, "Why you give up. Giving up is not scored."]
    about: Annotated[str, "experiment_id or hypothesis_id; empty: the whole agent session."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTime:
    """Arguments of wait."""

    seconds: Annotated[float, f"Longest time to wait, in seconds, at most {WAIT_S:.0f}."] = 30.0
    after: Annotated[int, "`after` of the last answer of wait; 0: from now on."] = 0


def object_schema(cls: type) -> dict[str, object]:
    """The JSON schema of a dataclass of arguments, with a description of every field."""
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
        return object_schema(hint)
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
