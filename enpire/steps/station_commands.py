"""Commands that stations carry out: stop, pause, resume, service, and motions of an idle robot (reset, home)."""

from __future__ import annotations

from collections.abc import Mapping

from enpire.campaign.command_events import CommandRefused
from enpire.campaign.events import kinds_of
from enpire.campaign.station_events import StationHeld, StationJoined
from enpire.campaign.station_holds import SERVICE, SERVICE_DONE
from enpire.lab import Lab
from enpire.requests.operator_commands import AT_STATIONS, URGENT, OperatorCommand
from enpire.types import MOTIONS

LATE_AFTER_S = 1.0
"""Seconds after which a command that is not yet effective names the stations that it waits for."""
_AWAY = (*URGENT, SERVICE, SERVICE_DONE)
"""Commands that may name a station that is away now."""


def knows_station(lab: Lab, command: OperatorCommand) -> bool:
    """Whether the target has joined. A stop, a pause or `service` may also name a station that is away now."""
    if command.target in lab.stations or command.kind not in _AWAY:
        return command.target in lab.stations
    joined = (entry.event for entry in lab.ledger.events(kinds=kinds_of(StationJoined)))
    return any(isinstance(event, StationJoined) and event.station == command.target for event in joined)


def send(lab: Lab, command: OperatorCommand) -> None:
    """Send a command to the stations that it names.

    A stop and a motion have their id; a resume names the stops that it ends. A station that needs service finishes its
    orders and holds, so it is paused, also after a resume.
    """
    pending = lab.pending_commands.get(command.command_id)
    for name in [command.target] if command.target else list(lab.stations):
        own_id = command.kind in ("stop", *MOTIONS)
        ids = [command.command_id] if own_id else pending.ends.get(name, ()) if pending else ()
        lab.fleet.control(name, "pause" if command.kind == SERVICE else command.kind, command.operator, ids)
        if command.kind == "resume" and name in lab.state.holds.service:
            lab.fleet.control(name, "pause", lab.state.holds.service[name].by)


def end_service(lab: Lab, command: OperatorCommand) -> None:
    """Let a station take orders again, unless a stop or a pause holds it too. Ends no stop."""
    if not lab.state.holds.controls(command.target):
        lab.fleet.control(command.target, "resume", command.operator)


def resend_holds(lab: Lab, station: str) -> None:
    """Send a station that joined what holds it, or a resume that it missed. A motion that it had begun has ended."""
    holds = lab.state.holds.controls(station)
    waiting = [one.command for one in lab.pending_commands.values() if one.command.target in ("", station)]
    for command in waiting:
        if command.kind in MOTIONS:
            del lab.pending_commands[command.command_id]
            lab.write(refused(command, "its station left before the robot was there: look at the robot"))
    if not lab.state.holds.in_force(station) and (resumed := [one for one in waiting if one.kind == "resume"]):
        ends = lab.pending_commands[resumed[-1].command_id].ends
        lab.fleet.control(station, "resume", resumed[-1].operator, ends.get(station, ()))
    for kind, hold in holds.items():
        lab.fleet.control(station, kind, hold.by, [hold.command_id])
        lab.write(StationHeld(station=station, command=hold.command, by=hold.by))


def why_not_resumed(lab: Lab, command: OperatorCommand) -> str:
    """Why a resume is refused at a station that only its need of service holds; empty otherwise."""
    service = lab.state.holds.service.get(command.target)
    station = lab.stations.get(command.target)
    beat = station.last_heartbeat if station is not None else None
    if service is None or lab.state.holds.in_force(command.target) or (beat is not None and beat.stopped):
        return ""
    return (
        f"station {command.target} needs service, says {service.by} ({service.reason}): when that is done, clear it "
        f"(*Service done*, or `enpire station clear {command.target}`)"
    )


def why_not_serviced(lab: Lab, command: OperatorCommand) -> str:
    """Why `service` or `service done` is refused; empty otherwise."""
    if not command.target:
        return f"{command.kind!r} needs one station as its target"
    if command.kind == SERVICE_DONE and command.target not in lab.state.holds.service:
        return f"station {command.target} is not marked as needing service"
    return ""


def why_not_moved(lab: Lab, command: OperatorCommand) -> str:
    """Why a motion is refused; empty if the robot is idle and this operator holds it."""
    name, kind = command.target, command.kind
    station = lab.stations.get(name)
    if station is None:
        return f"{kind!r} needs one station as its target"
    beat, held = station.last_heartbeat, lab.state.holds.at(name)
    if beat is None or station.away_since_s is not None:
        return f"station {name} is not connected"
    offered = station.facts.get("motions", "").split()
    if kind not in offered:
        return f"the task of station {name} has no home position" if offered else f"station {name} cannot do it"
    if beat.stopped or "stop" in held:
        return f"the robot of station {name} is stopped: check it, resume it, and pause the station"
    by = [one for one in (held.get("pause"), held.get(SERVICE)) if one]
    if not by:
        return f"station {name} takes orders: pause it first, so that none begins while its robot moves"
    if command.operator not in by:
        return f"{by[0]} holds station {name}: pause it yourself before you move its robot"
    if not beat.paused or beat.running:
        return f"station {name} still finishes an episode: repeat the command when its robot is idle"
    if any(one.command.target == name and one.command.kind in MOTIONS for one in lab.pending_commands.values()):
        return f"the robot of station {name} already moves on an earlier command"
    return ""


def motion_problem(lab: Lab, command: OperatorCommand) -> str:
    """Why an accepted motion ended before the robot was there; empty while it runs and when it has arrived."""
    station = lab.stations.get(command.target) if command.kind in MOTIONS else None
    beat = station.last_heartbeat if station is not None else None
    return beat.motion_problem if beat is not None and beat.motion_id == command.command_id else ""


def is_effective(lab: Lab, command: OperatorCommand) -> bool:
    """Whether every station that a command names reports its effect."""
    return not _late_stations(lab, command) and (bool(lab.stations) or command.kind not in AT_STATIONS)


def waited_for(lab: Lab) -> Mapping[str, str]:
    """Command id -> one sentence that names the stations which do not show the command's effect yet."""
    sentences: dict[str, str] = {}
    for pending in lab.pending_commands.values():
        command, since_s = pending.command, pending.since_s
        late = _late_stations(lab, command)
        if not lab.stations and command.kind in AT_STATIONS:
            sentences[command.command_id] = "no station has joined yet; the command is sent to each station that joins"
        if late and lab.clock() > since_s + LATE_AFTER_S:
            away = [name for name in late if name not in lab.stations or lab.stations[name].away_since_s is not None]
            missing = f"; not connected: {', '.join(away)}, the command is sent again when they join" if away else ""
            sentences[command.command_id] = f"not done yet by {', '.join(late)}{missing}"
    return sentences


def refused(command: OperatorCommand, why: str) -> CommandRefused:
    """The event that refuses a command."""
    return CommandRefused(
        command_id=command.command_id, command=command.kind, target=command.target, by=command.operator,
        reason=command.reason, why=why,
    )  # fmt: skip


def _late_stations(lab: Lab, command: OperatorCommand) -> list[str]:
    """Stations that a command names and that do not report its effect yet."""
    if command.kind not in AT_STATIONS or command.kind == SERVICE_DONE:
        return []
    named = [command.target] if command.target else list(lab.stations)
    return [name for name in named if not _shows_effect(lab, name, command)]


def _shows_effect(lab: Lab, station: str, command: OperatorCommand) -> bool:
    beat = lab.stations[station].last_heartbeat if station in lab.stations else None
    if beat is None:
        return False
    match command.kind:
        case "stop":
            return beat.stopped
        case "pause":
            return beat.paused
        case "resume":
            return not beat.stopped and (not beat.paused or station in lab.state.holds.service)
        case "service":
            return beat.paused and not beat.running
        case _:
            return beat.motion_id == command.command_id
