"""Requests of agents to the loop. An agent cannot write the ledger: it leaves a file in its lane of the home's inbox.

A lane is a folder, one for each agent session. The folder says who asks; the file only says what is asked. The loop
checks each request, appends an event that carries its id, and deletes the file. It takes a limited number of requests
a minute from each lane, in turns, so that a lane which is flooded delays no other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypedDict
from urllib.parse import quote, unquote

from enpire.errors import FileProblem, UsageError
from enpire.files import document, is_json_object, parse, shown
from enpire.ids import mint
from enpire.requests.file_queue import LARGEST, FileQueue, Unreadable, decoded, folders_in, number_in

RequestKind = Literal[
    "hypothesis", "experiment", "adopt", "finding", "give up", "finish", "brief", "tokens", "turn", "code", "revert"
]
A_MINUTE = 120
"""Requests of one lane that the loop takes in a minute; a lane that was silent may send these at once."""
PER_LOOK = 4
"""Most requests of one lane that one look takes, before it turns to the next lane."""
LANES_PER_LOOK = 64
"""Most lanes that one look reads. With more lanes, the next look begins where this one ended."""
MOST_WAITING = 64
"""Requests of one lane that may wait. A further one is refused."""
FLOOD = 4 * MOST_WAITING
"""Waiting requests of one lane that its tools cannot have left: each of them looks how many wait."""
LONGEST_NAME = 200
"""Most characters of the name of a lane's folder."""
EARLIER = "earlier"
"""Author and lane of a request that lies in the folder of earlier versions, where any agent could claim any lane."""
_STORED: Mapping[str, str] = {"request_id": "wish_id", "kind": "verb", "content": "said"}
"""Field -> its key in the file, where they differ."""
_FIELDS: Mapping[str, str] = {key: name for name, key in _STORED.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The agent session that asks. An agent cannot choose it: its tools are bound to it."""

    campaign_id: str
    author: str
    lane: str


class Signature(TypedDict):
    """The fields of an event that name the request that it answers."""

    request_id: str
    author: str
    lane: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """One request of an agent."""

    request_id: str
    campaign_id: str
    kind: RequestKind
    author: str = ""
    """Which kind of agent: search, anthropic, mcp. The loop takes it from the folder, not from the file."""
    lane: str = ""
    """Name of the agent session. The loop takes it from the folder, not from the file."""
    content: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def signature(self) -> Signature:
        """Of the events that answer it."""
        return {"request_id": self.request_id, "author": self.author, "lane": self.lane}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgedRequest(AgentRequest):
    """A request whose file names another session than the one in whose lane it lay; no tool of the lab writes one."""

    claimed: str
    """The session that it names, with its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """A lane in which FLOOD requests or more wait."""

    author: str
    lane: str


@dataclass(slots=True)
class RequestRate:
    """How many requests one lane may send now: A_MINUTE at once after a silent minute, refilled evenly."""

    clock: Callable[[], float]
    left: float = A_MINUTE
    since_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin with a full minute."""
        self.since_s = self.clock()

    def allowed(self) -> int:
        """Requests that may be taken now."""
        now_s = self.clock()
        self.left = min(A_MINUTE, self.left + (now_s - self.since_s) * A_MINUTE / 60)
        self.since_s = now_s
        return int(self.left)

    def take(self) -> None:
        """Count one request."""
        self.left -= 1


class AgentInbox:
    """The requests of agents that wait in one home. The loop's thread takes them."""

    def __init__(self, inbox: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._inbox, self._clock = inbox, clock
        self._queues: dict[str, FileQueue] = {}
        """Name of a lane's folder -> its queue. A look happens several times a second, and paths are slow to make."""
        self._rates: dict[str, RequestRate] = {}
        """Name of a lane's folder -> its rate."""
        self._turn = 0
        """Lane with which the next look begins."""
        self._looked: list[str] = []
        """Names of the folders of the last look."""

    def waiting(self) -> Iterator[AgentRequest | Unreadable]:
        """The oldest requests of each lane that its rate allows; a file that is not a request is moved aside.

        Raises:
            NothingOpens: this process has too many files open to read one.
        """
        for name, queue in self._lanes():
            rate = self._rates.setdefault(name, RequestRate(self._clock))
            most = min(PER_LOOK, rate.allowed())
            for item in queue.waiting(_read, most) if most else ():
                rate.take()
                yield _of_lane(name, item if isinstance(item, Unreadable) else item[1])

    def floods(self) -> Iterator[Flood]:
        """The lanes of the last look in which a flood waits."""
        for name in self._looked:
            if number_in(self._queues[name].folder, FLOOD) >= FLOOD:
                author, lane = _names(name)
                yield Flood(author=author, lane=lane)

    def remove(self, request: AgentRequest) -> None:
        """Delete the file of a request that was answered."""
        _queue(self._inbox, folder_name(request.author, request.lane)).remove(request.request_id)
        if request.lane == EARLIER:
            _earlier(self._inbox).remove(request.request_id)

    def _lanes(self) -> list[tuple[str, FileQueue]]:
        """Name and queue of the lanes of this look; the folder of earlier versions comes last."""
        names = sorted(name for name in folders_in(self._inbox / "lanes", 64 * LANES_PER_LOOK) if "=" in name)
        begin = self._turn if self._turn < len(names) else 0
        self._turn = begin + LANES_PER_LOOK
        self._looked = names[begin : self._turn]
        for name in self._looked:
            self._queues.setdefault(name, _queue(self._inbox, name))
        self._queues = {name: self._queues[name] for name in self._looked}
        return [*self._queues.items(), (EARLIER, _earlier(self._inbox))]


def folder_of(inbox: Path, author: str, lane: str) -> Path:
    """The folder for the requests of one agent session.

    Raises:
        UsageError: the names are too long for a folder.
    """
    return inbox / "lanes" / folder_name(author, lane)


def folder_name(author: str, lane: str) -> str:
    """The name of a lane's folder: author and lane, with other signs than letters, digits and _.-~ as %XX.

    Raises:
        UsageError: the name is too long for a folder.
    """
    name = f"{quote(author, safe='')}={quote(lane, safe='')}"
    if len(name) > LONGEST_NAME:
        raise UsageError(
            f"The agent session {lane[:40]!r} of {author[:40]!r} needs a shorter name: at most 200 letters."
        )
    return name


def leave(
    inbox: Path, sender: Sender, kind: RequestKind, content: Mapping[str, object], request_id: str = ""
) -> str:  # fmt: skip
    """Leave a request; returns its id, which is new unless it is given: the same id is answered once.

    Raises:
        UsageError: it is too large, or holds a value that the ledger cannot hold, or too many of its lane wait.
    """
    request_id, campaign_id = request_id or mint(), sender.campaign_id
    request = AgentRequest(request_id=request_id, campaign_id=campaign_id, kind=kind, content=content)
    fields = {name: value for name, value in document(request).items() if name not in ("author", "lane")}
    try:
        data = json.dumps({_STORED.get(name, name): value for name, value in fields.items()}, allow_nan=False).encode()
        if len(data) > LARGEST:
            raise UsageError(f"The request has {len(data)} bytes; at most {LARGEST} are allowed: shorten it.")
        decoded(data)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"The request cannot be stored: {problem}.") from problem
    if number_in(folder_of(inbox, sender.author, sender.lane), MOST_WAITING) >= MOST_WAITING:
        raise UsageError(
            f"{MOST_WAITING} requests of the agent session {sender.lane!r} wait for the loop, which takes {A_MINUTE} a "
            "minute; wait a minute and send it again."
        )
    _queue(inbox, folder_name(sender.author, sender.lane)).leave(request_id, data)
    return request_id


def _queue(inbox: Path, name: str) -> FileQueue:
    return FileQueue(folder=inbox / "lanes" / name, done=None, bad=inbox / "agents-bad", noun="request", renames=True)


def _earlier(inbox: Path) -> FileQueue:
    """The folder in which earlier versions left the requests of every lane."""
    return FileQueue(folder=inbox / "agents", done=None, bad=inbox / "agents-bad", noun="request", renames=True)


def _names(folder: str) -> tuple[str, str]:
    """(author, lane) of a lane's folder."""
    author, separator, lane = folder.partition("=")
    return (unquote(author), unquote(lane)) if separator else (EARLIER, EARLIER)


def _of_lane(folder: str, item: AgentRequest | Unreadable) -> AgentRequest | Unreadable:
    """What lay in a lane's folder, with the author and the lane of the folder."""
    author, lane = _names(folder)
    if (
        isinstance(item, Unreadable) or lane == EARLIER
        or (item.author in ("", author) and item.lane in ("", lane))
    ):  # fmt: skip
        return replace(item, author=author, lane=lane)
    return ForgedRequest(
        request_id=item.request_id, campaign_id=item.campaign_id, kind=item.kind, content=item.content, author=author,
        lane=lane, claimed=f"{shown(item.lane or lane)} of {shown(item.author or author)}",
    )  # fmt: skip


def _read(name: str, content: object) -> AgentRequest:
    if is_json_object(content):
        content = {_FIELDS.get(key, key): value for key, value in content.items()}
    request = parse(AgentRequest, content, f"The request {name}.json")
    if request.request_id != name:
        raise FileProblem(f"The request {name}.json has the id {request.request_id[:40]!r}.")
    return request
