"""Events of operators' commands: each command is requested, then accepted or refused, then effective."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from enpire.campaign.event_forms import OPTIONAL, EventBase, stored


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfCommand(EventBase):
    """The fields of the command, which each of these events repeats."""

    VERSION: ClassVar[int] = 2
    command_id: str
    command: str = field(metadata=stored("verb"))
    """pause, resume, stop, promote, rollback, ... (`enpire.requests.operator_commands`)."""
    target: str
    """A station (empty: all), a policy version or an episode. Version 1 of these events called it `station`."""
    by: str
    reason: str = field(default="", metadata=OPTIONAL)
    """The operator's reason, in the operator's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequested(_OfCommand):
    """The loop reads a command."""

    KIND: ClassVar[str] = "command requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAccepted(_OfCommand):
    """The command is carried out."""

    KIND: ClassVar[str] = "command accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRefused(_OfCommand):
    """The command is not carried out."""

    KIND: ClassVar[str] = "command refused"
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEffective(_OfCommand):
    """Every station that the command names has reported the new state, or the campaign has carried the command out."""

    KIND: ClassVar[str] = "command effective"


CommandEvent = CommandRequested | CommandAccepted | CommandRefused | CommandEffective
