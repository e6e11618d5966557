"""Requests of agents to the loop. An agent cannot write the ledger: it leaves a file in the home's inbox.

The loop checks each request, appends an event that carries its id, and moves the file away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from enpire.errors import FileProblem, UsageError
from enpire.files import document, is_json_object, parse
from enpire.ids import mint
from enpire.requests.file_queue import LARGEST, FileQueue, Unreadable, decoded

RequestKind = Literal["hypothesis", "experiment", "adopt", "finding", "give up", "finish", "brief", "tokens", "turn"]
MOST = 20
"""Requests that are read at one time."""
_STORED: Mapping[str, str] = {"request_id": "wish_id", "kind": "verb", "content": "said"}
"""Field -> its key in the file, where they differ."""
_FIELDS: Mapping[str, str] = {key: name for name, key in _STORED.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The agent session that asks. An agent cannot choose it: its tools are bound to it."""

    campaign_id: str
    author: str
    lane: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """One request of an agent."""

    request_id: str
    campaign_id: str
    kind: RequestKind
    author: str
    """Which kind of agent: search, anthropic, mcp."""
    lane: str
    content: Mapping[str, object] = field(default_factory=dict[str, object])


def folder_of(inbox: Path) -> Path:
    """The folder of agents' requests, below the inbox of a home."""
    return inbox / "agents"


def leave(inbox: Path, sender: Sender, kind: RequestKind, content: Mapping[str, object]) -> str:
    """Leave a request; returns its id.

    Raises:
        UsageError: it is too large, or holds a value that the ledger cannot hold.
    """
    request = AgentRequest(
        request_id=mint(), campaign_id=sender.campaign_id, kind=kind, author=sender.author, lane=sender.lane,
        content=content,
    )  # fmt: skip
    fields = document(request)
    try:
        data = json.dumps({_STORED.get(name, name): value for name, value in fields.items()}, allow_nan=False).encode()
        if len(data) > LARGEST:
            raise UsageError(f"The request has {len(data)} bytes; at most {LARGEST} are allowed: shorten it.")
        decoded(data)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"The request cannot be stored: {problem}.") from problem
    _queue(inbox).leave(request.request_id, data)
    return request.request_id


def waiting(inbox: Path) -> Iterator[AgentRequest | Unreadable]:
    """The oldest requests that wait; a file that is not a request is moved aside."""
    for item in _queue(inbox).waiting(_read, MOST):
        yield item if isinstance(item, Unreadable) else item[1]


def remove(inbox: Path, request: AgentRequest) -> None:
    """Move a request that was answered out of the queue."""
    _queue(inbox).remove(request.request_id)


def _queue(inbox: Path) -> FileQueue:
    return FileQueue(
        folder=folder_of(inbox), done=inbox / "agents-done", bad=inbox / "agents-bad", noun="request", renames=True
    )


def _read(name: str, content: object) -> AgentRequest:
    if is_json_object(content):
        content = {_FIELDS.get(key, key): value for key, value in content.items()}
    request = parse(AgentRequest, content, f"The request {name}.json")
    if request.request_id != name:
        raise FileProblem(f"The request {name}.json has the id {request.request_id[:40]!r}.")
    return request
