"""The interface of the web server to a running lab: its current state, its commands and its live images."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from enpire.service.watching import LabSnapshot, Preview

CommandKind = Literal[
    "pause", "resume", "stop", "service", "service done", "reset", "home", "pause campaign", "continue campaign",
    "end campaign", "change limits", "rollback", "promote", "judge success", "judge failure", "judge unsafe",
    "judge undo", "experiment quarantine", "experiment clear", "experiment rerun", "hypothesis propose",
    "hypothesis reject", "hypothesis restore", "hypothesis pin", "hypothesis unpin", "acknowledge",
    "acknowledge undo",
]  # fmt: skip
ACKNOWLEDGE: CommandKind = "acknowledge"
"""An operator has seen an alarm; its target is the cause (`web_ui.alarms`). It changes nothing else."""
UNACKNOWLEDGE: CommandKind = "acknowledge undo"
"""The alarm counts as unseen again."""
STATION_COMMANDS: frozenset[CommandKind] = frozenset(
    {"pause", "resume", "stop", "service", "service done", "reset", "home"}
)
"""Commands to stations; the others go to the campaign, a policy version or an episode."""
TARGETED: frozenset[CommandKind] = frozenset(
    {
        "service",
        "service done",
        "reset",
        "home",
        "promote",
        "change limits",
        "judge success",
        "judge failure",
        "judge unsafe",
        "judge undo",
        "experiment quarantine",
        "experiment clear",
        "experiment rerun",
        "hypothesis propose",
        "hypothesis reject",
        "hypothesis restore",
        "hypothesis pin",
        "hypothesis unpin",
        "acknowledge",
        "acknowledge undo",
    }
)
"""Commands that need a target: one station, a policy version, an episode, an experiment, a hypothesis, changed
settings or limits, the cause of an alarm."""
REASONED: frozenset[CommandKind] = frozenset(
    {
        "promote",
        "rollback",
        "service",
        "experiment quarantine",
        "experiment clear",
        "experiment rerun",
        "hypothesis propose",
        "hypothesis reject",
    }
)
"""Commands that override what the lab or an agent decided, and proposals; they need a reason or statement."""
CommandState = Literal["requested", "accepted", "effective", "refused"]
"""requested: written to the inbox. accepted: read by the orchestrator. effective: reported by every station concerned.
refused: will not be executed."""


class LiveLab(Protocol):
    """A running orchestrator. Every method may be called from any thread."""

    def snapshot(self) -> LabSnapshot | None:
        """The newest state; does not wait for a station, a disk or the learner. None while no campaign runs."""
        ...

    def command(  # noqa: PLR0913 - a command's own fields
        self, kind: CommandKind, target: str, operator: str, key: str, reason: str = "", seen: int | None = None
    ) -> str:
        """Submit a command to a station (empty: all), a policy version or an episode; returns its id at once.

        The same `key` again returns the same id and submits nothing, so a double click is one command. `seen` is the
        number of the newest event that the user saw; without it, the newest event of the lab's state.

        Raises:
            UnknownName: there is no such station.
            UsageError: no campaign runs; labels of episodes are accepted all the same.
        """
        ...

    def command_state(self, command_id: str) -> CommandState:
        """The state of a command; UnknownName when there is no such command."""
        ...

    def why(self, command_id: str) -> str:
        """Why a command was refused, or what it still waits for; empty otherwise."""
        ...


@runtime_checkable
class LiveCameras(Protocol):
    """A LiveLab that also has live images. Without it, tiles show no image."""

    def picture(self, station: str, camera: str) -> Preview:
        """The newest live image of one camera, at once. Stations send images for three seconds after each call."""
        ...
