"""A running lab for the threads that watch it: the newest snapshot, and one door for commands."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from typing import Literal

from enpire.errors import UnknownName, UsageError
from enpire.home import Home
from enpire.monitor.lab_snapshot import LabSnapshot
from enpire.requests import operator_commands
from enpire.requests.labels import write_label
from enpire.wire.live_images import Preview, Previews

AT_STATIONS = ("pause", "resume", "stop")
CommandState = Literal["requested", "accepted", "effective", "refused"]
FATES: Mapping[str, CommandState] = {
    "command accepted": "accepted", "command effective": "effective", "command refused": "refused",
}  # fmt: skip
"""What an event says of its command."""


class Watched:
    """A `View` that the loop updates and any thread may ask. The web server's live object."""

    def __init__(self, home: Home) -> None:
        """Nothing has been seen yet."""
        self._home = home
        self._snapshot: LabSnapshot | None = LabSnapshot(home=str(home.root))
        self._commands: dict[str, CommandState] = {}
        self._refusals: dict[str, str] = {}
        self._guard = threading.Lock()
        self._previews: Previews | None = None

    def update(self, snapshot: LabSnapshot | None) -> None:
        """The lab as it is now, None while none runs; from the loop's thread, or whoever follows the loop."""
        self._snapshot = snapshot

    def set_previews(self, previews: Previews) -> None:
        """Where live pictures are had from now on."""
        self._previews = previews

    def picture(self, station: str, camera: str) -> Preview:
        """The newest live picture, at once; asking again within three seconds keeps them coming."""
        previews = self._previews
        return previews.look(station, camera) if previews is not None else Preview(why="No station shows pictures now.")

    def note(self, kind: str, body: Mapping[str, object]) -> None:
        """Follow what becomes of commands; from the same thread."""
        if kind in FATES:
            with self._guard:
                self._commands[str(body["command_id"])] = FATES[kind]
                if kind == "command refused":
                    self._refusals[str(body["command_id"])] = str(body["why"])

    def snapshot(self) -> LabSnapshot | None:
        """The newest snapshot, at once; None while no lab runs."""
        return self._snapshot

    def command(self, verb: str, target: str, by: str, key: str, reason: str = "") -> str:
        """Leave a command for the loop; the same key again is the same command. Labels are taken when no lab runs, too.

        Raises:
            UsageError: no lab runs, so nobody would carry it out; or the home has no such episode to judge.
            UnknownName: no station has that name (an empty name means every one).
        """
        now = self._snapshot
        command_id = hashlib.sha256(f"{verb} {target} {by} {key}".encode()).hexdigest()[:26]
        if now is None and verb.startswith("judge "):
            if command_id not in self._commands:
                write_label(self._home, target, verb.removeprefix("judge "), by)
                self._commands[command_id] = "effective"
            return command_id
        if now is None:
            raise UsageError(f"No campaign runs in {self._home.root}, so nobody would carry out {verb!r}: start one.")
        names = [line.name for line in now.stations]
        if verb in AT_STATIONS and target and target not in names:
            raise UnknownName(f"There is no station {target!r} here; there are: {', '.join(names) or 'none yet'}.")
        operator_commands.leave(self._home.inbox, verb, target, by, command_id, reason, now.campaign_id)
        with self._guard:
            self._commands.setdefault(command_id, "requested")
        return command_id

    def command_state(self, command_id: str) -> CommandState:
        """How far a command is; UnknownName for an id that was never given."""
        with self._guard:
            state = self._commands.get(command_id)
        if state is None:
            raise UnknownName(f"There is no command {command_id!r} in this session.")
        return state

    def why(self, command_id: str) -> str:
        """Why a command was refused, or what it still waits for; empty otherwise."""
        with self._guard:
            refused = self._refusals.get(command_id, "")
        now = self._snapshot
        return refused or (now.waited_for.get(command_id, "") if now is not None else "")
