"""What to set differently in a campaign file that is allowed: a sentence each, before the campaign runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from enpire.campaign.campaign import Campaign, Stations
from enpire.gate.gate import least_pairs
from enpire.gate.rule import GateRule, level

SIMULATED = frozenset({"mujoco", "fake"})
"""Drivers whose outcomes do not depend on the hour."""
BLOCK = 8
"""Pairs of one vote that the sentence proposes."""


def advice(campaign: Campaign) -> Sequence[str]:
    """The sentences on blocks, and on the pairs that *faster* needs with the file's blocks or the proposed ones."""
    blocks, rule = of_blocks(campaign), campaign.gate
    return [one for one in (blocks, of_pairs(rule, BLOCK if blocks else rule.block)) if one]


def of_blocks(campaign: Campaign) -> str:
    """Why the gate should have blocks where stations may be real robots; empty where it has them, or all are simulated.

    The drivers of stations that connect are not known before they do.
    """
    stations = campaign.stations
    own_are_real = stations.count > 0 and _driver(stations) not in SIMULATED
    if campaign.gate.block > 1 or not (own_are_real or stations.listens):
        return ""
    which = "The stations are not simulated" if own_are_real else "Real robots may connect as stations"
    return (
        f"{which}: outcomes of one session can be correlated (light, wear, a warm motor), so set "
        f"gate: {{block: {BLOCK}}} in the campaign file (docs/gate.md)."
    )


def of_pairs(rule: GateRule, block: int) -> str:
    """That no gate with this block can promote a candidate as faster, and the pairs that it takes; empty if one can.

    The block may be a proposed one, and longer than all pairs of the rule.
    """
    least = least_pairs(replace(rule, block=block, pairs=max(rule.pairs, block)), level(rule.alpha, 1, 0))
    if rule.pairs >= least:
        return ""
    return (
        f"With gate: {{block: {block}, pairs: {rule.pairs}}} a candidate can be promoted as better, but not as faster: "
        f"that needs at least {least} pairs at a margin of {rule.margin:.1%}, and more if trials fail (docs/gate.md)."
    )


def _driver(stations: Stations) -> str:
    """The driver of the campaign's own stations; that of the robot where a guard runs it."""
    match stations.options.get("guard"):
        case {"driver": str(driver)}:
            return driver
        case _:
            return stations.driver
