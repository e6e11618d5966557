"""Measure the base policy, gate candidates against the champion, and confirm a champion, all on hidden starts."""

from __future__ import annotations

from dataclasses import asdict

from enpire.campaign.gate_events import BaseMeasured, ConfirmationOpened, Confirmed, GateDecided, GateOpened, GateSides
from enpire.campaign.state import OpenGate
from enpire.gate.gate import confirm, unloadable
from enpire.gate.intervals import wilson
from enpire.gate.median import fast_enough, median_commands
from enpire.gate.rule import level
from enpire.ids import mint
from enpire.lab import Lab
from enpire.scheduling.load_backoff import TRIES
from enpire.steps.deploy import deployment, release, release_gates, send_champion
from enpire.steps.dispatch import takes_orders
from enpire.types import refused

LONG_ENOUGH = 4
"""Half of `goal attempt_chance` is enough when so many times the episodes of a round, or of a confirmation if that has
more, ended without a gate, a candidate or a training run of a round. By then the champion was measured, and no better
version is expected soon."""


def evaluate(lab: Lab) -> None:
    """Measure the base, open and close gates and confirmations. Decisions depend only on the ledger's events."""
    _measure_base(lab)
    for gate in list(lab.state.gates.values()):
        if gate.gate_id in lab.state.gates:  # an older one may have promoted its candidate
            _read_gate(lab, gate)
    _read_confirmation(lab)
    if _confirmation_is_due(lab):
        _open_confirmation(lab)
    else:
        _open_gates(lab)


def _measure_base(lab: Lab) -> None:
    state, n = lab.state, lab.campaign.base.evaluate_starts
    if state.champion and not state.base_measured and state.base.n >= n:
        interval = wilson(state.base.successes, state.base.n)
        lab.write(
            BaseMeasured(
                policy_id=state.base_policy, successes=interval.successes, n=interval.n, low=interval.low,
                high=interval.high,
            )
        )  # fmt: skip


def _open_gates(lab: Lab) -> None:
    """Open the gates of the oldest candidates, as many as may be open. Each has its level by the order of opening."""
    state, rule = lab.state, lab.campaign.gate
    if state.watch is not None and state.watch.found:
        return  # the open gates end first; then the champion is rolled back (steps/deploy.py)
    while state.champion and state.free_candidates and not state.confirmation and len(state.gates) < _most_gates(lab):
        candidate, round_number = state.free_candidates[0]
        k = state.gates_opened + 1
        lab.write(
            GateOpened(
                gate_id=mint(), champion=state.champion, candidate=candidate, round=round_number, k=k,
                promoted=state.promoted, level=level(rule.alpha, k, state.promoted), rule=asdict(rule),
                drop=state.drop(rule.version),
            )
        )  # fmt: skip


def _most_gates(lab: Lab) -> int:
    """Gates that may be open at one time: with branches as many as stations take orders, up to `branches gates`."""
    plan = lab.campaign.branches
    return max(1, min(plan.gates, sum(takes_orders(lab, one) for one in lab.stations.values()))) if plan.recipes else 1


def _read_gate(lab: Lab, gate: OpenGate) -> None:
    ran = any(trial.side == "candidate" and not trial.released for trial in gate.trials)
    # It counts the trials of this gate alone, because recompute sees no other.
    sides = () if ran else (trial for trial in gate.trials if trial.side == "candidate")
    tried = sum(refused("aborted", trial.cause) for trial in sides) >= TRIES
    why = why_unloadable(lab, gate.candidate) if tried else ""
    if len(gate.trials) == gate.read and not why:
        return
    gate.read = len(gate.trials)
    decision = gate.reader.judge(gate.finished.pairs)
    if why and not decision.final:
        decision = unloadable(decision)
    gate.decision = decision
    if decision.final:
        sides = GateSides(gate_id=gate.gate_id, champion=gate.champion, candidate=gate.candidate, round=gate.round)
        reason = f"No station can run the candidate: {why}" if decision.reason == "unloadable" else ""
        decided = GateDecided.of(sides, decision, reason)
        if decision.kind == "promote":
            release_gates(lab)
            lab.write(decided, deployment(lab.state, gate.candidate, decision.reason))
            send_champion(lab)
        else:
            lab.write(decided)
            release(lab, gate.gate_id)


def why_unloadable(lab: Lab, policy_id: str) -> str:
    """Why no connected station can run a version; empty if one can run it now or after a repair."""
    here = [station for station in lab.stations.values() if station.away_since_s is None]
    reasons = [station.load_backoff.unable(policy_id) for station in here]
    return reasons[0] if reasons and all(reasons) else ""


def _confirmation_is_due(lab: Lab) -> bool:
    """Whether the champion has no confirmation yet, and the predicted probability that it passes is high enough.

    Then no further gate opens, and the confirmation begins when the open ones have ended.
    """
    state, goal = lab.state, lab.campaign.goal
    if not state.awaits_confirmation:
        return False
    waited = state.ended_since_gate >= LONG_ENOUGH * max(goal.confirm_starts, lab.campaign.rounds.episodes)
    needed = goal.attempt_chance / 2 if waited else goal.attempt_chance
    return state.forecast.is_due(state.champion, goal, needed)


def _open_confirmation(lab: Lab) -> None:
    state, goal = lab.state, lab.campaign.goal
    if not state.gates:
        lab.write(
            ConfirmationOpened(
                policy_id=state.champion, n=goal.confirm_starts, goal=goal.success, by=goal.by, commands=goal.commands
            )
        )


def _read_confirmation(lab: Lab) -> None:
    confirmation = lab.state.confirmation
    if confirmation is None or confirmation.ended.n < confirmation.n:
        return
    result = confirm(confirmation.ended.successes, confirmation.n, confirmation.goal, confirmation.by)
    speed = median_commands(confirmation.ticks)
    lab.write(
        Confirmed(
            policy_id=confirmation.policy_id, successes=confirmation.ended.successes, n=confirmation.n,
            low=result.interval.low, high=result.interval.high,
            passed=result.passed and fast_enough(speed.median, confirmation.commands),
            median=speed.median, median_low=speed.low, median_high=speed.high,
            reissued=lab.state.reissues.trials[confirmation.policy_id], limit_ticks=lab.task.spec.limit_ticks,
        )
    )  # fmt: skip
