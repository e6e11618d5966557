"""Agents propose what to try next; what they submit takes the same road as any candidate."""

from __future__ import annotations

from enpire.lab import Lab


def evolve(lab: Lab) -> None:
    """Give every agent lane its turn, when one is due."""
    for lane in lab.agent_lanes:
        lane.turn(lab)
