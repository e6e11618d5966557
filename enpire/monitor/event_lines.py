"""One line of text about each event that the operator of a running campaign should see."""

from __future__ import annotations

from enpire.campaign.agent_events import HypothesisMarked
from enpire.campaign.branch_events import BranchDecision, BranchEnded, BranchEnteredGate, BranchEvent, RoundsHandedOver
from enpire.campaign.command_events import CommandAccepted, CommandEvent, CommandRefused
from enpire.campaign.events import Event
from enpire.campaign.gate_events import (
    BaseMeasured,
    ConfirmationOpened,
    Confirmed,
    Deployed,
    GateDecided,
    GateEvent,
    GateOpened,
    RolledBack,
)
from enpire.campaign.limits import limits_text
from enpire.campaign.order_events import EpisodeLabelled, EpisodeRefused, LateResults
from enpire.campaign.quarantine_events import APPROVALS, ExperimentCleared, ExperimentQuarantined, LaneSuspected
from enpire.campaign.session_events import (
    CampaignContinued,
    CampaignEnded,
    CampaignPaused,
    LimitsChanged,
    SessionEvent,
)
from enpire.campaign.station_events import StationEvent, StationHeld, StationJoined, StationLeft
from enpire.campaign.training_events import LearnerEnded, LearnerFailed, LearnerStarted, TrainingEvent, VersionImported
from enpire.gate.intervals import lower_bound
from enpire.gate.reasons import reason_text
from enpire.queries.models import weighed
from enpire.wording import counted, median_text, within


def line_of(event: Event) -> str:
    """One line about an event; empty for events that are not shown."""
    if isinstance(event, GateEvent):
        return _of_gate(event)
    if isinstance(event, TrainingEvent):
        return _of_training(event)
    if isinstance(event, StationEvent):
        return _of_station(event)
    if isinstance(event, SessionEvent):
        return _of_session(event)
    if isinstance(event, CommandEvent):
        return _of_command(event)
    if isinstance(event, BranchEvent):
        return _of_branch(event)
    return _of_other(event)


def _of_other(event: Event) -> str:
    match event:
        case EpisodeLabelled():
            if not event.outcome:
                return f"{event.by} withdrew the label of episode {event.order_id}"
            return f"{event.by} labelled episode {event.order_id}: {event.outcome}"
        case LateResults():
            return f"{counted(len(event.results), 'late result')} of orders that had ended as unknown"
        case ExperimentQuarantined() | ExperimentCleared():
            return _of_quarantine(event)
        case LaneSuspected():
            return f"agent session {event.lane} is suspected ({event.tripwire}): {event.why}"
        case HypothesisMarked():
            done = event.mark or "restored"
            return f"{event.by} {done} the hypothesis {event.hypothesis_id}" + (
                f": {event.reason}" if event.reason else ""
            )
        case EpisodeRefused():
            return f"an episode of {event.station} was refused: {event.why}"
        case _:
            return ""


def _of_quarantine(event: ExperimentQuarantined | ExperimentCleared) -> str:
    subject = f"experiment {event.experiment_id}" if event.experiment_id else f"version {event.policy_id[:12]}"
    if isinstance(event, ExperimentCleared):
        line = f"{event.by} cleared {subject}: {event.reason}"
        return f"{line}; it stays in quarantine ({', '.join(event.still)}), which came later" if event.still else line
    if event.tripwire in APPROVALS:
        return f"{subject} waits for an approval: {event.why}; enpire experiment approve {event.subject} --reason TEXT"
    return f"{subject} is in quarantine ({event.tripwire}): {event.why}"


def _of_gate(event: GateEvent) -> str:
    match event:
        case BaseMeasured():
            rate = f"{event.successes} of {event.n} succeed [{event.low:.3g}, {event.high:.3g}]"
            return f"base policy {event.policy_id[:12]}: {rate}"
        case GateOpened():
            return f"gate {event.k}: candidate {event.candidate[:12]} against champion {event.champion[:12]}"
        case GateDecided():
            evidence: float = getattr(event, weighed(event.reason))
            line = (
                f"gate: {event.decision} ({reason_text(event.reason)}), "
                f"+{event.wins} -{event.losses} of {event.pairs} pairs, "
                f"log evidence {evidence:.3g} (threshold {event.log_need:.3g})"
            )
            return f"{line}: {event.why}" if event.why else line
        case Deployed():
            return f"deployed {event.policy_id[:12]}: {event.reason}"
        case RolledBack():
            return f"rolled back to {event.to[:12]}: {event.reason}"
        case ConfirmationOpened():
            return f"confirming {event.policy_id[:12]} on {event.n} fresh starts"
        case Confirmed():
            bound = lower_bound(event.successes, event.n)
            rate = f"{event.successes} of {event.n}{within(event.limit_ticks)}"
            rate += f" [{event.low:.3g}, {event.high:.3g}], at least {bound:.3g}"
            if speed := median_text(event.median, event.median_low, event.median_high):
                rate += f", {speed}"
            return f"confirmation of {event.policy_id[:12]}: {rate}, passed: {'yes' if event.passed else 'no'}"


def _of_training(event: TrainingEvent) -> str:
    match event:
        case LearnerStarted() if event.turn:
            return (
                f"branch {event.experiment_id[-6:]}, turn {event.turn}: {event.learner} learns from "
                f"{counted(len(event.episodes), 'episode')}"
            )
        case LearnerStarted():
            return f"round {event.round}: {event.learner} learns from {counted(len(event.episodes), 'episode')}"
        case LearnerEnded():
            return f"learned {event.policy_id[:12]} in {event.seconds:.3g} s"
        case VersionImported():
            return f"the base {event.policy_id[:12]} was imported" + (f" from {event.source}" if event.source else "")
        case LearnerFailed():
            was_ended = event.over_budget or event.branch_over
            return f"the learner {'was ended' if was_ended else 'failed'}: {event.why}"
        case _:
            return ""


def _of_branch(event: BranchEvent) -> str:
    return _of_hand_over(event) if isinstance(event, RoundsHandedOver) else _of_decided_branch(event)


def _of_hand_over(event: RoundsHandedOver) -> str:
    if event.reason == "no round left":
        return f"no round is left after round {event.round}; robots act for branches now"
    last = "the last round" if event.without_gain == 1 else f"the last {event.without_gain} rounds"
    return f"{last} did not show more success; robots act for branches now"


def _of_decided_branch(event: BranchDecision) -> str:
    used = f"after {event.robot_s / 60:.1f} robot-minutes"
    gain = f"gain {event.gain:+.3f} [{event.low:+.3f}, {event.high:+.3f}] on {event.n} starts"
    match event:
        case BranchEnteredGate():
            return f"branch {event.experiment_id[-6:]} enters a gate with {event.policy_id[:12]}: {gain}, {used}"
        case BranchEnded():
            why = event.reason + (f" ({event.detail})" if event.detail else "")
            return f"branch {event.experiment_id[-6:]} ended: {why}, {gain}, {used}"


def _of_station(event: StationEvent) -> str:
    match event:
        case StationJoined():
            return f"station {event.station} joined with {counted(event.lanes, 'lane')}"
        case StationLeft():
            return f"station {event.station} left: {event.cause}"
        case StationHeld():
            return (
                f"station {event.station} is held again ({event.command} by {event.by}); "
                "`enpire campaign resume --stations` ends it"
            )
        case _:
            return ""


def _of_session(event: SessionEvent) -> str:
    match event:
        case CampaignPaused():
            return f"paused by {event.by}: {event.why}" if event.why else f"paused by {event.by}"
        case LimitsChanged():
            return f"{event.by} changed the limits: {limits_text(event.limits)}" + (
                f" ({event.reason})" if event.reason else ""
            )
        case CampaignContinued():
            return f"continued by {event.by}"
        case CampaignEnded():
            return f"campaign ended: {event.reason}"
        case _:
            return ""


def _of_command(event: CommandEvent) -> str:
    match event:
        case CommandAccepted():
            return f"command of {event.by}: {event.command} {event.target}".rstrip()
        case CommandRefused():
            return f"command of {event.by} refused: {event.command}: {event.why}"
        case _:
            return ""
