"""What an agent is told before it thinks: at most 64 KiB, nothing of hidden starts, the same for the same records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import cast

from agent_loop.lab_client import LabClient
from enpire.campaign.experiments import Experiment, Ideas
from enpire.files import canonical, plain
from enpire.queries import campaigns
from enpire.queries.campaign_history import mapping, number
from enpire.queries.hypotheses import experiment_view
from enpire.queries.models import CampaignView, Success
from enpire.store.reading import Page

LARGEST = 64 * 1024
"""Bytes of a brief."""
RULES = (
    "You propose changes of the recipe; the lab decides. State a hypothesis with a falsifier (propose_hypothesis), "
    "then submit a candidate (submit_candidate): settings inside the search space, one undecided experiment per lane. "
    "It is trained from the champion and compared with it on hidden start states; the answer is keep, revert or "
    "inconclusive, with an interval. While the campaign is paused, what you submit waits. Nothing you do sets a "
    "verdict, a seed, a score or a budget, and nothing moves a robot. Tell your peers what you learned (post_finding); "
    "when nothing is left to try, finish with a summary. Giving up with a reason (give_up) counts against nobody."
)
CARDS, FINDINGS, FAILURES, ROUNDS = 60, 40, 8, 12
SUMMARY = 400
"""Characters of what a lane said when it finished."""


def brief(client: LabClient) -> dict[str, object]:
    """The brief of a lane now."""
    ideas, view = client.ideas(), client.campaign()
    recipe = client.recipe(ideas)
    told: dict[str, object] = {
        "rules": RULES,
        "campaign": {
            "id": view.id,
            "name": view.name,
            "task": view.task,
            "goal": plain(view.goal),
            "state": view.state,
            "paused_why": view.paused_why,
        },
        "lane": client.sender.lane,
        "champion": _rate(view.champion),
        "base": _rate(view.base),
        "recipe": {**recipe.mapping(), "hash": recipe.hash},
        "campaign_settings": plain(ideas.declared.settings) if ideas.declared else {},
        "space": plain(recipe.space),
        "rounds": [_round(item) for item in cast("list[Mapping[str, object]]", plain(view.rounds))[-ROUNDS:]],
        "experiments": [card(item) for item in list(ideas.experiments.values())[-CARDS:]],
        "findings": [plain(item) for item in ideas.findings[-FINDINGS:]],
        "failures_to_look_at": failures(client),
        "lanes_that_finished": {lane: how[:SUMMARY] for lane, how in ideas.finished.items()},
        "left": left(client, view, ideas),
    }
    return fitted(told)


def fitted(told: dict[str, object]) -> dict[str, object]:
    """The brief with its oldest cards, findings and rounds left out until it fits."""
    size = len(canonical(told).encode())
    while size > LARGEST:
        lists = [item for key in ("experiments", "findings", "rounds") if (item := cast("list[object]", told[key]))]
        if not lists:
            break
        size -= len(canonical(max(lists, key=len).pop(0)).encode()) + 1
    return told


def digest(told: Mapping[str, object]) -> tuple[str, int]:
    """sha256 and bytes of a brief in canonical form."""
    data = canonical(told).encode()
    return hashlib.sha256(data).hexdigest(), len(data)


def card(experiment: Experiment) -> dict[str, object]:
    """One experiment in short; figures of the hidden gate are coarse."""
    shown = cast("dict[str, object]", plain(experiment_view(experiment)))
    for name in ("delta", "low", "high"):
        if shown[name] is not None:
            shown[name] = round(cast("float", shown[name]), 2)
    del shown["policy_id"], shown["gate_id"]
    told = {"hypothesis_id": experiment.hypothesis_id, "author": experiment.author, "lane": experiment.lane}
    settings = plain(mapping(experiment.recipe, "settings"))
    return {"experiment_id": shown.pop("id"), **told, **shown, "settings": settings}


def failures(client: LabClient) -> list[dict[str, object]]:
    """The newest failures on training starts."""
    with campaigns.open_records(client.home) as records:
        page = Page(campaign_id=client.sender.campaign_id, purpose="collect", outcome="failure", limit=FAILURES)
        rows = records.reading.episodes(page)
    return [
        {"episode_id": row.order.order_id, "round": row.order.round, "ticks": row.episode.ticks if row.episode else 0}
        for row in rows
        if row.order.start.split == "train"
    ]


def left(client: LabClient, view: CampaignView, ideas: Ideas) -> dict[str, object]:
    """What may still be spent; None where there is no limit."""
    budget = mapping(mapping(client.started(), "campaign"), "budget")
    wall_s, robot_s = number(budget, "wall_s"), number(budget, "robot_s")
    spent = max((item.round for item in view.rounds), default=0)
    return {
        "rounds": max(0, int(number(budget, "rounds")) - spent),
        "wall_s": round(max(0.0, wall_s - view.wall_s)) if wall_s else None,
        "robot_s": round(max(0.0, robot_s - 3600 * view.robot_h)) if robot_s else None,
        "tokens_spent_by_this_lane": ideas.tokens.get(client.sender.lane, 0),
    }


def _rate(figure: Success | None) -> dict[str, object] | None:
    if figure is None or figure.success is None:
        return None
    return {
        "policy_id": figure.id, "success": round(figure.success, 2), "low": round(figure.low, 2),
        "high": round(figure.high, 2), "n": figure.n,
    }  # fmt: skip


def _round(item: Mapping[str, object]) -> dict[str, object]:
    collection, gate, learner = (mapping(item, key) for key in ("collection", "gate", "learner"))
    return {
        "round": item["round"], "collection_success": collection.get("success"), "n": collection.get("n"),
        "gate": gate.get("decision"), "reason": gate.get("reason"), "metrics": learner.get("figures"),
    }  # fmt: skip
