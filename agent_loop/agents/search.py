"""`search`: a seeded agent that needs no key. All of its state is in the ledger, so it can be killed at any time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import cast

from agent_loop.agent_context import DONE, AgentContext
from agent_loop.agents import code_edits
from agent_loop.agents import regimes as regime_choice
from agent_loop.agents.operators import OPERATORS, Known, Step, Tried, switch
from agent_loop.lab_client import RequestRefused
from agent_loop.repeated_calls import RepeatableCalls
from enpire.campaign.recipe import Recipe
from enpire.campaign.search_space import axes
from enpire.errors import UsageError
from enpire.files import canonical, parse
from enpire.service import code

Entry = Mapping[str, object]
"""One experiment of the brief, or the answer of a tool."""
TRIES = 64
"""Draws after which the agent stops because all nearby recipes were tried."""
CODE = 0.3
"""Share of the branches that are structured edits of code, where the campaign allows code candidates."""
FALSIFIER = "The branch shows no gain on train starts, or the gate does not promote its version."
STUCK = 3
"""Experiments in a row that were not kept, after which it switches to another regime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Options of the agent in a campaign file: none."""


class Search:
    """Perturbs, ablates, recombines, switches regime; deterministic for a seed and a history."""

    def __init__(self, context: AgentContext, options: Mapping[str, object]) -> None:
        parse(SearchOptions, options, "The options of the agent search")
        self._context, self._calls = context, RepeatableCalls()

    def turn(self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object]) -> str:
        """Wait for the experiment of this session, post its result, or submit the next one.

        One that waits for a person is not waited for (`Proposals.in_the_way`).
        """
        entries = cast("list[Entry]", brief["experiments"])
        mine = [entry for entry in entries if entry["lane"] == self._context.lane]
        if brief["wait_for"]:
            tools["wait"](seconds=20.0)
            return ""
        number = cast("int", brief["experiments_of_this_lane"])
        tools = self._calls.of(tools, f"after {number} experiments")
        self._report(tools, brief, mine)
        draw = self._stream(number)
        if brief["regimes"]:
            return self._open_branch(tools, brief, draw)
        if not cast("Mapping[str, object]", brief["left"])["rounds"]:
            return DONE + "no round is left"
        step = propose(known_of(brief), draw, seen(entries), struggling(mine))
        if step is None:
            return DONE + "all recipes near the one in force were tried"
        return self._submit(tools, brief, step)

    def _open_branch(
        self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object], draw: Random
    ) -> str:
        """Submit an experiment in one of the regimes, or wait where nothing new can be tried with this champion."""
        regimes = cast("Mapping[str, Entry]", brief["regimes"])
        known = regime_choice.Known(
            regimes=regimes, entries=cast("list[Entry]", brief["experiments"]), lane=self._context.lane,
            sharing=str(brief["sharing"]),
        )  # fmt: skip
        tried = {entry["regime"] for entry in known.entries}
        if (
            "code" in brief
            and regimes.keys() <= tried
            and draw.random() < CODE
            and (done := self._write_code(tools, known, draw))
        ):
            return done
        step = regime_choice.next_branch(known, draw)
        if step is None:
            tools["wait"](seconds=20.0)
            return ""
        for entry in step.sources:
            if entry["lane"] != self._context.lane:
                tools["adopt"](experiment_id=entry["experiment_id"])
        made = cast("Entry", tools["propose_hypothesis"](
            statement=f"{step.why} makes a better policy than the champion",
            falsifier=FALSIFIER,
            regime=regime(str(regimes[step.regime]["learner"])), kind=step.kind, effect=step.why, parents=step.parents,
        ))  # fmt: skip
        sent = {"changes": step.changes, "regime": step.regime, "parent_experiment": step.parent_experiment}
        try:
            tools["submit_candidate"](hypothesis_id=made["hypothesis_id"], **sent)
        except RequestRefused as refusal:
            return f"{step.why} was refused: {refusal}"
        return step.why

    def _write_code(self, tools: Mapping[str, Callable[..., object]], known: regime_choice.Known, draw: Random) -> str:
        """Submit a structured edit of the template's code; empty where there is nothing new to try."""
        shown = [one for one in known.entries if one["lane"] == self._context.lane or known.sharing == "adopt"]
        template = code.template()
        step = code_edits.next_code([*self._coded(tools, shown, template)], draw)
        if step is None:
            return ""
        made = cast("Entry", tools["propose_hypothesis"](
            statement=f"code: {step.why} makes a better policy than the champion",
            falsifier=FALSIFIER,
            regime=regime("clone"), kind=step.kind, effect=step.why,
            parents=list(dict.fromkeys(one.hypothesis_id for one in step.sources)),
        ))  # fmt: skip
        files = code_edits.written(template, step.choices)
        try:
            tools["submit_code"](hypothesis_id=made["hypothesis_id"], files=files)
        except RequestRefused as refusal:
            return f"code: {step.why} was refused: {refusal}"
        return f"code: {step.why}"

    def _coded(
        self, tools: Mapping[str, Callable[..., object]], entries: Sequence[Entry], template: Mapping[str, str]
    ) -> Iterator[code_edits.Candidate]:
        """The experiments whose code is the template with choices."""
        for entry in entries:
            if not entry.get("commit"):
                continue
            found = cast("Entry", tools["get_code"](experiment_id=entry["experiment_id"]))
            choices = code_edits.choices_of(cast("Mapping[str, str]", found["files"]), template)
            if choices is not None:
                yield code_edits.Candidate(
                    experiment_id=str(entry["experiment_id"]), hypothesis_id=str(entry["hypothesis_id"]),
                    choices=choices,
                    merit=regime_choice.merit(entry) if regime_choice.may_be_built_on(entry) else -math.inf,
                )  # fmt: skip

    def _stream(self, experiments: int) -> Random:
        return Random(f"{self._context.seed} {self._context.lane} {experiments}")

    def _report(
        self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object], mine: list[Entry]
    ) -> None:
        """Post one conclusion about the last decided experiment."""
        posted = {cast("Entry", one)["about"] for one in cast("list[object]", brief["findings"])}
        decided = [entry for entry in mine if entry["phase"] == "decided"]
        if decided and decided[-1]["experiment_id"] not in posted:
            last = decided[-1]
            text = f"{canonical(last['changes'])}: {last['decision']}, {last['delta']} [{last['low']}, {last['high']}]"
            tools["post_finding"](text=text, about=last["experiment_id"])

    def _submit(self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object], step: Step) -> str:
        peers = {entry["experiment_id"] for entry in cast("list[Entry]", brief["experiments"])
                 if entry["lane"] != self._context.lane}  # fmt: skip
        if step.adopted in peers:
            tools["adopt"](experiment_id=step.adopted)
        settings = cast("Mapping[str, object]", cast("Entry", brief["recipe"])["settings"])
        change = ", ".join(f"{name} from {settings[name]} to {value}" for name, value in sorted(step.changes.items()))
        made = cast("Entry", tools["propose_hypothesis"](
            statement=f"{step.operator}: {change} makes a better candidate",
            falsifier="The gate on hidden starts does not promote the candidate.",
            regime=regime(str(cast("Entry", brief["recipe"])["learner"])), kind=step.kind,
            effect=step.why, parents=list(step.parents),
        ))  # fmt: skip
        try:
            tools["submit_candidate"](hypothesis_id=made["hypothesis_id"], changes=step.changes)
        except RequestRefused as refusal:
            return f"{step.operator} of {change} was refused: {refusal}"
        return f"{step.operator}: {change}"


def propose(known: Known, draw: Random, tried: set[str], stuck: bool) -> Step | None:
    """The next step that was not tried before; None when none is found."""
    for _ in range(TRIES):
        operator = switch if stuck and draw.random() < 0.5 else draw.choices(OPERATORS, (6, 2, 1, 2))[0]
        step = operator(known, draw)
        if step is None:
            continue
        changes = {name: value for name, value in step.changes.items() if value != known.settings[name]}
        if changes and canonical({**known.settings, **changes}) not in tried:
            return replace(step, changes=changes)
    return None


def known_of(brief: Mapping[str, object]) -> Known:
    """The operators' input, from a brief."""
    written = cast("Mapping[str, object]", brief["recipe"])
    recipe = parse(
        Recipe, {key: written[key] for key in ("name", "learner", "settings")} | {"space": brief["space"]},
        "The recipe of the brief",
    )  # fmt: skip
    if not recipe.space:
        raise UsageError("The recipe declares no search space, so there is nothing to search.")
    decided = [
        entry for entry in cast("list[Entry]", brief["experiments"])
        if entry["phase"] == "decided" and regime_choice.may_be_built_on(entry)
    ]  # fmt: skip
    return Known(
        space=axes(recipe.space), settings=recipe.settings,
        original=cast("Mapping[str, object]", brief["campaign_settings"]), tried=[_tried(entry) for entry in decided],
    )  # fmt: skip


def seen(entries: Sequence[Entry]) -> set[str]:
    """Settings of all experiments that were tried or are queued, in canonical form."""
    return {canonical(entry["settings"]) for entry in entries if entry.get("settings")}


def struggling(mine: Sequence[Entry]) -> bool:
    """Whether none of the last STUCK experiments of this session was kept."""
    last = [entry for entry in mine if entry["phase"] in ("decided", "invalid")][-STUCK:]
    return len(last) == STUCK and all(entry["decision"] != "keep" for entry in last)


def regime(learner: str) -> str:
    """The regime of a learner."""
    known = {
        "clone": "behaviour cloning", "habc": "offline RL", "lerobot_sac": "online RL", "residual_td3": "off-to-on",
        "program_search": "heuristic",
    }  # fmt: skip
    return known.get(learner, "offline RL")


def _tried(entry: Entry) -> Tried:
    return Tried(
        hypothesis_id=str(entry["hypothesis_id"]), experiment_id=str(entry["experiment_id"]), lane=str(entry["lane"]),
        changes=cast("Mapping[str, bool | int | float | str]", entry["changes"]), decision=str(entry["decision"]),
        delta=float(cast("float", entry["delta"])),
    )  # fmt: skip
