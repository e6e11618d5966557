"""The arms of a campaign: the sessions that share, and each isolated one. What did sharing gain per robot-hour?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from enpire.campaign.branch import Branch
from enpire.campaign.branches import Branches
from enpire.campaign.gains import LEAST_PAIRS, success_gain
from enpire.queries.branch_models import ArmView
from enpire.queries.branch_sources import is_isolated
from enpire.types import Json

SHARING = ""
"""Key of the arm of all sessions that share."""


def arms(branches: Branches, plan: Mapping[str, Json], base: str, gate_s: Mapping[str, float]) -> Sequence[ArmView]:
    """The arms of a campaign, the sharing one first; none if there is only one.

    Args:
        branches: with their search rollouts.
        plan: the section `branches` of the campaign file.
        base: the first champion, to which the versions of all arms are compared.
        gate_s: version -> robot time of its gates, in seconds.
    """
    found: dict[str, list[Branch]] = {}
    for one in branches.by_experiment.values():
        found.setdefault(one.lane if is_isolated(plan, one.lane) else SHARING, []).append(one)
    return [_arm(branches, found[key], base, gate_s) for key in sorted(found)] if len(found) > 1 else []


def _arm(branches: Branches, members: Sequence[Branch], base: str, gate_s: Mapping[str, float]) -> ArmView:
    versions = dict.fromkeys(version for one in members for version in one.versions if version != base)
    of_base = branches.rollouts(base)
    gains = [(success_gain(branches.rollouts(version), of_base), version) for version in versions]
    best = max((one for one in gains if one[0].n >= LEAST_PAIRS), key=lambda one: (one[0].mean, one[0].n), default=None)
    robot_s = math.fsum(one.robot_s for one in members) + math.fsum(gate_s.get(version, 0.0) for version in versions)
    lanes = tuple(sorted({one.lane for one in members}))
    if best is None:
        return ArmView(lanes=lanes, branches=len(members), robot_s=robot_s)
    gain, version = best
    found = gain.mean, gain.low, gain.high
    hourly, hourly_low, hourly_high = (3600 * one / robot_s if robot_s else None for one in found)
    return ArmView(
        lanes=lanes, branches=len(members), robot_s=robot_s, version=version, n=gain.n, success=gain.mean,
        low=gain.low, high=gain.high, per_robot_h=hourly, per_robot_h_low=hourly_low, per_robot_h_high=hourly_high,
    )  # fmt: skip
