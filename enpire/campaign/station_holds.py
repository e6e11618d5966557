"""Stops, pauses and service of stations that operators commanded and have not ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from enpire.campaign.command_events import CommandAccepted

SERVICE, SERVICE_DONE = "service", "service done"
"""Commands: a station needs service, and its service is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationHold:
    """An accepted stop, pause or `service`; or the resume of one station, which takes it out of the holds of all."""

    command: str
    station: str
    """Empty: all stations."""
    by: str
    command_id: str
    seq: int
    """Number of the event that accepted it."""
    reason: str = ""
    """In the operator's own words."""


@dataclass(slots=True)
class StationHolds:
    """Stops and pauses of stations by operators, from all campaigns of the home, that no operator has resumed."""

    commands: list[StationHold] = field(default_factory=list[StationHold])
    """In the order of the ledger."""
    service: dict[str, StationHold] = field(default_factory=dict[str, StationHold])
    """Station -> the command that marked it as needing service. No resume ends it, only `service done`."""

    def accept(self, event: CommandAccepted, seq: int) -> None:
        """Apply an accepted `stop`, `pause`, `resume`, `service` or `service done`; other commands hold no station."""
        command, station = event.command, event.target
        if command == SERVICE:
            self.service[station] = _hold(event, seq)
        elif command == SERVICE_DONE:
            self.service.pop(station, None)
        if command not in ("stop", "pause", "resume"):
            return
        if command == "resume":
            self.commands = [held for held in self.commands if station and held.station != station]
        self.commands = [held for held in self.commands if (held.command, held.station) != (command, station)]
        if self.commands or command != "resume":
            self.commands.append(_hold(event, seq))

    def in_force(self, station: str) -> Sequence[StationHold]:
        """The stops and pauses in force at a station, oldest first; with an empty name, at any station."""
        found: list[StationHold] = []
        for held in self.commands:
            if not station or held.station in ("", station):
                if held.command != "resume":
                    found.append(held)
                elif station:
                    found.clear()
        return found

    def at(self, station: str) -> Mapping[str, str]:
        """What holds a station: `stop`, `pause` or `service` -> the operator who commanded it."""
        found = {held.command: held.by for held in self.in_force(station)}
        return found | ({SERVICE: self.service[station].by} if station in self.service else {})

    def controls(self, station: str) -> Mapping[str, StationHold]:
        """What a station must be sent so that it holds: `stop` or `pause` -> the newest command that asks for it.

        A station that needs service finishes its orders and holds, as in a pause.
        """
        found = {"pause": self.service[station]} if station in self.service else {}
        return found | {held.command: held for held in self.in_force(station)}


def _hold(event: CommandAccepted, seq: int) -> StationHold:
    return StationHold(
        command=event.command, station=event.target, by=event.by, command_id=event.command_id, seq=seq,
        reason=event.reason,
    )  # fmt: skip
