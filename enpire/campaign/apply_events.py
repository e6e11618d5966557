"""Applies events to the state of a campaign: one function per subject, one case per event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from enpire.campaign.agent_events import AgentEvent, ExperimentEvent
from enpire.campaign.branch_events import BranchEnded, BranchEnteredGate, RoundsHandedOver
from enpire.campaign.command_events import (
    CommandAccepted,
    CommandEffective,
    CommandEvent,
    CommandRefused,
    CommandRequested,
)
from enpire.campaign.counts import Confirmation
from enpire.campaign.events import Event, UnknownEvent
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
from enpire.campaign.ledger import Ledger
from enpire.campaign.limits import merged
from enpire.campaign.order_events import (
    EpisodeLabelled,
    EpisodeRefused,
    LateResults,
    OrderEvent,
    OrdersEnded,
    OrdersIssued,
)
from enpire.campaign.quarantine_events import (
    EpisodeSuspected,
    ExperimentCleared,
    ExperimentQuarantined,
    LaneSuspected,
    QuarantineEvent,
)
from enpire.campaign.session_events import (
    CampaignContinued,
    CampaignEnded,
    CampaignPaused,
    CampaignResumed,
    CampaignStarted,
    LedgerRestored,
    LimitsChanged,
    SessionEvent,
    StoreDiffers,
)
from enpire.campaign.state import CampaignState, OpenGate, Training
from enpire.campaign.station_events import (
    OperatorNeeded,
    PeerRefused,
    RobotTime,
    StationEvent,
    StationHeld,
    StationJoined,
    StationLeft,
    StationRuns,
)
from enpire.campaign.study_events import StudyEvent
from enpire.campaign.training_events import (
    LearnerEnded,
    LearnerFailed,
    LearnerKilled,
    LearnerStarted,
    TrainingEvent,
    VersionImported,
    VersionMade,
)
from enpire.codec import episode_of
from enpire.gate.regression import CHANGE_DETECTOR
from enpire.gate.rule import rule_version, stored_rule
from enpire.gate.trials import SESSION_ENDED
from enpire.types import Episode, Order, OrderResult


def apply_event(state: CampaignState, event: Event, seq: int) -> None:
    """Apply one event of the campaign; `seq` is its number in the ledger."""
    state.newest_event = seq
    state.proposals.apply(event)
    state.quarantine.apply(event, seq)
    if isinstance(event, OrderEvent):
        _apply_order(state, event)
    elif isinstance(event, SessionEvent):
        _apply_session(state, event, seq)
    elif isinstance(event, StationEvent):
        _apply_station(state, event)
    elif isinstance(event, CommandEvent):
        _apply_command(state, event, seq)
    elif isinstance(event, TrainingEvent):
        _apply_training(state, event)
    elif isinstance(event, GateEvent):
        _apply_gate(state, event)
    elif isinstance(event, QuarantineEvent):
        _apply_quarantine(state, event)
    elif isinstance(event, BranchEnteredGate):
        state.candidates.append((event.policy_id, state.branches.by_experiment[event.experiment_id].newest_round))
    else:
        _apply_other(state, event)
    state.branches.apply(event)


def rebuilt(ledger: Ledger, campaign_id: str) -> CampaignState:
    """The state of a campaign from its events. Stops and pauses of stations stay in force across campaigns."""
    state = CampaignState(campaign_id=campaign_id)
    for entry in ledger.events():
        if entry.campaign_id == campaign_id:
            apply_event(state, entry.event, entry.seq)
        elif isinstance(entry.event, CommandAccepted):
            _apply_command(state, entry.event, entry.seq)
        state.newest_event = entry.seq
    return state


def _apply_other(
    state: CampaignState,
    event: ExperimentEvent | BranchEnded | RoundsHandedOver | AgentEvent | StudyEvent | UnknownEvent,
) -> None:
    """Change nothing: `state.proposals`, `state.branches` and `enpire.study.trials` apply these, or none does."""


def _apply_order(state: CampaignState, event: OrderEvent) -> None:
    match event:
        case OrdersIssued():
            for order in event.orders:
                state.issue(order)
        case OrdersEnded():
            for episode in _episodes(event.results, state.open):
                state.end(episode)
        case LateResults():
            for episode in _episodes(event.results, state.unknown):
                state.end_late(episode)
        case EpisodeLabelled():
            _apply_label(state, event)
        case EpisodeRefused():
            pass
        case _:
            assert_never(event)


def _apply_label(state: CampaignState, event: EpisodeLabelled) -> None:
    verdict = state.ended.get(event.order_id)
    if not event.outcome:
        state.labels.pop(event.order_id, None)
    elif verdict is not None:
        state.labels[event.order_id] = (verdict, event.outcome)


def _episodes(results: Sequence[OrderResult], orders: Mapping[str, Order]) -> list[Episode]:
    """The episodes of those results whose orders are known."""
    known = {result.order_id: result for result in results if result.order_id in orders}
    return [episode_of(result, orders[order_id]) for order_id, result in known.items()]


def _apply_session(state: CampaignState, event: SessionEvent, seq: int) -> None:
    match event:
        case CampaignStarted():
            state.verifier = event.verifier
            state.reissues.rule_version = rule_version(event.campaign)
        case CampaignResumed():
            state.wall_s, state.session_s = state.wall_s + state.session_s, 0.0
            state.robot_s, state.robot_session_s = state.robot_s + state.robot_session_s, 0.0
            state.session_ticks = 0
            state.over = False
            state.verifier = event.verifier or state.verifier
            state.cut_off = dict.fromkeys(state.open, event.after or SESSION_ENDED)
        case CampaignPaused():
            if event.why or not state.paused:  # an operator who pauses again does not replace the cause
                state.paused_by, state.paused_why = event.by, event.why
            state.paused, state.paused_seq = True, seq
        case LimitsChanged():
            state.limits = merged(state.limits, event.limits)
        case CampaignContinued():
            if state.paused_by == CHANGE_DETECTOR:
                state.compare_anew()
            state.paused, state.paused_by, state.paused_why = False, "", ""
            state.wrong_accepted = sum(verdict == "success" != label for verdict, label in state.labels.values())
        case CampaignEnded():
            state.over = True
        case StoreDiffers() | LedgerRestored():
            pass
        case _:
            assert_never(event)


def _apply_station(state: CampaignState, event: StationEvent) -> None:
    match event:
        case RobotTime():
            state.session_s, state.robot_session_s = event.wall_s, event.robot_s
        case StationJoined():
            state.lease = max(state.lease, event.lease)
        case StationLeft() | StationHeld() | StationRuns() | OperatorNeeded() | PeerRefused():
            pass  # of the session alone (`enpire.lab.StationStatus`)
        case _:
            assert_never(event)


def _apply_command(state: CampaignState, event: CommandEvent, seq: int) -> None:
    match event:
        case CommandAccepted():
            state.holds.accept(event, seq)
        case CommandRequested() | CommandRefused() | CommandEffective():
            pass
        case _:
            assert_never(event)


def _apply_training(state: CampaignState, event: TrainingEvent) -> None:
    match event:
        case LearnerStarted() if event.turn:
            state.branch_trainings[event.job] = _training(event)
        case LearnerEnded() | LearnerFailed() if event.job in state.branch_trainings:
            del state.branch_trainings[event.job]
        case LearnerStarted():
            state.training = _training(event)
            state.round = max(state.round, event.round)
            if not event.experiment_id:
                state.data.take(frozenset(event.episodes), event.round)
        case LearnerEnded():
            own = state.training is None or not state.training.experiment_id
            state.training, state.failures_in_a_row = None, 0 if own else state.failures_in_a_row
            state.candidates.append((event.policy_id, event.round))
        case LearnerFailed():
            own = state.training is None or not state.training.experiment_id
            state.training, state.failures_in_a_row = None, state.failures_in_a_row + own
        case LearnerKilled() | VersionMade() | VersionImported():
            pass
        case _:
            assert_never(event)


def _training(event: LearnerStarted) -> Training:
    return Training(
        job=event.job, parent=event.parent, round=event.round, recipe_hash=event.recipe_hash,
        data_hash=event.data_hash, recipe=event.recipe, episodes=event.episodes,
        experiment_id=event.experiment_id, turn=event.turn, seed=event.seed,
    )  # fmt: skip


def _apply_gate(state: CampaignState, event: GateEvent) -> None:
    match event:
        case BaseMeasured():
            state.base_measured = True
        case GateOpened():
            state.gates_opened, state.ended_since_gate = event.k, 0
            state.candidates = [item for item in state.candidates if item[0] != event.candidate]
            state.gates[event.gate_id] = OpenGate(
                gate_id=event.gate_id, champion=event.champion, candidate=event.candidate, round=event.round,
                k=event.k, level=event.level, rule=stored_rule(event.rule, f"The rule of gate {event.gate_id}"),
                drop=event.drop,
            )  # fmt: skip
        case GateDecided():
            state.gates.pop(event.gate_id, None)
            state.promoted += event.decision == "promote"
            if event.decision == "promote":
                state.rounds_since_promotion = 0
            elif not state.proposals.made(event.candidate):
                state.rounds_since_promotion += 1
                state.promising = event.candidate if _is_promising(event) else ""
        case Deployed():
            state.crowned.setdefault(event.policy_id, event.round)
            _deploy(state, event.policy_id)
        case RolledBack():
            state.rolled_back.add(event.policy_id)
            state.crown(event.to, restored=True)
            state.candidates, state.gates, state.confirmation = [], {}, None
        case ConfirmationOpened():
            state.confirmation = Confirmation(
                policy_id=event.policy_id, n=event.n, goal=event.goal, by=event.by, commands=event.commands
            )
        case Confirmed():
            state.confirmation = None
            state.confirmed[event.policy_id] = event.passed
        case _:
            assert_never(event)


def _apply_quarantine(state: CampaignState, event: QuarantineEvent) -> None:
    """End the open gates of versions that are held now. A round's candidate waits for another gate."""
    match event:
        case ExperimentQuarantined():
            of_branches = state.branches.candidates
            for gate in [one for one in state.gates.values() if state.quarantine.holds(one.candidate)]:
                del state.gates[gate.gate_id]
                if gate.candidate not in of_branches:
                    state.candidates.append((gate.candidate, gate.round))
            state.candidates = [
                item for item in state.candidates
                if item[0] not in of_branches or not state.quarantine.holds(item[0])
            ]  # fmt: skip
            if state.quarantine.holds(state.promising):
                state.promising = ""
        case ExperimentCleared() | EpisodeSuspected() | LaneSuspected():
            pass
        case _:
            assert_never(event)


def _is_promising(event: GateDecided) -> bool:
    """Whether a held candidate won more pairs than it lost, and was not unsafe more often than the champion."""
    return event.decision == "hold" and event.wins > event.losses and event.candidate_unsafe <= event.champion_unsafe


def _deploy(state: CampaignState, policy_id: str) -> None:
    """Make a version the champion. Open gates end; their candidates get others, those of branches after a search."""
    state.crown(policy_id)
    waiting = [(gate.candidate, gate.round) for gate in state.gates.values()] + state.candidates
    state.gates, of_branches = {}, state.branches.candidates
    if state.confirmation is not None and state.confirmation.policy_id != policy_id:
        state.confirmation = None
    state.candidates = [item for item in waiting if item[0] != policy_id and item[0] not in of_branches]
    state.base_policy = state.base_policy or policy_id
