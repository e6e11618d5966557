"""Seeds of training runs: common random numbers, so that a change without effect makes the same version again."""

from __future__ import annotations

from collections.abc import Callable

from enpire.campaign.branch import Branch
from enpire.campaign.branches import Branches

GROUP, REPEAT = 1_000_003, 10_007
"""Distances between the seeds of groups of sessions, and of repeated experiments."""


def seed_of_round(campaign_seed: int, round_: int) -> int:
    """The seed of a round of the campaign."""
    return campaign_seed * 1000 + round_


def seed_of_turn(campaign_seed: int, branches: Branches, branch: Branch, knows: Callable[[str], bool]) -> int:
    """The seed of the next training run of a branch.

    It is the same for all branches that have made as many turns, with those of the branches that they continue. Then
    two recipes that differ in a setting without effect make the same version. It differs where the same experiment is
    repeated, with another champion or by an operator. It also differs from the seeds of sessions that the branch's own
    one does not know: an equal version would show them what it tried.

    Args:
        campaign_seed: of the campaign file.
        branches: of the campaign.
        branch: the one that trains.
        knows: whether its session knows a session; it knows itself.
    """
    known = [one for one in branches.by_experiment.values() if one is branch or knows(one.lane)]
    repeats = sum(
        one.number < branch.number and one.recipe.hash == branch.recipe.hash
        and one.parent_experiment == branch.parent_experiment
        for one in known
    )  # fmt: skip
    group = min(one.number for one in known)
    turns = sum(one.turn for one in branches.continued(branch))
    return campaign_seed * 1000 + GROUP * group + REPEAT * repeats + turns + 1


def seed_of_older_run(campaign_seed: int, round_: int, branch: Branch | None) -> int:
    """The seed of a training run that began before its seed was recorded."""
    return seed_of_round(campaign_seed, round_) + (1_000_000 * branch.number if branch else 0)
