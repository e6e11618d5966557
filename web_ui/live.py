"""What the pages ask of a running lab: its state now, and one door for commands."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from enpire.fleet.glance import Preview
from enpire.snapshot import LabSnapshot

Verb = Literal["pause", "resume", "stop", "pause campaign", "continue campaign", "end campaign", "rollback"]
CAMPAIGN_VERBS: frozenset[Verb] = frozenset({"pause campaign", "continue campaign", "end campaign", "rollback"})
"""They concern the campaign and its champion, never one station."""
CommandState = Literal["requested", "accepted", "effective", "refused"]
"""Written down; taken by the orchestrator; every station concerned says that it holds; will not happen."""


class LiveLab(Protocol):
    """A running orchestrator, as the web server's thread sees it. Every method may be called from any thread."""

    def snapshot(self) -> LabSnapshot:
        """The newest state, at once: never waits for a station, a disk or the learner."""
        ...

    def command(self, verb: Verb, station: str, by: str, key: str) -> str:
        """Ask for something; an empty `station` means every one. Returns the id of the command, at once.

        The same `key` again returns the same id and does nothing: a double click is one command. UnknownName when
        there is no such station.
        """
        ...

    def command_state(self, command_id: str) -> CommandState:
        """How far a command is; UnknownName for an id that was never given."""
        ...


@runtime_checkable
class LiveCameras(Protocol):
    """A LiveLab that also has pictures. Optional: tiles without it show no thumbnail."""

    def picture(self, station: str, camera: str) -> Preview:
        """The newest picture of one camera, at once; asking again within three seconds keeps them coming."""
        ...
