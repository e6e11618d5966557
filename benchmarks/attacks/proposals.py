"""Attacks of an agent with what it may propose: recipes, through the tools and the inbox of a running loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent_loop import tools
from agent_loop.lab_client import RequestRefused
from benchmarks.attacks import Result, Run, attack
from enpire.home import open_home
from tests.agent_loop.pretend_lab import POOR, Running

CLAIM = {"statement": "another spelling is another recipe", "falsifier": "a refusal", "regime": "bc", "kind": "improve"}
RECIPE = replace(
    POOR,
    settings={**POOR.settings, "multi_step": 1, "offset": 0.5},
    space={**POOR.space, "multi_step": (1, 2, 3), "offset": (-1.0, 1.0, "linear")},
)
Changes = Mapping[str, object]
SPELLINGS: tuple[tuple[Changes, Changes], ...] = (
    ({"multi_step": 2}, {"multi_step": 2.0}),
    ({"steps": 2}, {"steps": 2.0}),
    ({"offset": 0}, {"offset": -0.0}),
    ({"skill": 0.5}, {"skill": 0.5, "multi_step": 1.0}),
    ({"multi_step": 3.0}, {"multi_step": 3, "steps": 4.0, "colour": "red"}),
)
"""Changes that make one recipe."""
UNCHANGED: tuple[Changes, ...] = ({"multi_step": 1.0}, {"steps": 4.0}, {"offset": 0.5, "multi_step": 1.0})
"""Changes that leave the recipe as it is."""


@attack("an agent", "has one recipe judged by several gates, until one of them errs")
def one_recipe_in_several_spellings(run: Run) -> Result:
    """Submit a recipe, then the same recipe with its numbers in another spelling, and the recipe in force."""
    through: list[str] = []
    with Running(open_home(run.folder / "home"), recipe=RECIPE, paused=True) as lab:

        def refusal(lane: str, changes: Changes) -> str:
            def submit() -> object:
                client = lab.client(lane)
                made = tools.call(client, "propose_hypothesis", CLAIM)
                sent = {"hypothesis_id": made["hypothesis_id"], "changes": dict(changes)}
                return tools.call(client, "submit_candidate", sent)

            try:
                lab.beside(submit)
            except RequestRefused as refused:
                return str(refused)
            return ""

        for number, (first, again) in enumerate(SPELLINGS):
            if refusal(f"first-{number}", first) or "exactly this recipe" not in refusal(f"again-{number}", again):
                through.append(f"{again} beside {first}")
        for number, changes in enumerate(UNCHANGED):
            if "as it is" not in refusal(f"same-{number}", changes):
                through.append(f"{changes} beside the recipe in force")
        queued = len(lab.lab.state.proposals.queue())
    tried = len(SPELLINGS) + len(UNCHANGED)
    evidence = f"{tried - len(through)} of {tried} recipes in another spelling were refused, {queued} wait for training"
    return Result(
        tried=tried,
        held=tried - len(through) if queued == len(SPELLINGS) else 0,
        evidence=". ".join([evidence, *through[:1]]),
    )
