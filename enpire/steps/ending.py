"""When a campaign is over, and how the robots are brought to rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from enpire.campaign.session_events import CampaignEnded
from enpire.lab import Lab
from enpire.steps.handle_commands import handle_stops
from enpire.steps.improve import PATIENCE
from enpire.steps.record import end_orders, record, robot_time

REST_S, LAST_REST_S = 1.2, 120.0
"""How long the wind-up waits at most for what stations give back: after an interruption, at the campaign's end.
A station leaves when it has delivered everything, or when nobody takes it."""

INTERRUPTED = "interrupted"
"""What is wanted after Ctrl-C or SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one session of a campaign ended."""

    campaign_id: str
    reached: bool
    """Whether a champion was confirmed at the goal."""
    reason: str
    over: bool
    """False when it was interrupted: the same command goes on."""
    home: Path


def ending(lab: Lab) -> Ending | None:
    """Whether the campaign is over, and why; None while it goes on."""
    state, budget = lab.state, lab.campaign.budget
    if state.confirmed.get(state.champion):
        return _ended(lab, True, f"the champion is confirmed at {lab.campaign.goal.success:.0%}")
    if lab.wanted:
        return _ended(lab, False, lab.wanted, over=lab.for_good)
    if 0 < budget.wall_s <= lab.elapsed_s():
        return _ended(lab, False, f"the budget of {budget.wall_s:.0f} s of wall clock is spent")
    if 0 < budget.robot_s <= state.robot_s + state.robot_session_s:
        return _ended(lab, False, f"the budget of {budget.robot_s:.0f} s of robot time is spent")
    if state.failures_in_a_row >= PATIENCE:
        return _ended(lab, False, f"{PATIENCE} training runs failed in a row")
    idle = not (state.training or state.candidates or state.gate or state.confirmation)
    if idle and state.champion and state.round >= budget.rounds:
        return _ended(lab, False, f"the budget of {budget.rounds} rounds is spent")
    return None


def _ended(lab: Lab, reached: bool, reason: str, *, over: bool = True) -> Ending:
    if over:
        lab.write(robot_time(lab), CampaignEnded(reached=reached, reason=reason))
    return Ending(campaign_id=lab.state.campaign_id, reached=reached, reason=reason, over=over, home=lab.home.root)


def _patience_s(lab: Lab) -> float:
    here = {name for name, seat in lab.stations.items() if seat.away_since_s is None}
    if here.isdisjoint(order.station for order in lab.state.open.values()):
        return 0.0
    return LAST_REST_S if lab.state.over and lab.wanted != INTERRUPTED else REST_S


def wind_up(lab: Lab) -> None:
    """Release what waits, end what runs, keep what arrives.

    At the campaign's end every order that is still open ends as unknown: a station that was away may have done it, and
    delivers it to whoever runs next in this home. After an interruption it stays open: what the stations still hold,
    in a spool on their own disks, is delivered when the same command goes on.
    """
    for station in lab.stations.values():
        lab.fleet.control(station.name, "leave")
    if lab.learner is not None:
        lab.learner.end()
    for lane in lab.agent_lanes:
        lane.end()
    if lab.waits_for_space:
        return  # an operator ended the session, and the disk takes nothing
    began_s = lab.clock()
    handle_stops(lab)
    while lab.state.open and lab.clock() - began_s < _patience_s(lab):
        record(lab)
        lab.tick()
    if lab.state.over:
        end_orders(lab, list(lab.state.open.values()), "unknown", "the campaign ended first")
    lab.write(robot_time(lab))
    lab.tick()  # whoever watches sees the last episodes counted
