"""The live object of the web server: the newest snapshot of a running lab, and the way for commands into it."""

from __future__ import annotations

import hashlib
import threading
from typing import Literal

from enpire.campaign.command_events import (
    CommandAccepted,
    CommandEffective,
    CommandEvent,
    CommandRefused,
    CommandRequested,
)
from enpire.campaign.events import Event, kinds_of
from enpire.errors import UnknownName, UsageError
from enpire.home import Home
from enpire.monitor.lab_snapshot import LabSnapshot
from enpire.requests import operator_commands
from enpire.requests.labels import write_label
from enpire.requests.operator_commands import AT_STATIONS, CommandInbox, OperatorCommand
from enpire.wire.live_images import Preview, Previews

CommandState = Literal["requested", "accepted", "effective", "refused"]
COMMAND_KINDS = kinds_of(CommandAccepted, CommandRefused, CommandEffective)
"""Kinds of events that change the state of a command."""
LABEL = "judge "
"""Commands that begin so label an episode."""


def state_after(event: CommandEvent) -> CommandState:
    """The state of a command after an event."""
    match event:
        case CommandRequested():
            return "requested"
        case CommandAccepted():
            return "accepted"
        case CommandRefused():
            return "refused"
        case CommandEffective():
            return "effective"


class LiveLab:
    """A `LabObserver` that the loop updates; any thread may read it and leave commands."""

    def __init__(self, home: Home, inbox: CommandInbox | None = None) -> None:
        """Watch a home.

        Args:
            home: of the lab.
            inbox: the loop's own, where the loop runs in this process: a stop then reaches it in memory.
        """
        self._home = home
        self._inbox = inbox
        self._snapshot: LabSnapshot | None = LabSnapshot(home=str(home.root))
        self._states: dict[str, CommandState] = {}
        self._refusals: dict[str, str] = {}
        self._guard = threading.Lock()
        self._previews: Previews | None = None

    def update(self, snapshot: LabSnapshot | None) -> None:
        """Take the newest snapshot, None while no lab runs; from the loop's thread, or from a `LiveFileReader`."""
        self._snapshot = snapshot

    def detach(self) -> None:
        """The loop of this process has ended: commands go to the loops of other processes from now on."""
        self._inbox = None

    def set_previews(self, previews: Previews) -> None:
        """Take live images from here from now on."""
        self._previews = previews

    def picture(self, station: str, camera: str) -> Preview:
        """The newest live image, at once; the stream stops three seconds after the last call."""
        previews = self._previews
        return previews.look(station, camera) if previews is not None else Preview(why="No station sends live images.")

    def note(self, event: Event) -> None:
        """Take an event that changes the state of a command; from the same thread as `update`."""
        if isinstance(event, CommandAccepted | CommandRefused | CommandEffective):
            with self._guard:
                self._states[event.command_id] = state_after(event)
                if isinstance(event, CommandRefused):
                    self._refusals[event.command_id] = event.why

    def snapshot(self) -> LabSnapshot | None:
        """The newest snapshot, at once; None while no lab runs."""
        return self._snapshot

    def command(  # noqa: PLR0913 - a command's own fields
        self, kind: str, target: str, operator: str, key: str, reason: str = "", seen: int | None = None
    ) -> str:
        """Leave a command for the loop; returns its id. The same key again is the same command.

        A label is written at once where no lab runs. `seen` is the number of the newest event that the operator saw;
        without it, the newest event of this snapshot.

        Raises:
            UsageError: no lab runs that could carry it out, or the home has no such episode to label.
            UnknownName: no station has that name (an empty name means every station).
            EnpireError: the disk refused the command; never for a stop or a pause of a loop in this process.
        """
        now = self._snapshot
        command_id = hashlib.sha256(f"{kind} {target} {operator} {key}".encode()).hexdigest()[:26]
        if now is None and kind.startswith(LABEL):
            if command_id not in self._states:
                write_label(self._home, target, kind.removeprefix(LABEL), operator)
                self._states[command_id] = "effective"
            return command_id
        if now is None:
            raise UsageError(f"No campaign runs in {self._home.root}, so {kind!r} cannot be carried out: start one.")
        names = [line.name for line in now.stations]
        if kind in AT_STATIONS and target and target not in names:
            raise UnknownName(f"There is no station {target!r} here; there are: {', '.join(names) or 'none yet'}.")
        self._leave(
            OperatorCommand(
                command_id=command_id, kind=kind, target=target, operator=operator, reason=reason,
                campaign_id=now.campaign_id, seen=now.newest_event if seen is None else seen,
            )
        )  # fmt: skip
        with self._guard:
            self._states.setdefault(command_id, "requested")
        return command_id

    def command_state(self, command_id: str) -> CommandState:
        """The state of a command; UnknownName for an id that was never returned."""
        with self._guard:
            state = self._states.get(command_id)
        if state is None:
            raise UnknownName(f"There is no command {command_id!r} in this session.")
        return state

    def why(self, command_id: str) -> str:
        """Why a command was refused, is not recorded, or is late at its stations; empty otherwise."""
        with self._guard:
            refused = self._refusals.get(command_id, "")
        unrecorded = self._inbox.unrecorded().get(command_id, "") if self._inbox is not None else ""
        if unrecorded:
            return f"It is sent to the stations, but the disk cannot record it yet: {unrecorded}"
        now = self._snapshot
        return refused or (now.waited_for.get(command_id, "") if now is not None else "")

    def _leave(self, command: OperatorCommand) -> None:
        if self._inbox is not None:
            self._inbox.leave(command)
        else:
            operator_commands.leave_command(self._home.inbox, command)
