"""Commands from other processes and threads to the loop: one durable file each, read once, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import FileProblem
from enpire.files import parse, plain
from enpire.ids import mint
from enpire.store import durable

LARGEST = 16 * 1024
"""Bytes of one command."""


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
    campaign_id: str = ""
    """The campaign that the person saw, which alone carries it out; empty where nobody knew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoilt:
    """A file that is no command; it was set aside."""

    command_id: str
    """What the file was called."""
    why: str


def leave(  # noqa: PLR0913 - a command's own fields
    folder: Path, verb: str, target: str = "", by: str = "operator", command_id: str = "", reason: str = "",
    campaign_id: str = "",
) -> str:  # fmt: skip
    """Leave a command for the loop; returns its id. The same id again is the same command, carried out once."""
    command = Command(
        command_id=command_id or mint(), verb=verb, target=target, by=by, reason=reason, campaign_id=campaign_id
    )
    if not command.command_id.isalnum():
        raise FileProblem(f"The command id {command.command_id!r} must consist of letters and digits.")
    data = json.dumps(plain(command)).encode()
    if len(data) > LARGEST:
        raise FileProblem(f"The command {verb[:40]!r} has {len(data)} bytes; at most {LARGEST} are taken: shorten it.")
    waiting, carried = folder / f"{command.command_id}.json", folder / "done" / f"{command.command_id}.json"
    if not waiting.exists() and not carried.exists():
        durable.write(waiting, data)
    return command.command_id


def waiting(folder: Path) -> Iterator[Command | Spoilt]:
    """Commands that nobody carried out yet, oldest first; a file that is none is set aside and told of once."""
    for path in sorted(folder.glob("*.json"), key=lambda path: path.lstat().st_mtime_ns):
        try:
            yield _read(path)
        except FileProblem as problem:
            _away(path, "bad")
            yield Spoilt(command_id=_printable(path.stem), why=_printable(str(problem)))


def done(folder: Path, command: Command) -> None:
    """Put a command away, so that the same id is never carried out again."""
    _away(folder / f"{command.command_id}.json", "done")


def _read(path: Path) -> Command:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        content = json.loads(data) if len(data) <= LARGEST else None
    except (OSError, ValueError, RecursionError) as problem:
        if durable.is_spent():
            raise durable.spent(path) from problem  # it is no less a command
        raise FileProblem(f"The command {path.name} cannot be read and was set aside: {problem}.") from problem
    command = parse(Command, content, f"The command {path.name} was set aside; it")
    if command.command_id != path.stem:
        raise FileProblem(f"The command {path.name} was set aside: it says that its id is {command.command_id[:40]!r}.")
    return command


def _printable(text: str) -> str:
    """Without the halves of characters that a file's name may have."""
    return text.encode(errors="replace").decode()


def _away(path: Path, where: str) -> None:
    target = path.parent / where
    target.mkdir(exist_ok=True)
    path.replace(target / path.name)
