"""When a campaign ends, and how a session shuts down."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from enpire.campaign.session_events import CampaignEnded
from enpire.lab import Lab
from enpire.requests.model_calls import MOST_OPEN
from enpire.scheduling.scheduler import in_flight, measures_champion
from enpire.steps.evaluate import why_unloadable
from enpire.steps.handle_commands import handle_stops
from enpire.steps.improve import MAX_FAILURES
from enpire.steps.model_calls import record_model_calls
from enpire.steps.record import end_orders, record, robot_time, store_gathered
from enpire.wording import at_most

DELIVERY_S, END_DELIVERY_S = 1.2, 120.0
"""Longest wait for the last episodes, in seconds: after an interruption, and at the end of the campaign.
A station leaves after it has delivered its episodes, or when the orchestrator no longer answers. The orders of a
station that has not joined in this session end SILENT_S after its start (`record`)."""

INTERRUPTED = "interrupted"
"""`Lab.end_reason` after Ctrl-C or SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one session of a campaign ended."""

    campaign_id: str
    reached: bool
    """Whether a champion was confirmed at the goal."""
    reason: str
    over: bool
    """Whether the campaign ended. After an interruption it is False: the same command resumes the campaign."""
    home: Path


def ending(lab: Lab) -> Ending | None:
    """How the session ends; None while the campaign runs."""
    state, budget = lab.state, lab.campaign.budget
    if state.confirmed.get(state.champion) and not state.quarantine.holds(state.champion):
        goal = lab.campaign.goal
        where = "above" if goal.by == "bound" else "at"
        return _ended(lab, True, f"the champion is confirmed {where} {100 * goal.success:g}%{at_most(goal.commands)}")
    if lab.end_reason:
        return _ended(lab, False, lab.end_reason, over=lab.ends_campaign)
    if 0 < budget.wall_s <= lab.elapsed_s():
        return _ended(lab, False, f"the budget of {budget.wall_s:.0f} s of wall-clock time is used up")
    if 0 < budget.robot_s <= state.robot_s + state.robot_session_s:
        return _ended(lab, False, f"the budget of {budget.robot_s:.0f} s of robot time is used up")
    if state.failures_in_a_row >= MAX_FAILURES:
        return _ended(lab, False, f"{MAX_FAILURES} training runs failed in a row")
    decides = state.free_candidates or state.gates or state.confirmation or _measures(lab)
    idle = not (state.training or decides or _branches_go_on(lab))
    if idle and state.champion and state.round >= budget.rounds:
        return _ended(lab, False, f"the budget of {budget.rounds} rounds is used up")
    return None


def _measures(lab: Lab) -> bool:
    """Whether trials on hidden starts may still show that the champion would be confirmed."""
    if in_flight(lab.state, "measure"):
        return True
    return measures_champion(lab.state, lab.campaign) and not why_unloadable(lab, lab.state.champion)


def _branches_go_on(lab: Lab) -> bool:
    """Whether a branch is undecided, or an agent may still open one."""
    proposals, plan = lab.state.proposals, lab.campaign.branches
    lanes = {lane for agent in lab.campaign.agents for lane in agent.lane_names}
    at_work = bool(plan.recipes) and bool(lanes - proposals.away - proposals.finished.keys())
    return at_work or bool(lab.state.branches.undecided)


def _ended(lab: Lab, reached: bool, reason: str, *, over: bool = True) -> Ending:
    if over:
        lab.write(robot_time(lab), CampaignEnded(reached=reached, reason=reason))
    return Ending(campaign_id=lab.state.campaign_id, reached=reached, reason=reason, over=over, home=lab.home.root)


def _delivery_limit_s(lab: Lab) -> float:
    """0 if only stations that have left hold open orders. One that still starts may bring episodes from its spool."""
    left = {name for name, station in lab.stations.items() if station.away_since_s is not None}
    if left.issuperset(order.station for order in lab.state.open.values()):
        return 0.0
    return END_DELIVERY_S if lab.state.over and lab.end_reason != INTERRUPTED else DELIVERY_S


def shut_down(lab: Lab) -> None:
    """Send the stations away, end the learner and the agents, and store the episodes that still arrive.

    At the end of the campaign, open orders end as unknown. A station that was away may have done such an order; it
    delivers the episode to the next campaign in this home. After an interruption, open orders stay open: the stations
    keep the episodes in their spools and deliver them when the same command resumes the campaign.
    """
    for station in lab.stations.values():
        lab.fleet.control(station.name, "leave")
    running = [*lab.branch_learners.values(), *lab.agent_sessions, *([lab.learner] if lab.learner else ())]
    # All end at once, and the stations deliver meanwhile: each may take a second.
    with ThreadPoolExecutor(max(1, len(running))) as pool:
        ends = [pool.submit(process.end) for process in running]
        if not lab.waits_for_space:  # otherwise an operator ended the session, and the disk is still full
            _store_last_episodes(lab)
    if not lab.waits_for_space:
        record_model_calls(lab, most=MOST_OPEN)
        lab.tick()  # the observers see the last episodes
    for end in ends:
        end.result()


def _store_last_episodes(lab: Lab) -> None:
    began_s = lab.clock()
    handle_stops(lab)
    while lab.state.open and lab.clock() - began_s < _delivery_limit_s(lab):
        record(lab)
        lab.tick()
    store_gathered(lab)
    if lab.state.over:
        end_orders(lab, list(lab.state.open.values()), "unknown", "the campaign ended first")
    lab.write(robot_time(lab))
