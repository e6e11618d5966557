"""Commands of operators about the quarantine: put an experiment into it, or clear it."""

from __future__ import annotations

from enpire.campaign.quarantine_events import ExperimentCleared, ExperimentQuarantined, LaneSuspected
from enpire.lab import Lab
from enpire.requests.operator_commands import OperatorCommand
from enpire.steps.deploy import release
from enpire.steps.hypothesis_commands import ended_by


def why_not_quarantined(lab: Lab, command: OperatorCommand) -> str:
    """Why a command about the quarantine is refused; empty if it is accepted."""
    quarantine = lab.state.quarantine
    if not command.reason.strip():
        return f"{command.kind!r} needs a reason, which the ledger keeps: send it as `reason`"
    if command.kind == "experiment clear":
        held = ", ".join(quarantine.held) or "none"
        if command.target not in quarantine.held:
            return f"{command.target[:70]!r} is not in quarantine; in it are: {held}"
        return _why_not_seen(lab, command)
    if command.target in quarantine.held and not quarantine.waits(command.target):
        return f"{command.target} is in quarantine already"
    if command.target in lab.state.proposals.experiments or command.target in _versions(lab):
        return ""
    return f"this campaign has no experiment and no candidate {command.target[:70]!r}"


def _why_not_seen(lab: Lab, command: OperatorCommand) -> str:
    """Why an operator cannot clear: everything that holds the subject came after what the operator saw."""
    state = lab.state
    if command.seen > state.newest_event:
        return f"it names event {command.seen}, but the ledger ends with event {state.newest_event}: repeat the command"
    known, later = state.quarantine.by_now(command.target, command.seen)
    if known:
        return ""
    return (
        f"what holds {command.target[:26]} ({', '.join(later)}) is newer than event {command.seen}, after which this "
        "command was sent: look at it and repeat the command"
    )


def clear(lab: Lab, command: OperatorCommand) -> None:
    """End what an operator saw of a quarantine. When nothing else holds the subject, its versions may enter gates."""
    last = lab.state.quarantine.held[command.target][-1]
    known, later = lab.state.quarantine.by_now(command.target, command.seen)
    cleared = ExperimentCleared(
        experiment_id=last.experiment_id, policy_id=last.policy_id, by=command.operator, reason=command.reason,
        tripwires=tuple(known), still=tuple(later),
    )  # fmt: skip
    lab.write(cleared)


def quarantine_by_hand(lab: Lab, command: OperatorCommand) -> None:
    """Put what an operator names into quarantine. For what waits for an approval, that is the rejection."""
    experiment = lab.state.proposals.experiments.get(command.target)
    rejects = lab.state.quarantine.waits(command.target)
    held = ExperimentQuarantined(
        experiment_id=experiment.experiment_id if experiment else "",
        policy_id=experiment.policy_id if experiment else command.target,
        tripwire="operator", why=command.reason, by=command.operator,
    )  # fmt: skip
    hold(lab, held)
    if rejects and experiment is not None and not experiment.over:
        lab.write(*ended_by(lab, command, [experiment]))


def hold(lab: Lab, *events: ExperimentQuarantined | LaneSuspected) -> None:
    """Write quarantines. The orders of gates that they end, if they have not begun, are released."""
    before = list(lab.state.gates)
    lab.write(*events)
    for gate_id in before:
        if gate_id not in lab.state.gates:
            release(lab, gate_id)


def _versions(lab: Lab) -> set[str]:
    """The versions of the campaign that no experiment made and that may be promoted."""
    state = lab.state
    named = {policy_id for policy_id, _ in state.candidates} | {gate.candidate for gate in state.gates.values()}
    return named | set(state.champions) | set(state.quarantine.makers)
