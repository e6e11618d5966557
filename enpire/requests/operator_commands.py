"""Commands of operators to the loop of one home.

A command is a durable file in the home's inbox, so that any process can leave one and none is lost in a crash. No
agent can write there: agents have lanes of their own. Commands to stations lie in a folder of their own, which is read
first. Where the page and the loop are one process, they share one `CommandInbox`: a stop or a pause is first handed
over in memory and then written, so that it reaches the stations also when the disk refuses.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import EnpireError, FileProblem
from enpire.files import document, is_json_object, parse
from enpire.ids import file_name, mint
from enpire.requests.file_queue import LARGEST, FileQueue, Unreadable
from enpire.store import durable

URGENT = ("stop", "pause")
"""Commands that are handed over in memory before they are written."""
_HOLDS = ("stop", "pause", "pause campaign")
"""Commands that hold robots, in the order in which they are handled before all others."""
AT_STATIONS = ("pause", "resume", "stop", "service", "service done", "reset", "home")
"""Commands that stations carry out."""
MOST = 32
"""Commands of one folder that one look takes. Stops and resumes have a folder of their own."""
BEFORE_BEGIN = 10_000
"""Commands of one folder that are taken before a campaign begins or resumes."""
_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_STORED: Mapping[str, str] = {"kind": "verb", "operator": "by"}
"""Field -> its key in the file, where they differ."""
_FIELDS: Mapping[str, str] = {key: name for name, key in _STORED.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommand:
    """One command of an operator."""

    command_id: str
    """1 to 64 letters and digits. The same id again is the same command, carried out once."""
    kind: str
    """pause, resume, stop, service, service done, reset, home (stations); pause campaign, continue campaign,
    end campaign, change limits (campaign);
    promote, rollback; judge success, judge failure, judge unsafe, judge undo; experiment quarantine, experiment clear,
    experiment rerun; hypothesis propose, hypothesis reject, hypothesis restore, hypothesis pin, hypothesis unpin;
    acknowledge, acknowledge undo."""
    target: str = ""
    """A station's name (empty: all), a policy version, an episode, an experiment, a hypothesis, the cause of an alarm,
    or changes (`campaign.limits`, `steps.hypothesis_commands.read_changes`)."""
    operator: str = "operator"
    """Name of the person."""
    reason: str = ""
    """In the operator's own words; kept in the ledger."""
    campaign_id: str = ""
    """The campaign that the operator saw; no other carries it out. Empty: any."""
    seen: int = 0
    """Number of the newest ledger event that the operator saw. It orders commands, whatever any clock says: a `resume`
    ends no stop or pause that the ledger accepted later, an `experiment clear` no later quarantine. 0 in commands of
    earlier versions: none was seen."""


class CommandInbox:
    """The commands that wait in one home. Any thread may leave one; the loop's thread takes them."""

    def __init__(self, folder: Path) -> None:
        self._files = _Files(folder)
        self._guard = threading.Lock()
        self._handed_over: dict[str, OperatorCommand] = {}
        """Left in this process and not removed yet."""
        self._removed: set[str] = set()
        """Ids of those that were handed over and are handled: a file of theirs that appears later is no new command."""
        self._unrecorded: dict[str, str] = {}
        """Id of a command that waits and has no file -> the problem of the disk."""

    def leave(self, command: OperatorCommand) -> str:
        """Leave a command; returns its id. It is durable when this returns, except for an urgent one (`unrecorded`).

        Raises:
            EnpireError: the command is too large, or is not urgent and the disk refused it.
        """
        command_id, data = command.command_id, _encoded(command)
        urgent = command.kind in URGENT
        if urgent:
            with self._guard:
                if command_id in self._removed or command_id in self._handed_over or self._files.knows(command_id):
                    return command_id
                self._handed_over[command_id] = command
        try:
            self._files.leave(command, data)
        except (EnpireError, OSError) as problem:
            if not urgent:
                raise
            with self._guard:
                if command_id in self._handed_over:
                    self._unrecorded[command_id] = str(problem)
        with self._guard:
            if command_id in self._removed:  # the loop was faster than the disk
                self._files.remove(command_id)
        return command_id

    def waiting(self, most: int = MOST) -> Iterator[OperatorCommand | Unreadable]:
        """The commands that wait: urgent ones of this process, those to stations, others; each from the oldest on.

        `in_order` gives the order of handling.

        Args:
            most: how many files of each folder are read at most.
        """
        with self._guard:
            handed_over = list(self._handed_over.values())
        yield from handed_over
        known = {command.command_id for command in handed_over}
        for item in self._files.waiting(most):
            if isinstance(item, Unreadable):
                yield item
            elif item.command_id in self._removed:
                self._files.remove(item.command_id)
            elif item.command_id not in known:
                yield item

    def handed_over(self) -> list[OperatorCommand]:
        """The urgent commands of this process that wait; reads no disk."""
        with self._guard:
            return list(self._handed_over.values())

    def remove(self, command: OperatorCommand) -> None:
        """Take a command out of the queue after the ledger has it; the same id is never carried out again."""
        command_id = command.command_id
        with self._guard:
            in_memory = self._handed_over.pop(command_id, None) is not None
            never_written = self._unrecorded.pop(command_id, None) is not None
            if in_memory:
                self._removed.add(command_id)
            if not never_written:
                self._files.remove(command_id)
        if never_written:
            self._archive(command)

    def unrecorded(self) -> Mapping[str, str]:
        """Id of each command that waits and could not be written -> why not."""
        with self._guard:
            return dict(self._unrecorded)

    def _archive(self, command: OperatorCommand) -> None:
        """Keep a handled command among those that are done, so that a later process knows its id."""
        try:
            durable.make_folder(self._files.done)
            durable.write(self._files.done / f"{file_name(command.command_id, 'a command')}.json", _encoded(command))
        except (EnpireError, OSError):
            return  # the ledger has it; only a repeated click in a later process would be a second command


class _Files:
    """The command files of one home: those to stations, the others, and those that earlier versions left."""

    def __init__(self, inbox: Path) -> None:
        self.done = inbox / "done"
        own = inbox / "operator"
        self._to_stations, self._others = self._queue(own / "stations", inbox), self._queue(own / "campaign", inbox)
        self._all = (self._to_stations, self._others, self._queue(inbox, inbox))  # the last: of earlier versions

    def _queue(self, folder: Path, inbox: Path) -> FileQueue:
        return FileQueue(folder=folder, done=self.done, bad=inbox / "bad", noun="command", alone=folder != inbox)

    def leave(self, command: OperatorCommand, data: bytes) -> None:
        """Write a command durably, unless one of its id waits or was handled."""
        if not self.knows(command.command_id):
            queue = self._to_stations if command.kind in AT_STATIONS else self._others
            queue.leave(command.command_id, data)

    def knows(self, command_id: str) -> bool:
        """Whether a command of this id waits or was handled."""
        return any(queue.knows(command_id) for queue in self._all)

    def waiting(self, most: int) -> Iterator[OperatorCommand | Unreadable]:
        """The commands to stations first, then the others; at most `most` of each folder, from the oldest on."""
        for queue in self._all:
            for item in queue.waiting(_read, most):
                yield item if isinstance(item, Unreadable) else item[1]

    def remove(self, command_id: str) -> None:
        """Move a handled command to those that are done."""
        for queue in self._all:
            queue.remove(command_id)


def leave(  # noqa: PLR0913 - a command's own fields
    folder: Path, kind: str, target: str = "", operator: str = "operator", command_id: str = "", reason: str = "",
    campaign_id: str = "", seen: int = 0,
) -> str:  # fmt: skip
    """Leave a command, as `leave_command`; returns its id."""
    command = OperatorCommand(
        command_id=command_id or mint(), kind=kind, target=target, operator=operator, reason=reason,
        campaign_id=campaign_id, seen=seen,
    )  # fmt: skip
    leave_command(folder, command)
    return command.command_id


def leave_command(folder: Path, command: OperatorCommand) -> None:
    """Leave a command for a loop in another process; it is durable when this returns.

    Raises:
        EnpireError: the command is too large, or the disk refused it.
    """
    _Files(folder).leave(command, _encoded(command))


def in_order(waiting: Iterable[OperatorCommand | Unreadable]) -> list[OperatorCommand | Unreadable]:
    """Waiting commands in the order in which they are handled: stops, pauses, then the others by what they had seen.

    A resume that waits with a newer stop is therefore refused, because the stop is in the ledger first.
    """
    return sorted(waiting, key=_rank)


def _rank(item: OperatorCommand | Unreadable) -> tuple[int, int]:
    if isinstance(item, Unreadable):
        return 0, 0
    return (_HOLDS.index(item.kind), 0) if item.kind in _HOLDS else (len(_HOLDS), item.seen)


def waiting(folder: Path) -> Iterator[OperatorCommand | Unreadable]:
    """The commands in a folder that wait, from the oldest on."""
    return CommandInbox(folder).waiting()


def _encoded(command: OperatorCommand) -> bytes:
    if not _ID.fullmatch(command.command_id):
        raise FileProblem(f"The command id {command.command_id[:70]!r} must consist of 1 to 64 letters and digits.")
    fields = document(command)
    data = json.dumps({_STORED.get(name, name): value for name, value in fields.items()}).encode()
    if len(data) > LARGEST:
        raise FileProblem(
            f"The command {command.kind[:40]!r} has {len(data)} bytes; at most {LARGEST} are allowed: shorten it."
        )
    return data


def _read(name: str, content: object) -> OperatorCommand:
    if is_json_object(content):
        content = {_FIELDS.get(key, key): value for key, value in content.items()}
    command = parse(OperatorCommand, content, f"The command {name}.json was set aside; it")
    if command.command_id != name or not _ID.fullmatch(name):
        raise FileProblem(f"The command {name}.json was set aside: its id is {command.command_id[:40]!r}.")
    return command
