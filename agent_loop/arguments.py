"""What the tools of agents take: one dataclass each, which is also its JSON schema."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from enpire.campaign.experiments import EdgeKind

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
class Comparison:
    """Arguments of get_diff."""

    experiment_id: Annotated[str, "Id of an experiment, from list_experiments."]
    against: Annotated[str, "experiment_id of another; empty: the campaign's own recipe; in_force: the one now."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsWanted:
    """Arguments of query_findings."""

    words: Annotated[str, "What to look for; the newest when left out."] = ""
    about: Annotated[str, "experiment_id or hypothesis_id; all when left out."] = ""
    lane: Annotated[str, "Whose; all when left out."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Arguments of search_notes."""

    words: Annotated[str, "What to look for."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell:
    """Arguments of finish."""

    summary: Annotated[str, "What you tried, what worked and what did not, for people and for later campaigns."]


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


def object_schema(cls: type) -> dict[str, object]:
    """JSON schema of a dataclass of arguments, with the description of every field."""
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
