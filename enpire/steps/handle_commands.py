"""Carry out commands of operators: to stations, to the campaign, promote, roll back, label.

The ledger has each command before it is carried out. A stop is the exception: it is sent to the stations, and reported
as effective, before it is written. It stays in the inbox until the ledger has it. No resume ends a stop that is newer
than what its operator saw (`resumes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from enpire.campaign.command_events import CommandAccepted, CommandEffective, CommandRefused, CommandRequested
from enpire.campaign.events import Event, kinds_of
from enpire.campaign.gate_events import PROMOTED_BY
from enpire.campaign.limits import read_limits, with_limits
from enpire.campaign.order_events import EpisodeLabelled
from enpire.campaign.session_events import CampaignContinued, CampaignPaused, LimitsChanged
from enpire.campaign.training_events import VersionMade
from enpire.errors import FileProblem, UsageError
from enpire.gate.verifier_audit import BY, drift
from enpire.ids import is_version_id, version_id
from enpire.lab import Lab, PendingCommand
from enpire.requests.file_queue import Unreadable
from enpire.requests.labels import label_before
from enpire.requests.operator_commands import (
    AT_STATIONS,
    BEFORE_BEGIN,
    URGENT,
    CommandInbox,
    OperatorCommand,
    in_order,
)
from enpire.scheduling.scheduler import Scheduler
from enpire.steps import resumes
from enpire.steps.deploy import roll_back, swap
from enpire.steps.hypothesis_commands import (
    MARKS,
    mark,
    propose,
    rerun,
    why_not_marked,
    why_not_proposed,
    why_not_rerun,
)
from enpire.steps.quarantine_commands import clear, quarantine_by_hand, why_not_quarantined
from enpire.steps.station_commands import (
    end_service,
    is_effective,
    knows_station,
    motion_problem,
    refused,
    send,
    why_not_moved,
    why_not_resumed,
    why_not_serviced,
)
from enpire.store import versions
from enpire.types import JUDGED, OutcomeKind


def handle_commands(lab: Lab) -> None:
    """Carry out every command in the inbox once, stops and pauses first."""
    record_effects(lab)
    if not lab.inbox.handed_over() and not lab.due("inbox", 0.03):
        return
    for command in in_order(lab.inbox.waiting()):
        if isinstance(command, Unreadable):
            lab.write(refuse_unreadable(command))
        else:
            _handle(lab, command)
    _pause_for_the_verifier(lab)


def handle_stops(lab: Lab) -> None:
    """Carry out the waiting stops, and record which commands are effective. Other commands wait."""
    record_effects(lab)
    handle_urgent(lab, ("stop",))


def handle_urgent(lab: Lab, kinds: Sequence[str] = URGENT) -> None:
    """Carry out the waiting commands of some kinds."""
    for command in lab.inbox.waiting():
        if isinstance(command, OperatorCommand) and command.kind in kinds:
            _handle(lab, command)


def refuse_earlier(inbox: CommandInbox) -> list[Event]:
    """Remove the commands that were left before a campaign began, and return the events that refuse them."""
    events: list[Event] = []
    asked_now = {command.command_id for command in inbox.handed_over()}
    for command in list(inbox.waiting(BEFORE_BEGIN)):
        if isinstance(command, Unreadable):
            events.append(refuse_unreadable(command))
            continue
        if command.command_id in asked_now:  # it came from the page of this process, so it is for this campaign
            continue
        inbox.remove(command)
        why = "it was left before this campaign began: repeat the command if you still want it"
        events += [_requested(command), refused(command, why)]
    return events


def _handle(lab: Lab, command: OperatorCommand) -> None:
    refusal = refusal_of(lab, command)
    if refusal:
        lab.write(_requested(command), refused(command, refusal))
    else:
        ends = resumes.ended_by(lab, command)
        if command.kind == "stop":
            send(lab, command)  # before the write to disk
        lab.write(_requested(command), _accepted(command))
        if command.kind in URGENT:
            _refuse_overtaken(lab, command)
        lab.pending_commands[command.command_id] = PendingCommand(command=command, since_s=lab.clock(), ends=ends)
        if command.kind != "stop":
            _CARRY_OUT[command.kind](lab, command)
    lab.inbox.remove(command)


def _refuse_overtaken(lab: Lab, hold: OperatorCommand) -> None:
    """Refuse the accepted resumes that a newer stop or pause overtakes before the stations showed their effect."""
    for pending in list(lab.pending_commands.values()):
        earlier = pending.command
        if earlier.kind == "resume" and resumes.overlap(earlier.target, hold.target):
            why = f"{hold.operator} sent a {hold.kind} before it was effective: check the robot and resume again"
            lab.write(refused(earlier, why))
            del lab.pending_commands[earlier.command_id]


def refuse_unreadable(file: Unreadable) -> CommandRefused:
    """The event that refuses an unreadable file."""
    return CommandRefused(command_id=file.name, command="an unreadable file", target="", by="unknown", why=file.why)


def refusal_of(lab: Lab, command: OperatorCommand) -> str:
    """Why a command is refused; empty if it is accepted."""
    if command.kind not in _CARRY_OUT:
        return f"there is no command {command.kind!r}; the commands are {', '.join(_CARRY_OUT)}"
    if command.campaign_id and command.campaign_id != lab.state.campaign_id:
        return f"it was for campaign {command.campaign_id}, but campaign {lab.state.campaign_id} runs"
    if command.kind in AT_STATIONS and command.target and not knows_station(lab, command):
        return f"there is no station {command.target!r} here; the stations are {', '.join(lab.stations) or 'none'}"
    if command.kind == "resume" and not lab.stations:
        return f"no station has joined yet, so there is no station to {command.kind}"
    if command.kind in resumes.RELEASES and (why := resumes.refusal(lab, command) or why_not_resumed(lab, command)):
        return why
    if check := _CHECKS.get(command.kind):
        return check(lab, command)
    if command.kind in _LABELS and lab.state.ended.get(command.target) not in JUDGED:
        return f"this campaign has no episode {command.target!r} with a verdict"
    if command.kind == "rollback" and not _earlier(lab):
        return "there is no earlier champion to roll back to that is not in quarantine"
    return ""


def _why_not_changed(lab: Lab, command: OperatorCommand) -> str:
    try:
        limits = read_limits(command.target)
        if limits.get("goal") and (lab.state.confirmation or lab.state.confirmed.get(lab.state.champion)):
            return "the champion is confirmed at the present goal now; change the goal when that has ended"
        changed = with_limits(lab.campaign, limits)
        changed.goal.require_reachable(changed.task, lab.task.spec.limit_ticks)
        if "success" in limits.get("goal", {}):  # a campaign that began with such a goal still takes other limits
            changed.goal.require_possible()
    except UsageError as problem:
        return str(problem)
    return ""


def _why_not_promoted(lab: Lab, command: OperatorCommand) -> str:
    policy_id = command.target
    if not is_version_id(policy_id):
        return f"a policy version has an id of 64 hexadecimal digits, not {policy_id[:70]!r}"
    try:
        versions.manifest(lab.home.versions / version_id(policy_id))
    except (FileProblem, OSError):
        return f"there is no policy version {policy_id!r}"
    if held := lab.state.quarantine.why(policy_id):
        return f"{held}; `enpire experiment clear` ends that"
    own = {lab.campaign.base.policy, *lab.state.champions}
    if policy_id in own or any(
        isinstance(entry.event, VersionMade)
        and (entry.campaign_id, entry.event.policy_id) == (lab.state.campaign_id, policy_id)
        for entry in lab.ledger.events(kinds=kinds_of(VersionMade))
    ):
        return ""
    return f"the version {policy_id!r} was not made in this campaign and is not its base"


def _pause(lab: Lab, command: OperatorCommand) -> None:
    lab.write(CampaignPaused(by=command.operator, why=""))


def _continue(lab: Lab, command: OperatorCommand) -> None:
    lab.write(CampaignContinued(by=command.operator))


def _change_limits(lab: Lab, command: OperatorCommand) -> None:
    limits = read_limits(command.target)
    lab.write(LimitsChanged(by=command.operator, reason=command.reason, limits=limits))
    lab.campaign = with_limits(lab.campaign, limits)
    if isinstance(lab.scheduler, Scheduler):
        lab.scheduler.campaign = lab.campaign


def _end(lab: Lab, command: OperatorCommand) -> None:
    lab.end_reason, lab.ends_campaign = f"{command.operator} stopped the campaign", True


def _label(lab: Lab, command: OperatorCommand) -> None:
    """An operator's label is kept next to the verdict; it does not change the verdict."""
    lab.write(EpisodeLabelled(order_id=command.target, outcome=_LABELS[command.kind], by=command.operator))


def _undo_label(lab: Lab, command: OperatorCommand) -> None:
    """Withdraw the newest label of an episode; the one before it counts again."""
    before = label_before(lab.ledger, command.target)
    lab.write(EpisodeLabelled(order_id=command.target, outcome=before, by=command.operator, undo=True))


def _why_not_undone(lab: Lab, command: OperatorCommand) -> str:
    return "" if command.target in lab.state.labels else f"episode {command.target!r} has no label to withdraw"


def _pause_for_the_verifier(lab: Lab) -> None:
    """Pause if labels show too many false successes, and more than an operator has accepted."""
    state = lab.state
    if state.paused or not state.labels:
        return
    now = drift(state.labels.values(), lab.campaign.drift)
    if now.passed and now.wrong > state.wrong_accepted:
        paused = CampaignPaused(
            by=BY, why=now.sentence, checked=now.checked, wrong=now.wrong, high=now.high, limit=now.limit
        )
        lab.write(paused)


def _acknowledge(lab: Lab, command: OperatorCommand) -> None:
    """The events of the command say who has seen which alarm; the campaign does not change."""


def _promote(lab: Lab, command: OperatorCommand) -> None:
    swap(lab, command.target, f"{PROMOTED_BY}{command.operator}{_because(command)}")


def _roll_back(lab: Lab, command: OperatorCommand) -> None:
    roll_back(lab, _earlier(lab)[-1], f"rolled back by {command.operator}{_because(command)}")


def _earlier(lab: Lab) -> list[str]:
    """The champions before the first deployment of the current one, without those in quarantine.

    So two rollbacks go back two versions.
    """
    champions = lab.state.champions
    earlier = champions[: champions.index(lab.state.champion)] if champions else []
    return [one for one in earlier if not lab.state.quarantine.holds(one)]


def _because(command: OperatorCommand) -> str:
    return f": {command.reason}" if command.reason else ""


def _requested(command: OperatorCommand) -> CommandRequested:
    return CommandRequested(
        command_id=command.command_id, command=command.kind, target=command.target, by=command.operator,
        reason=command.reason,
    )  # fmt: skip


def _accepted(command: OperatorCommand) -> CommandAccepted:
    return CommandAccepted(
        command_id=command.command_id, command=command.kind, target=command.target, by=command.operator,
        reason=command.reason,
    )  # fmt: skip


def _effective(command: OperatorCommand) -> CommandEffective:
    return CommandEffective(
        command_id=command.command_id, command=command.kind, target=command.target, by=command.operator,
        reason=command.reason,
    )  # fmt: skip


_LABELS: Mapping[str, OutcomeKind] = {
    "judge success": "success",
    "judge failure": "failure",
    "judge unsafe": "unsafe",
}
_CHECKS: Mapping[str, Callable[[Lab, OperatorCommand], str]] = {
    "service": why_not_serviced,
    "service done": why_not_serviced,
    "reset": why_not_moved,
    "home": why_not_moved,
    "change limits": _why_not_changed,
    "promote": _why_not_promoted,
    "judge undo": _why_not_undone,
    "experiment quarantine": why_not_quarantined,
    "experiment clear": why_not_quarantined,
    "experiment rerun": why_not_rerun,
    "hypothesis propose": why_not_proposed,
    **dict.fromkeys(MARKS, why_not_marked),
}
_CARRY_OUT: Mapping[str, Callable[[Lab, OperatorCommand], None]] = {
    "pause": send,
    "resume": send,
    "stop": send,
    "service": send,
    "service done": end_service,
    "reset": send,
    "home": send,
    "pause campaign": _pause,
    "continue campaign": _continue,
    "end campaign": _end,
    "change limits": _change_limits,
    "acknowledge": _acknowledge,
    "acknowledge undo": _acknowledge,
    "judge undo": _undo_label,
    **dict.fromkeys(_LABELS, _label),
    "promote": _promote,
    "rollback": _roll_back,
    "experiment quarantine": quarantine_by_hand,
    "experiment clear": clear,
    "experiment rerun": rerun,
    "hypothesis propose": propose,
    **dict.fromkeys(MARKS, mark),
}


def record_effects(lab: Lab) -> None:
    """Record each command as effective once every station that it names reports so in its heartbeat."""
    for command in [pending.command for pending in lab.pending_commands.values()]:
        if problem := motion_problem(lab, command):
            lab.write(refused(command, problem))
            del lab.pending_commands[command.command_id]
        elif is_effective(lab, command):
            if command.kind == "stop":
                report_effect(lab, command)  # before the write to disk
            lab.write(_effective(command))
            del lab.pending_commands[command.command_id]


def report_effect(lab: Lab, command: OperatorCommand) -> None:
    """Notify the observers that a command is effective. The ledger gets the event later."""
    lab.notify(_effective(command))
