"""Calls of language models on disk: what the model gateway leaves for the loop, which writes it into the ledger.

Before the gateway sends a call, it writes it as a lost call: `open/ID.json`. When the call has ended, it writes the
provider's count into that file and moves it to `done`, where the loop takes it. A gateway that was killed leaves open
records; the next one passes them on with the count of the kept answer, or as they are. So each call is recorded once,
whichever process ends at which moment.

A lost call was sent, or may have been, and may have been paid for. Its record says what it asked, so that the gateway
never sends the same again by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from enpire.campaign.agent_events import ModelCalled
from enpire.errors import EnpireError, FileProblem
from enpire.files import parse
from enpire.ids import file_name
from enpire.requests.file_queue import FileQueue, names_in
from enpire.requests.model_answers import FOLDER, ModelAnswers
from enpire.store import durable, removal

MOST_OPEN = 4096
"""Open records that one look reads; far more than calls can run at one time."""


@dataclass(frozen=True, slots=True)
class CallRecords:
    """The calls of one campaign that are not in its ledger yet."""

    folder: Path

    @classmethod
    def of(cls, home: Path, campaign_id: str) -> CallRecords:
        """The records of a campaign of a home."""
        return cls(home / "agents" / file_name(campaign_id, "a campaign") / ".model-calls")

    def begin(self, call: ModelCalled) -> None:
        """Record a call that will be sent now, as lost; durable when this returns."""
        durable.make_folder(self._open)
        durable.write(self._open / _name(call.call_id), _data(call))

    def end(self, call: ModelCalled) -> None:
        """Record the end of a call; durable when this returns."""
        self.begin(call)
        done = self._done.folder
        durable.make_folder(done)
        durable.adopt(self._open / _name(call.call_id), done / _name(call.call_id), self.folder)

    def close(self) -> None:
        """Pass on the calls of a gateway that was killed: as lost, where no answer is kept."""
        answers = ModelAnswers(self.folder.parent / FOLDER)
        for path in names_in(self._open, MOST_OPEN):
            if path.suffix != ".json":
                continue  # a write that a kill ended; its call was not sent
            call_id, _, request = path.stem.partition(".")  # an earlier version named what was asked here
            if (call := _found(path, call_id)) is None:
                continue  # no record of this gateway
            known = answers.record_of(call) if call.outcome == "lost" else None
            self.end(known or replace(call, request=call.request or request))
            removal.try_remove(path, self._open)

    def ended(self) -> list[ModelCalled]:
        """Calls that ended and are not in the ledger yet."""
        return list(self.waiting(MOST_OPEN))

    def waiting(self, most: int) -> Iterator[ModelCalled]:
        """The oldest calls that ended, at most so many."""
        for item in self._done.waiting(_read, most):
            if isinstance(item, tuple):
                yield item[1]

    def remove(self, call_id: str) -> None:
        """Remove a call that the ledger holds."""
        self._done.remove(call_id)

    @property
    def _open(self) -> Path:
        return self.folder / "open"

    @property
    def _done(self) -> FileQueue:
        return FileQueue(folder=self.folder / "done", done=None, bad=self.folder / "bad", noun="model call")


def pass_on(home: Path) -> None:
    """Pass on what a killed gateway left in all campaigns of a home, then remove the answers that are too old.

    What cannot be read or removed stays.
    """
    agents = home / "agents"
    for campaign in agents.iterdir() if agents.is_dir() else ():
        try:
            CallRecords.of(home, campaign.name).close()
            ModelAnswers.of(home, campaign.name).prune()
        except (OSError, EnpireError):
            continue


def _name(call_id: str) -> str:
    return f"{file_name(call_id, 'a model call')}.json"


def _found(path: Path, call_id: str) -> ModelCalled | None:
    """The call in a file; None if it is no record of that call."""
    try:
        return _read(call_id, json.loads(path.read_bytes()))
    except (FileProblem, OSError, ValueError):
        return None


def _data(call: ModelCalled) -> bytes:
    return json.dumps(call.body()).encode()


def _read(name: str, content: object) -> ModelCalled:
    call = parse(ModelCalled, content, f"The model call {name}")
    if call.call_id != name:
        raise FileProblem(f"The model call {name} has the id {call.call_id[:40]!r}.")
    return call
