"""What to set differently in a campaign file that is allowed: one sentence, before the campaign runs."""

from __future__ import annotations

from enpire.campaign.campaign import Campaign, Stations

SIMULATED = frozenset({"mujoco", "fake"})
"""Drivers whose outcomes do not depend on the hour."""
BLOCK = 8
"""Pairs of one vote that the sentence proposes."""


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


def _driver(stations: Stations) -> str:
    """The driver of the campaign's own stations; that of the robot where a guard runs it."""
    match stations.options.get("guard"):
        case {"driver": str(driver)}:
            return driver
        case _:
            return stations.driver
