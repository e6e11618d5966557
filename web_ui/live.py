"""What the pages ask of a running lab: its state now, and one door for commands."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from enpire.service.watching import LabSnapshot, Preview

Verb = Literal[
    "pause", "resume", "stop", "pause campaign", "continue campaign", "end campaign", "rollback", "promote",
    "judge success", "judge failure", "judge unsafe",
]  # fmt: skip
STATION_VERBS: frozenset[Verb] = frozenset({"pause", "resume", "stop"})
"""They concern one station, or all; the others the campaign, a policy version or an episode."""
TARGETED: frozenset[Verb] = frozenset({"promote", "judge success", "judge failure", "judge unsafe"})
"""They need a policy version or an episode."""
REASONED: frozenset[Verb] = frozenset({"promote", "rollback"})
"""They overrule the gate, so they need a reason."""
CommandState = Literal["requested", "accepted", "effective", "refused"]
"""Written down; taken by the orchestrator; every station concerned says that it holds; will not happen."""


class LiveLab(Protocol):
    """An orchestrator as the web server's thread sees it. Every method may be called from any thread."""

    def snapshot(self) -> LabSnapshot | None:
        """The newest state, at once: never waits for a station, a disk or the learner. None while no lab runs."""
        ...

    def command(self, kind: Verb, target: str, operator: str, key: str, reason: str = "") -> str:
        """Ask for something of a station (empty: every one), a policy version or an episode; its id, at once.

        The same `key` again returns the same id and does nothing: a double click is one command. UnknownName when
        there is no such station, UsageError when no lab runs; a label on an episode is taken all the same.
        """
        ...

    def command_state(self, command_id: str) -> CommandState:
        """How far a command is; UnknownName for an id that was never given."""
        ...

    def why(self, command_id: str) -> str:
        """Why a command was refused, or what it still waits for; empty otherwise."""
        ...


@runtime_checkable
class LiveCameras(Protocol):
    """A LiveLab that also has pictures. Optional: tiles without it show no thumbnail."""

    def picture(self, station: str, camera: str) -> Preview:
        """The newest picture of one camera, at once; asking again within three seconds keeps them coming."""
        ...
