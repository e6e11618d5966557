"""Promoted: every station runs it. Regressed: back to the one before."""

from __future__ import annotations

from enpire.campaign.gate_events import Deployed, RolledBack
from enpire.campaign.state import CampaignState
from enpire.gate.intervals import wilson
from enpire.lab import Lab

WATCHED = 100
"""Episodes of each of the two versions before a regression can be seen."""


def deploy(lab: Lab) -> None:
    """Deploy the base; roll back a champion that does worse than the one it replaced.

    A promotion is deployed in the same transaction as its gate's decision (steps/evaluate.py).
    """
    state = lab.state
    if not state.champion and state.candidates:
        swap(lab, state.candidates[0][0], "the base")
    elif len(state.champions) > 1 and state.gate is None and state.confirmation is None and not _counting(lab):
        _watch(lab)


def swap(lab: Lab, policy_id: str, reason: str) -> None:
    """Make a version the champion; stations load it now and change at an episode's boundary."""
    _release_gate(lab)
    lab.write(deployment(lab.state, policy_id, reason))
    tell(lab)


def deployment(state: CampaignState, policy_id: str, reason: str) -> Deployed:
    """The event that makes a version the champion."""
    return Deployed(policy_id=policy_id, previous=state.champion, reason=reason, round=state.round)


def roll_back(lab: Lab, to: str, reason: str) -> None:
    """Make an earlier version the champion again; what was trained from the other is dropped."""
    _release_gate(lab)
    lab.write(RolledBack(policy_id=lab.state.champion, to=to, reason=reason))
    tell(lab)


def release(lab: Lab, gate_id: str) -> None:
    """What a gate no longer needs goes back, as far as it has not begun."""
    for station in lab.stations.values():
        left = [
            order.order_id
            for order in lab.state.open.values()
            if order.gate_id == gate_id and order.station == station.name
        ]
        if left:
            lab.fleet.release(station.name, left)


def _release_gate(lab: Lab) -> None:
    """A person overrules the gate that is open, if one is."""
    if lab.state.gate is not None:
        release(lab, lab.state.gate.gate_id)


def tell(lab: Lab) -> None:
    """Tell every station which version is the champion; each answers in its beats with the hash it runs."""
    for station in lab.stations.values():
        lab.fleet.control(station.name, "deploy", lab.state.champion)


def _counting(lab: Lab) -> bool:
    """In lockstep a collection that is going on is not looked at: that would depend on who came first."""
    return lab.campaign.rounds.lockstep and bool(lab.state.fresh or lab.state.open)


def _watch(lab: Lab) -> None:
    """Compare the collection of both on the train starts that are never practised: lower than before for sure?"""
    champion, previous = lab.state.champions[-1], lab.state.champions[-2]
    now, before = lab.state.collected.get(champion), lab.state.collected.get(previous)
    if now is None or before is None or min(now.n, before.n) < WATCHED:
        return
    if wilson(now.successes, now.n, 0.999).high < wilson(before.successes, before.n, 0.999).low:
        why = f"success in data collection fell from {before.rate:.1%} of {before.n} to {now.rate:.1%} of {now.n}"
        roll_back(lab, previous, why)
