"""`search`: a seeded agent that needs no key. All that it knows is in the ledger, so it can be killed at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import cast

from agent_loop.agent_context import DONE, AgentContext
from agent_loop.agents.operators import OPERATORS, Known, Step, Tried, switch
from agent_loop.lab_client import RequestRefused
from enpire.campaign.recipe import Recipe
from enpire.campaign.search_space import axes
from enpire.errors import UsageError
from enpire.files import canonical, parse

Card = Mapping[str, object]
TRIES = 64
"""Draws before it says that everything near was tried."""
STUCK = 3
"""Reverts in a row after which it switches to another regime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """What a campaign file may say; nothing so far."""


class Search:
    """Perturbs, ablates, recombines, switches regime: the same way for the same seed and the same history."""

    def __init__(self, place: AgentContext, options: Mapping[str, object]) -> None:
        parse(SearchOptions, options, "The options of the agent search")
        self._place = place

    def turn(self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object]) -> str:
        """Wait for the experiment of this lane, report on it, or submit the next one."""
        cards = cast("list[Card]", brief["experiments"])
        mine = [card for card in cards if card["lane"] == self._place.lane]
        if any(card["phase"] not in ("decided", "invalid", "cancelled") for card in mine):
            tools["wait"](seconds=20.0)
            return ""
        self._report(tools, brief, mine)
        if not cast("Mapping[str, object]", brief["left"])["rounds"]:
            return DONE + "no round is left"
        step = propose(known_from(brief), self._stream(len(mine)), seen(cards), struggling(mine))
        if step is None:
            return DONE + "everything near the recipe in force was tried"
        return self._submit(tools, brief, step)

    def _stream(self, experiments: int) -> Random:
        return Random(f"{self._place.seed} {self._place.lane} {experiments}")

    def _report(
        self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object], mine: list[Card]
    ) -> None:
        """One finding about the last experiment that was decided."""
        told = {cast("Card", finding)["about"] for finding in cast("list[object]", brief["findings"])}
        decided = [card for card in mine if card["phase"] == "decided"]
        if decided and decided[-1]["experiment_id"] not in told:
            last = decided[-1]
            text = f"{canonical(last['changes'])}: {last['decision']}, {last['delta']} [{last['low']}, {last['high']}]"
            tools["post_finding"](text=text, about=last["experiment_id"])

    def _submit(self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object], step: Step) -> str:
        peers = {card["experiment_id"] for card in cast("list[Card]", brief["experiments"])
                 if card["lane"] != self._place.lane}  # fmt: skip
        if step.adopted in peers:
            tools["adopt"](experiment_id=step.adopted)
        settings = cast("Mapping[str, object]", cast("Card", brief["recipe"])["settings"])
        change = ", ".join(f"{name} from {settings[name]} to {value}" for name, value in sorted(step.changes.items()))
        made = cast("Card", tools["propose_hypothesis"](
            statement=f"{step.operator}: {change} makes a better candidate",
            falsifier="The gate on hidden starts does not promote the candidate.",
            regime=regime(str(cast("Card", brief["recipe"])["learner"])), kind=step.kind,
            effect=step.why, parents=list(step.parents),
        ))  # fmt: skip
        try:
            tools["submit_candidate"](hypothesis_id=made["hypothesis_id"], changes=step.changes)
        except RequestRefused as refusal:
            return f"{step.operator} of {change} was refused: {refusal}"
        return f"{step.operator}: {change}"


def propose(known: Known, draw: Random, tried: set[str], stuck: bool) -> Step | None:
    """The next step that nobody tried; None when none is found."""
    for _ in range(TRIES):
        operator = switch if stuck and draw.random() < 0.5 else draw.choices(OPERATORS, (6, 2, 1, 2))[0]
        step = operator(known, draw)
        if step is None:
            continue
        changes = {name: value for name, value in step.changes.items() if value != known.settings[name]}
        if changes and canonical({**known.settings, **changes}) not in tried:
            return replace(step, changes=changes)
    return None


def known_from(brief: Mapping[str, object]) -> Known:
    """What the brief says, for the operators."""
    written = cast("Mapping[str, object]", brief["recipe"])
    recipe = parse(
        Recipe, {key: written[key] for key in ("name", "learner", "settings")} | {"space": brief["space"]},
        "The recipe of the brief",
    )  # fmt: skip
    if not recipe.space:
        raise UsageError("The recipe declares no search space, so there is nothing to search.")
    decided = [card for card in cast("list[Card]", brief["experiments"]) if card["phase"] == "decided"]
    return Known(
        space=axes(recipe.space), settings=recipe.settings,
        original=cast("Mapping[str, object]", brief["campaign_settings"]), tried=[_tried(card) for card in decided],
    )  # fmt: skip


def seen(cards: Sequence[Card]) -> set[str]:
    """Whole settings that were tried or are waiting."""
    return {canonical(card["settings"]) for card in cards if card.get("settings")}


def struggling(mine: Sequence[Card]) -> bool:
    """Whether the last experiments of this lane all came to nothing."""
    last = [card for card in mine if card["phase"] in ("decided", "invalid")][-STUCK:]
    return len(last) == STUCK and all(card["decision"] != "keep" for card in last)


def regime(learner: str) -> str:
    """The regime that a learner belongs to."""
    return {"clone": "behaviour cloning", "habc": "offline RL"}.get(learner, "offline RL")


def _tried(card: Card) -> Tried:
    return Tried(
        hypothesis_id=str(card["hypothesis_id"]), experiment_id=str(card["experiment_id"]), lane=str(card["lane"]),
        changes=cast("Mapping[str, bool | int | float | str]", card["changes"]), decision=str(card["decision"]),
        delta=float(cast("float", card["delta"])),
    )  # fmt: skip
