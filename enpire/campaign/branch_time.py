"""How the robot time of branches is divided among them, and how much of it each has used and ordered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from enpire.campaign.branch import Branch
from enpire.campaign.branches import Branches


def shares(branches: Branches, limit_ticks: int, budget_s: float, least_starts: int = 0) -> Mapping[str, float]:
    """Experiment -> share of the branches' robot time; the shares sum to 1, and are empty without active branches.

    Branches that wait for rollouts come first: what a robot does for one that trains comes too late for its next
    version. Half of the time is equal for all of them, so that each makes progress. The other half is proportional to
    the lower bounds of the gains.

    Args:
        branches: of the campaign.
        limit_ticks: of the task.
        budget_s: robot time of one branch, in seconds. A branch that trains keeps what its next version needs.
        least_starts: rollouts that a version needs to be compared with the champion.
    """
    ordered = Counter(order.branch for order in branches.open.values())
    active = [one for one in branches.active if _committed_s(branches, one, ordered, least_starts) < budget_s]
    acting = Counter(order.policy_id for order in branches.open.values())
    waiting = [
        one for one in active
        if one.phase == "search" and (
            len(branches.rollouts(one.newest).results) + acting[one.newest] < max(one.turn_rollouts, least_starts)
            or not _compares_another(branches, one, ordered, budget_s, least_starts)  # its last version
        )
    ]  # fmt: skip
    active = waiting or active
    if not active:
        return {}
    lows = [max(0.0, branches.recent_low(branch.newest, limit_ticks)) for branch in active]
    total = math.fsum(lows)
    return {
        branch.experiment_id: 0.5 / len(active) + 0.5 * (low / total if total else 1 / len(active))
        for branch, low in zip(active, lows, strict=True)
    }


def has_another_turn(branches: Branches, branch: Branch, budget_s: float, least_starts: int) -> bool:
    """Whether the robot time of a branch suffices to compare another version with the champion."""
    ordered = Counter(order.branch for order in branches.open.values())
    return _compares_another(branches, branch, ordered, budget_s, least_starts)


def _compares_another(
    branches: Branches, branch: Branch, ordered: Mapping[str, int], budget_s: float, least_starts: int
) -> bool:
    found = branches.rollouts(branch.newest)
    return _used_s(branches, branch, ordered) + least_starts * found.mean_s < budget_s


def _used_s(branches: Branches, branch: Branch, ordered: Mapping[str, int]) -> float:
    """Robot time of a branch, in seconds, with an estimate of what its orders without an outcome will take."""
    return branch.robot_s + ordered.get(branch.experiment_id, 0) * branches.rollouts(branch.newest).mean_s


def _committed_s(branches: Branches, branch: Branch, ordered: Mapping[str, int], least_starts: int) -> float:
    kept = least_starts * branches.rollouts(branch.newest).mean_s if branch.phase == "training" else 0.0
    return _used_s(branches, branch, ordered) + kept
