"""Calls that are made again: a session that was killed gets the answer that was paid for, and no second call is sent.

Two requests of a session are the same call if they name the same `idempotency-key`. Without one, they are the same if
they ask the same and the first answer may not have arrived: its session was started again, or the agent left before the
end. An agent that received an answer and asks the same once more gets a new one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from agent_loop.model_gateway.questions import Question
from enpire.service.asking import KeptAnswer, ModelAnswers, ModelLease
from enpire.service.processes import Provider

KEY = "idempotency-key"
"""Header with which an agent names a call."""
MOST_NOTED = 1024
"""Calls of one session of which is noted that their answers arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one request asks, and of which session."""

    lease: ModelLease
    token: str
    """Of the lease. A session that is started again has a new one."""
    request: str
    """Hash of the key of the call, else of the question."""
    has_key: bool

    def is_same(self, other: Asked) -> bool:
        """Whether the other request asks the same in the same session."""
        return (self.request, _session(self.lease)) == (other.request, _session(other.lease))


def asked_in(
    lease: ModelLease, token: str, provider: Provider, question: Question, headers: Mapping[str, str]
) -> Asked:
    """What a request asks."""
    key = headers.get(KEY, "")
    named: object = {"key": key, "model": question.model} if key else {"body": question.body}
    text = json.dumps([provider.name, question.endpoint, question.hides_count, named], sort_keys=True)
    request = hashlib.sha256(text.encode()).hexdigest()
    return Asked(lease=lease, token=token, request=request, has_key=bool(key))


@dataclass(slots=True)
class Repeats:
    """The calls of one home that run, and which answers arrived."""

    home: Path
    _running: dict[str, tuple[Asked, asyncio.Task[None]]] = field(
        default_factory=dict[str, tuple[Asked, asyncio.Task[None]]]
    )
    """Call -> what it asks, and its task."""
    _arrived: dict[tuple[str, str], tuple[str, set[str]]] = field(
        default_factory=dict[tuple[str, str], tuple[str, set[str]]]
    )
    """(campaign, session) -> token, and the calls whose answers were handed out to it."""

    async def find(self, asked: Asked) -> tuple[str, KeptAnswer] | None:
        """(call, answer) of an earlier request for the same call, if need be after its end; None: it is a new call."""
        while True:
            if found := self._kept(asked):
                self.arrives(asked, found[0])
                return found
            if (task := self._runs(asked)) is None:
                return None
            await asyncio.wait({task})

    def begin(self, asked: Asked, call_id: str, task: asyncio.Task[None]) -> None:
        """Note a call that runs, for an agent that receives its answer."""
        self._running[call_id] = asked, task
        task.add_done_callback(lambda _: self._running.pop(call_id, None))
        self.arrives(asked, call_id)

    def arrives(self, asked: Asked, call_id: str) -> None:
        """Note that the agent receives the answer to a call."""
        noted = self._noted(asked)
        noted.add(call_id)
        while len(noted) > MOST_NOTED:
            noted.remove(min(noted))  # ids rise with time

    def is_lost(self, asked: Asked, call_id: str) -> None:
        """Note that the agent left before the end of the answer."""
        self._noted(asked).discard(call_id)

    def _kept(self, asked: Asked) -> tuple[str, KeptAnswer] | None:
        answers, lane = ModelAnswers.of(self.home, asked.lease.campaign_id), asked.lease.lane
        for call_id in answers.calls(lane, asked.request):
            if self._may_have(asked, call_id) and (answer := answers.read(lane, asked.request, call_id)):
                return call_id, answer
        return None

    def _runs(self, asked: Asked) -> asyncio.Task[None] | None:
        for call_id, (earlier, task) in self._running.items():
            if earlier.is_same(asked) and self._may_have(asked, call_id):
                return task
        return None

    def _may_have(self, asked: Asked, call_id: str) -> bool:
        return asked.has_key or call_id not in self._noted(asked)

    def _noted(self, asked: Asked) -> set[str]:
        token, noted = self._arrived.get(_session(asked.lease), ("", set[str]()))
        if token != asked.token:
            noted = set[str]()
            self._arrived[_session(asked.lease)] = asked.token, noted
        return noted


class Delivery(StreamingResponse):
    """An answer to an agent; `left` is called when the agent leaves before its end."""

    def __init__(
        self, parts: AsyncIterator[bytes], status: int, headers: Mapping[str, str], left: Callable[[], None]
    ) -> None:
        super().__init__(self._whole(parts), status_code=status, headers=headers)
        self._is_whole, self._left = False, left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._is_whole:
                self._left()

    async def _whole(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in parts:
            yield part
        self._is_whole = True


async def leaves(request: Request) -> None:
    """Wait until the agent leaves; its request was read to its end before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _session(lease: ModelLease) -> tuple[str, str]:
    return lease.campaign_id, lease.lane
