"""Which stops a resume may end: those that its operator saw, never a newer one.

Commands are ordered by the ledger, not by any clock. The ledger numbers each accepted stop and pause. A resume names
the newest event that its operator saw (`OperatorCommand.seen`), and is refused if a stop or pause of its stations has a
higher number. On the way to a station, a resume names the stops that it ends; a station that is stopped by another one,
which the ledger does not have yet, stays stopped and reports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enpire.lab import Lab
from enpire.requests.operator_commands import OperatorCommand

RELEASES = ("resume", "continue campaign")
"""Commands that end what earlier commands hold."""


def refusal(lab: Lab, command: OperatorCommand) -> str:
    """Why a resume, or a command to continue the campaign, is refused; empty if its operator saw all that it ends."""
    state, seen = lab.state, command.seen
    if seen > state.newest_event:
        return f"it names event {seen}, but the ledger ends with event {state.newest_event}: repeat the command"
    if command.kind == "continue campaign":
        newer = state.paused and state.paused_seq > seen
        return "the campaign was paused after this command: look at the cause, then continue it again" if newer else ""
    for hold in state.holds.in_force(command.target):
        if hold.seq > seen:
            where = f"station {hold.station}" if hold.station else "all stations"
            return (
                f"the {hold.command} of {hold.by} for {where} is newer (event {hold.seq}; this command was sent after "
                f"event {seen}): check the robot and resume again"
            )
    for name in [command.target] if command.target else list(lab.stations):
        if lab.stations[name].own_stop_after and seen <= lab.stations[name].own_stop_after:
            return f"the robot of station {name} was stopped at the robot after this command: check it and resume again"
    return ""


def ended_by(lab: Lab, command: OperatorCommand) -> Mapping[str, Sequence[str]]:
    """Station -> ids of the stops that an accepted resume ends there; empty for other commands."""
    if command.kind != "resume":
        return {}
    return {name: _stop_ids(lab, name) for name in lab.stations if overlap(command.target, name)}


def overlap(one: str, other: str) -> bool:
    """Whether two targets have a station in common; an empty target is all stations."""
    return not one or not other or one == other


def _stop_ids(lab: Lab, station: str) -> Sequence[str]:
    """Ids of the stops that hold a station: those in force by the ledger, and those that its last heartbeat reports.

    A stop that a heartbeat reported is in the ledger before any later command is handled (`record.leave_stop`).
    """
    found = {hold.command_id for hold in lab.state.holds.in_force(station) if hold.command == "stop"}
    beat = lab.stations[station].last_heartbeat
    reported = {beat.stop_id, beat.own_stop_id, *beat.stop_ids} if beat is not None else set[str]()
    return sorted((found | reported) - {""})
