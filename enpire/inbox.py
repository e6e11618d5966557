"""Commands from other processes and threads to the loop: one durable file each, read once, in order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem
from enpire.files import parse, plain
from enpire.ids import mint
from enpire.store import durable


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One wish of a person."""

    command_id: str
    verb: str
    """pause, resume, stop (stations); pause campaign, continue campaign, end campaign; promote, rollback;
    judge success, judge failure, judge unsafe."""
    target: str = ""
    """A station's name (empty: all), a policy version, or an episode."""
    by: str = "operator"
    reason: str = ""
    """Why, in the person's words; kept in the ledger."""


def leave(  # noqa: PLR0913 - a command's own fields
    folder: Path, verb: str, target: str = "", by: str = "operator", command_id: str = "", reason: str = ""
) -> str:
    """Leave a command for the loop; returns its id. The same id again is the same command, carried out once."""
    command = Command(command_id=command_id or mint(), verb=verb, target=target, by=by, reason=reason)
    if not command.command_id.isalnum():
        raise FileProblem(f"The command id {command.command_id!r} must consist of letters and digits.")
    waiting, carried = folder / f"{command.command_id}.json", folder / "done" / f"{command.command_id}.json"
    if not waiting.exists() and not carried.exists():
        durable.write(waiting, json.dumps(plain(command)).encode())
    return command.command_id


def waiting(folder: Path) -> list[Command]:
    """Commands that nobody carried out yet, oldest first."""
    found: list[Command] = []
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
        found.append(parse(Command, json.loads(path.read_text(encoding="utf-8")), f"The command {path}"))
    return found


def done(folder: Path, command: Command) -> None:
    """Put a command away, so that the same id is never carried out again."""
    (folder / "done").mkdir(exist_ok=True)
    (folder / f"{command.command_id}.json").replace(folder / "done" / f"{command.command_id}.json")
