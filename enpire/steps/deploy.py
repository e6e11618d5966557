"""Make a version the champion of all stations, or roll back to an earlier champion."""

from __future__ import annotations

from enpire.campaign.gate_events import Deployed, RolledBack
from enpire.campaign.session_events import CampaignPaused
from enpire.campaign.state import CampaignState
from enpire.gate.regression import CHANGE_DETECTOR
from enpire.lab import Lab


def deploy(lab: Lab) -> None:
    """Deploy the base policy, or roll back a champion that performs worse than its predecessor.

    A promotion by a gate is written in one transaction with the gate's decision (steps/evaluate.py).
    """
    state = lab.state
    if not state.champion and state.free_candidates:
        swap(lab, state.free_candidates[0][0], "the base")
    elif len(state.champions) > 1 and not (state.gates or state.confirmation or _collecting_in_lockstep(lab)):
        _roll_back_regression(lab)


def swap(lab: Lab, policy_id: str, reason: str) -> None:
    """Make a version the champion. Stations load it now and switch between two episodes."""
    release_gates(lab)
    lab.write(deployment(lab.state, policy_id, reason))
    send_champion(lab)


def deployment(state: CampaignState, policy_id: str, reason: str) -> Deployed:
    """The event that makes a version the champion."""
    return Deployed(policy_id=policy_id, previous=state.champion, reason=reason, round=state.round)


def roll_back(lab: Lab, to: str, reason: str) -> None:
    """Make an earlier version the champion again. Candidates of the current champion are dropped."""
    release_gates(lab)
    lab.write(RolledBack(policy_id=lab.state.champion, to=to, reason=reason))
    send_champion(lab)


def release(lab: Lab, gate_id: str) -> None:
    """Release the orders of a gate that have not begun at their stations."""
    for station in lab.stations.values():
        left = [
            order.order_id
            for order in lab.state.open.values()
            if order.gate_id == gate_id and order.station == station.name
        ]
        if left:
            lab.fleet.release(station.name, left)


def release_gates(lab: Lab) -> None:
    """Release the orders of all open gates: the champion is replaced."""
    for gate_id in lab.state.gates:
        release(lab, gate_id)


def send_champion(lab: Lab) -> None:
    """Send the champion's id to every station. A station reports the version that it runs in its heartbeats."""
    for station in lab.stations.values():
        lab.fleet.control(station.name, "deploy", lab.state.champion)


def _collecting_in_lockstep(lab: Lab) -> bool:
    """Whether a collection in lockstep is incomplete. Its result would depend on the order of arrival."""
    return lab.campaign.rounds.lockstep and bool(lab.state.fresh or lab.state.open)


def _roll_back_regression(lab: Lab) -> None:
    """Roll back if the champion succeeds less often in data collection than its predecessor (gate/regression.py).

    Only train starts without hard-start sampling count. A champion that a rollback restored is compared with its own
    rate before. If it fell as well, another rollback would not help: the campaign pauses until an operator resumes it.
    """
    state, watch = lab.state, lab.state.watch
    if watch is None or not watch.found:
        return
    now = f"in data collection is {watch.successes} of {watch.trials}"
    earlier = [one for one in reversed(state.champions) if one != state.champion]
    possible = state.may_be_parents(earlier)
    if possible and not state.restored:
        roll_back(lab, possible[0], f"success {now}; version {earlier[0][:12]} succeeded in at least {watch.rate:.1%}")
    elif not state.paused:
        fell = f"the success of version {state.champion[:12]} {now} and was at least {watch.rate:.1%} before"
        if state.restored:
            why = f"Check the scene: {earlier[0][:12]} was rolled back, and now {fell}"
        else:
            why = f"The champion fell, and no earlier version may replace it: {fell}"
        lab.write(CampaignPaused(by=CHANGE_DETECTOR, why=f"{why}. Then resume (enpire campaign resume)."))
