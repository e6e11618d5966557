"""How the robot time that gates and confirmations leave is divided among data collection and branches."""

from __future__ import annotations

from collections.abc import Mapping

from enpire.campaign import branch_time
from enpire.campaign.campaign import Campaign
from enpire.campaign.state import CampaignState

COLLECT, CHAMPION = "collect", ""
"""Keys of `robot_time_shares` besides the experiments of branches."""
LEAST_COLLECTION = 0.1
"""Share of data collection while no round needs rollouts, or while the campaign is stalled. These rollouts measure the
champion."""


def robot_time_shares(state: CampaignState, campaign: Campaign, limit_ticks: int, *, due: bool) -> Mapping[str, float]:
    """Weights of the next order: `COLLECT`, `CHAMPION`, and the experiments of active branches.

    A share is one of robot time, so the weight of a branch is its share over the mean time of its rollouts, and that of
    data collection its share over the mean time of the champion's. The champion acts on search starts while it has
    fewer of them than a branch, or than a comparison needs while a branch is undecided; it counts as one branch then.

    Args:
        state: of the campaign.
        campaign: the campaign file.
        limit_ticks: of the task.
        due: whether the next round needs more rollouts.
    """
    plan, branches = campaign.branches, state.branches
    within = branch_time.shares(branches, limit_ticks, plan.robot_s, plan.least_starts)
    behind = branches.champion_is_behind(plan.least_starts)
    if not within and not behind:
        return {COLLECT: 1.0}
    collection = 1 - plan.share
    stalled = state.rounds_since_promotion >= plan.stalled_rounds or plan.hand_over_after > 0
    if not due or stalled or state.round >= campaign.budget.rounds:
        collection = min(collection, LEAST_COLLECTION)
    shares = {key: (1 - collection) * share for key, share in within.items()}
    if behind:
        shares = {key: share * len(shares) / (len(shares) + 1) for key, share in shares.items()}
        shares[CHAMPION] = (1 - collection) / (len(within) + 1)
    versions = {key: branches.by_experiment[key].newest if key else state.champion for key in shares}
    times = {key: branches.searched[one].mean_s for key, one in versions.items() if one in branches.searched}
    known = [time for time in times.values() if time]
    usual = sum(known) / len(known) if known else 1.0
    champion = branches.searched.get(state.champion)
    rollout_s = (champion.mean_s if champion else 0.0) or usual
    return {COLLECT: collection / rollout_s} | {key: share / (times.get(key) or usual) for key, share in shares.items()}
