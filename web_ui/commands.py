"""Commands of operators: each key is one command; its state is tracked until it is effective or refused."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from enpire.campaign.command_events import CommandEvent, CommandRefused
from enpire.campaign.events import LedgerEntry
from enpire.errors import UnknownName, UsageError
from enpire.service.asking import URGENT
from enpire.service.watching import state_after
from web_ui.documents import CommandDocument
from web_ui.live import CommandKind, CommandState, LiveLab
from web_ui.problems import Problem

KEPT = 200
"""Most commands kept in memory; older ones are in the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A command as a user submitted it."""

    verb: CommandKind
    target: str
    """A station (empty: all), a policy version, an episode."""
    by: str
    """Name of the user."""
    key: str
    """Chosen by the client; the same key again is the same command."""
    reason: str = ""
    seen: int | None = field(default=None, compare=False)
    """Number of the newest ledger event that the user saw."""


class CommandTracker:
    """Commands of this server, newest last. Thread-safe."""

    def __init__(self, live: LiveLab) -> None:
        self._live = live
        self._lock = threading.Lock()
        """For the dictionaries; never held during a call of the lab, which may wait for a disk."""
        self._submitting = {True: threading.Lock(), False: threading.Lock()}
        """Held while a command is left, one for urgent commands: a stop does not wait until a label is written."""
        self._commands: dict[str, CommandDocument] = {}
        self._began_s: dict[str, float] = {}
        self._by_key: dict[tuple[str, str], tuple[CommandRequest, str]] = {}

    def submit(self, request: CommandRequest) -> CommandDocument:
        """Leave a command for the lab, once for each key. A label needs no running lab.

        Raises:
            Problem: 503 when no lab runs, 409 when the key was used for another command.
        """
        if self._live.snapshot() is None and not request.verb.startswith("judge "):
            raise Problem(503, "No campaign runs in this home, so it takes no commands; start one with `enpire run`.")
        if not request.key:
            raise UsageError("A command needs an Idempotency-Key; send 8 to 100 characters.")
        with self._submitting[request.verb in URGENT]:
            known = self._by_key.get((request.by, request.key))
            if known is not None:
                if known[0] != request:
                    raise Problem(409, f"The key {request.key!r} was used for another command: use a new one.")
                return self.get(known[1])
            began_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
            key = f"{request.by}/{request.key}"
            command_id = self._live.command(request.verb, request.target, request.by, key, request.reason, request.seen)
            document = CommandDocument(
                id=command_id, verb=request.verb, target=request.target, by=request.by, reason=request.reason,
                state="requested", requested_ms=now_ms,
            )  # fmt: skip
            with self._lock:
                self._commands[command_id], self._began_s[command_id] = document, began_s
                self._by_key[request.by, request.key] = (request, command_id)
                self._drop_oldest()
        return document

    def add_events(self, entries: Iterable[LedgerEntry]) -> None:
        """Add commands from the ledger that were submitted elsewhere, for example in a terminal."""
        with self._lock:
            for entry in entries:
                event = entry.event
                if isinstance(event, CommandEvent) and event.command_id not in self._began_s:
                    requested_ms = entry.stamp_ns // 1_000_000
                    before = self._commands.get(event.command_id)
                    self._commands[event.command_id] = _from_event(event, before, requested_ms)
            self._commands = dict(sorted(self._commands.items(), key=lambda item: item[1].requested_ms))
            self._drop_oldest()

    def refresh(self) -> bool:
        """Ask the lab for the states of the open commands; whether any changed."""
        changed = False
        for document in self.open():
            state, why = self._state(document.id)
            if (state, why) == (document.state, document.why):
                continue
            took_s = document.took_s
            if took_s is None and state in ("effective", "refused"):
                took_s = round(time.monotonic() - self._began_s[document.id], 3)
            with self._lock:
                self._commands[document.id] = dataclasses.replace(document, state=state, took_s=took_s, why=why)
            changed = True
        return changed

    def _state(self, command_id: str) -> tuple[CommandState, str]:
        """(state, why) of a command; one that the lab does not know is refused."""
        try:
            state = self._live.command_state(command_id)
        except UnknownName as problem:
            return "refused", str(problem)
        return state, self._live.why(command_id)

    def open(self) -> list[CommandDocument]:
        """Commands of this server that may still change: also effective ones that the disk could not record yet."""
        return [item for item in self.all() if item.id in self._began_s and not _is_settled(item)]

    def all(self) -> list[CommandDocument]:
        """All commands in memory, oldest first."""
        with self._lock:
            return list(self._commands.values())

    def get(self, command_id: str) -> CommandDocument:
        """One command.

        Raises:
            Problem: 404 when it is not in memory.
        """
        with self._lock:
            found = self._commands.get(command_id)
        if found is None:
            raise Problem(404, f"There is no command {command_id[:40]!r}; `GET /api/v1/commands` lists the last ones.")
        return found

    def _drop_oldest(self) -> None:
        while len(self._commands) > KEPT:
            oldest = next(iter(self._commands))
            del self._commands[oldest]
            self._began_s.pop(oldest, None)
            self._by_key = {key: entry for key, entry in self._by_key.items() if entry[1] != oldest}


def _is_settled(document: CommandDocument) -> bool:
    return document.state == "refused" or (document.state == "effective" and not document.why)


def _from_event(event: CommandEvent, before: CommandDocument | None, now_ms: int) -> CommandDocument:
    """A command with the state that an event of the ledger gives it."""
    return CommandDocument(
        id=event.command_id, verb=event.command, target=event.target, by=event.by, reason=event.reason,
        state=state_after(event), requested_ms=before.requested_ms if before else now_ms,
        why=event.why if isinstance(event, CommandRefused) else "",
    )  # fmt: skip
