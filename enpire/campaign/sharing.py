"""What an agent session knows of the others: the proposals that it may see, by the `sharing` of its campaign."""

from __future__ import annotations

from dataclasses import replace

from enpire.campaign.branch_plan import BranchPlan, Sharing
from enpire.campaign.experiments import Proposals
from enpire.campaign.proposed import Experiment

ENDED = "ended its work"
"""What a session reads instead of the summary of another one, where results alone are shared."""


def visible(proposals: Proposals, plan: BranchPlan, lane: str) -> Proposals:
    """The proposals as one agent session may see them.

    It sees its own whole. Of the others it sees everything (`adopt`), the results of their experiments (`leaderboard`),
    or nothing (`isolated`). Recipes that were kept count for the recipe in force only where it sees everything.
    """
    known: dict[str, Sharing] = {
        one: plan.between(lane, one)
        for one in {item.lane for item in proposals.experiments.values()}
        | {item.hypothesis.lane for item in proposals.hypotheses.values()}
        | {item.lane for item in proposals.conclusions}
        | set(proposals.finished)
    }
    if all(level == "adopt" for level in known.values()):
        return proposals
    experiments = {
        name: item if known[item.lane] == "adopt" else result_alone(item)
        for name, item in proposals.experiments.items() if known[item.lane] != "isolated"
    }  # fmt: skip
    hidden = {item.policy_id for item in proposals.experiments.values() if known[item.lane] != "adopt"}
    return replace(
        proposals,
        experiments=experiments,
        hypotheses={
            name: item for name, item in proposals.hypotheses.items() if known[item.hypothesis.lane] == "adopt"
        },
        conclusions=[item for item in proposals.conclusions if known[item.lane] == "adopt"],
        kept=[item for item in proposals.kept if item[0] not in hidden],
        finished={
            one: how if known[one] == "adopt" else ENDED
            for one, how in proposals.finished.items() if known[one] != "isolated"
        },
    )  # fmt: skip


def result_alone(experiment: Experiment) -> Experiment:
    """The experiment without its settings and changes, and without texts that may name them."""
    return replace(
        experiment, changes={}, recipe=None, recipe_hash="", trained_hash="", metrics={}, commit="", continues="",
        why=experiment.why if experiment.phase == "decided" else "", quarantined="",
    )  # fmt: skip
