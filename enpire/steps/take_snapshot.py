"""One snapshot of the running lab, for the observers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from enpire.campaign.quarantine_events import APPROVALS
from enpire.campaign.state import CampaignState, OpenGate
from enpire.gate.gate import Decision
from enpire.gate.intervals import wilson
from enpire.gate.verifier_audit import drift
from enpire.lab import Lab, StationStatus
from enpire.monitor.lab_snapshot import (
    LETTERS,
    GateLine,
    LabSnapshot,
    LearnerLine,
    RobotUse,
    RoundLine,
    Sensed,
    StationLine,
)
from enpire.scheduling.lockstep import demonstrated
from enpire.steps.station_commands import waited_for
from enpire.types import MOVING, WORKING, Interval, Phase


def snapshot(lab: Lab) -> LabSnapshot:
    """The current state of the lab. Call it in the loop's thread. Any thread may read the result."""
    state = lab.state
    return LabSnapshot(
        campaign_id=state.campaign_id,
        campaign_name=lab.campaign.name,
        task=lab.campaign.task,
        elapsed_s=lab.elapsed_s(),
        wall_budget_s=lab.campaign.budget.wall_s,
        round=state.round,
        phase_text=phase_text(lab),
        stations=tuple(_station(lab, station) for station in lab.stations.values()),
        rounds=tuple(_rounds(state)),
        learner=_learner(lab),
        gates=tuple(_gate(gate) for gate in state.gates.values()),
        champion=state.champion,
        champion_interval=champion_interval(state),
        goal=lab.campaign.goal.success,
        goal_by=lab.campaign.goal.by,
        use=robot_use(lab),
        episodes={**Counter(state.outcomes), "open": len(state.open)},
        home=str(lab.home.root),
        paused=state.paused,
        paused_why=state.paused_why,
        labels=drift(state.labels.values(), lab.campaign.drift).sentence if state.labels else "",
        waited_for=waited_for(lab),
        quarantined={
            subject: _held_text(state, subject) for subject in state.quarantine.held if not _is_answered(state, subject)
        },
        branches=len(state.branches.active),
        newest_event=state.newest_event,
        stopped=bool(lab.stations)
        and all(station.last_heartbeat and station.last_heartbeat.stopped for station in lab.stations.values()),
    )


def phase_text(lab: Lab) -> str:
    """The phase of the campaign, as text."""
    state = lab.state
    if lab.waits_for_space:
        return "waiting for disk space: stations get no new orders"
    if state.paused:
        return f"paused: {state.paused_why}" if state.paused_why else "paused"
    if state.confirmation is not None:
        return f"confirming the champion: {state.confirmation.ended.n} of {state.confirmation.n} fresh starts"
    if state.gates:
        named = ", ".join(str(gate.k) for gate in state.gates.values())
        candidates = "candidate" if len(state.gates) == 1 else "candidates"
        return f"{'gate' if len(state.gates) == 1 else 'gates'} {named}: champion against {candidates} on hidden starts"
    if state.training is not None:
        made = "base policy" if not state.champion else f"candidate of round {state.training.round}"
        return f"training the {made}; robots keep working"
    if not state.champion:
        base = lab.campaign.base
        by = "demonstrations by people" if base.demonstrators == "people" else "demonstrations"
        return f"{by}: {demonstrated(state, lab.campaign)} of {base.demonstrations}"
    if not state.base_measured:
        return f"measuring the base: {state.base.n} of {lab.campaign.base.evaluate_starts}"
    if any(order.purpose == "measure" and order.policy_id == state.champion for order in state.open.values()):
        trials = state.forecast.trials.get(state.champion)
        return f"measuring the champion: {trials.n if trials else 0} trials on hidden starts"
    if state.branches.active and lab.campaign.branches.hand_over_after:
        return "comparing branches with the champion on train starts"
    return f"collecting: {state.fresh} of {lab.campaign.rounds.episodes} new episodes"


def champion_interval(state: CampaignState) -> Interval | None:
    """Success rate of the champion over all its trials on hidden starts, as `enpire.queries.campaigns` computes it."""
    count = state.hidden.get(state.champion)
    return wilson(count.successes, count.n) if count is not None and count.n else None


def robot_use(lab: Lab) -> RobotUse:
    """What the robots did in this session, as `enpire.queries.metrics` computes it for a whole campaign."""
    wall_s = lab.clock() - lab.began_s
    if not lab.stations or wall_s < 1:
        return RobotUse()
    times = [(station.lanes, station.seconds()) for station in lab.stations.values()]

    def share(phases: Collection[Phase]) -> float:
        spent_s = sum(value for _, seconds in times for phase, value in seconds.items() if phase in phases)
        return min(1.0, spent_s / len(times) / wall_s)

    rollout_s = sum(lanes * seconds.get("rollout", 0.0) for lanes, seconds in times)
    done_s = lab.state.session_ticks * lab.task.spec.period_s
    return RobotUse(
        mru=share(WORKING),
        motion=share(MOVING) if any("wait-policy" in seconds for _, seconds in times) else None,
        real_time_factor=done_s / rollout_s if rollout_s > 0 and done_s else None,
    )


def _station(lab: Lab, station: StationStatus) -> StationLine:
    beat = station.last_heartbeat
    phase: Phase = "offline" if station.away_since_s is not None or beat is None else beat.phase
    service = lab.state.holds.service.get(station.name)
    minutes = max(1e-3, (lab.clock() - lab.began_s) / 60)
    return StationLine(
        name=station.name,
        phase=phase,
        lanes=station.lanes,
        episodes=station.episodes,
        episodes_per_min=station.episodes / minutes,
        verdicts="".join(LETTERS[kind] for kind in station.outcomes),
        deployed=beat.deployed if beat else "",
        paused=bool(beat and beat.paused),
        stopped=bool(beat and beat.stopped),
        alarm=(beat.alarm if beat else "") or station.load_backoff.alarm(lab.clock()),
        cameras=lab.task.spec.cameras,
        stopped_by=beat.stop_by if beat else "",
        stopped_itself=bool(beat and beat.own_stop_id),
        rate_hz=beat.rate_hz if beat else 0.0,
        jitter_ms=beat.jitter_ms if beat else 0.0,
        sensed=_sensed(lab, beat.reading if beat else ()),
        service_by=service.by if service else "",
        service_why=service.reason if service else "",
        motions=tuple(station.facts.get("motions", "").split()),
        moved_by=beat.moved_by if beat else "",
        viability=beat.viability if beat else None,
    )


def _sensed(lab: Lab, reading: Sequence[float]) -> tuple[Sensed, ...]:
    """The newest state of a robot with names and units; empty where the station runs another task."""
    bounds = lab.task.spec.state
    if len(reading) != len(bounds):
        return ()
    return tuple(Sensed(name=one.name, unit=one.unit, value=value) for one, value in zip(bounds, reading, strict=True))


def _rounds(state: CampaignState) -> list[RoundLine]:
    lines: list[RoundLine] = []
    for policy_id, number in state.crowned.items():
        count = state.hidden.get(policy_id)
        if count is not None and count.n:
            line = RoundLine(round=number, purpose="hidden", interval=wilson(count.successes, count.n), id=policy_id)
            lines.append(line)
    for number, count in sorted(state.by_round.items()):
        lines.append(RoundLine(round=number, purpose="collect", interval=wilson(count.successes, count.n)))
    return lines


def _learner(lab: Lab) -> LearnerLine | None:
    progress = lab.learner_progress
    if lab.state.training is None:
        return None
    if progress is None:
        return LearnerLine(stage="starting", done=0, total=1)
    return LearnerLine(stage=progress.stage, done=progress.done, total=progress.total)


def _held_text(state: CampaignState, subject: str) -> str:
    """Why a subject is held, newest first and a tripwire before an approval: who clears it ends all of it.

    What begins with an approval is offered for one, so nothing that a tripwire holds may begin so.
    """
    newest = state.quarantine.held[subject][::-1]
    tripped = [event for event in newest if event.tripwire not in APPROVALS]
    waits = [event for event in newest if event.tripwire in APPROVALS]
    text = "; ".join(f"{event.tripwire}: {event.why}" for event in (*tripped, *waits))
    cleared = state.quarantine.cleared.get(subject)
    if cleared is None or not cleared.still:
        return text
    return f"{text}; it tripped after {cleared.by} had looked, who cleared only: {', '.join(cleared.tripwires)}"


def _is_answered(state: CampaignState, subject: str) -> bool:
    """Whether nothing is left of what only asks for an approval, or that a person rejected instead."""
    tripwires = [event.tripwire for event in state.quarantine.held[subject]]
    if tripwires[-1] == "operator":
        tripwires.pop()
    if not tripwires or tripwires[-1] not in APPROVALS:
        return False
    if experiment := state.proposals.experiments.get(subject):
        return experiment.over
    return all(policy_id != subject for policy_id, _ in state.candidates)  # a rollback dropped the candidate


def _gate(gate: OpenGate) -> GateLine:
    line = GateLine(
        id=gate.gate_id, k=gate.k, candidate=gate.candidate, pairs=0, max_pairs=gate.rule.pairs, wins=0, losses=0,
        log_e=0.0, need=-math.log(gate.level),
    )  # fmt: skip
    decision: Decision | None = gate.decision
    if decision is None:
        return line
    tally = decision.tally
    return replace(
        line, pairs=tally.pairs, wins=tally.wins, losses=tally.losses, log_e=decision.log_e, more=decision.more
    )
