"""Stops and pauses of stations that operators commanded and have not ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from enpire.campaign.command_events import CommandAccepted


@dataclass(frozen=True, slots=True, kw_only=True)
class StationHold:
    """An accepted stop or pause; or the resume of one station, which takes it out of the holds of all stations."""

    command: str
    station: str
    """Empty: all stations."""
    by: str
    command_id: str
    seq: int
    """Number of the event that accepted it."""


@dataclass(slots=True)
class StationHolds:
    """Stops and pauses of stations by operators, from all campaigns of the home, that no operator has resumed."""

    commands: list[StationHold] = field(default_factory=list[StationHold])
    """In the order of the ledger."""

    def accept(self, event: CommandAccepted, seq: int) -> None:
        """Apply an accepted `stop`, `pause` or `resume`; other commands hold no station."""
        command, station = event.command, event.target
        if command not in ("stop", "pause", "resume"):
            return
        if command == "resume":
            self.commands = [held for held in self.commands if station and held.station != station]
        self.commands = [held for held in self.commands if (held.command, held.station) != (command, station)]
        if self.commands or command != "resume":
            hold = StationHold(command=command, station=station, by=event.by, command_id=event.command_id, seq=seq)
            self.commands.append(hold)

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
        """The stops and pauses in force at a station: `stop` or `pause` -> the operator who commanded it."""
        return {held.command: held.by for held in self.in_force(station)}
