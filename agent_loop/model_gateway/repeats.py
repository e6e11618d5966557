"""Calls that are made again: a session that was killed gets the answer that was paid for, and no second call is sent.

Two requests of a session are the same call if they name the same `idempotency-key`. Without one, they are the same if
they ask the same and the first answer may not have arrived: its session was started again and the answer is the newest
one, or the agent left before the end. An agent that received an answer and asks the same once more gets a new one.

The same call is never sent twice. Where its answer is lost, or not kept in the form that is asked for now, the session
learns so; a request with another key, or another question, is a new call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from agent_loop.model_gateway.questions import Question
from agent_loop.model_gateway.recorded import HASH, EarlierCalls
from agent_loop.model_gateway.refusals import NOT_KEPT, UNKNOWN
from enpire.errors import EnpireError, UsageError
from enpire.service.asking import KeptAnswer, ModelAnswers, ModelLease
from enpire.service.processes import Provider

KEY = "idempotency-key"
"""Header with which an agent names a call."""
FORM = ("stream", "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens")
"""Keys of a question that only say in which form, or how long, the answer is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one request asks, and of which session."""

    lease: ModelLease
    receiver: str
    """Hash of the lease's token. A session that is started again has a new one."""
    request: str
    """What is asked: a hash of the key of the call, else of the question; then one of the form of the answer."""
    has_key: bool

    @property
    def question(self) -> str:
        """What is asked, in whichever form the answer is wanted: a client may ask for another one by itself."""
        return self.request[:HASH]

    def is_same(self, other: Asked) -> bool:
        """Whether the other request asks the same in the same session."""
        return (self.question, _session(self.lease)) == (other.question, _session(other.lease))


def asked_in(
    lease: ModelLease, token: str, provider: Provider, question: Question, headers: Mapping[str, str]
) -> Asked:
    """What a request asks.

    Raises:
        UsageError: its values are nested too deeply to be sent on.
    """
    key, body = headers.get(KEY, ""), question.body
    form = {"stream": question.streamed} if key else {name: body[name] for name in FORM if name in body}
    named = {"key": key, "model": question.model} if key else {name: body[name] for name in body if name not in FORM}
    try:
        asked = _hash([provider.name, question.endpoint, named])
    except RecursionError as problem:
        raise UsageError("The request has values nested too deeply to be sent on; nest them less.") from problem
    request = asked + _hash([question.hides_count, form])
    receiver = hashlib.sha256(token.encode()).hexdigest()[:32]
    return Asked(lease=lease, receiver=receiver, request=request, has_key=bool(key))


@dataclass(slots=True)
class Repeats:
    """The calls of one home that run, and who waits for them."""

    home: Path
    _running: dict[str, tuple[Asked, asyncio.Event]] = field(default_factory=dict[str, tuple[Asked, asyncio.Event]])
    """Call -> what it asks, and what is set when it is over."""
    _receiving: set[str] = field(default_factory=set[str])
    """Calls whose answers an agent receives now."""
    _received: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])
    """(campaign, session, question) -> who received the newest answer from this gateway."""
    _waiting: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """(campaign, session) -> requests that wait for the end of an earlier one."""

    def busy(self, lease: ModelLease) -> int:
        """Calls of a session that run, and its requests that wait for the end of one."""
        session = _session(lease)
        return self._waiting[session] + sum(_session(asked.lease) == session for asked, _ in self._running.values())

    def find(self, asked: Asked) -> tuple[str, KeptAnswer] | None:
        """(call, answer) of an earlier request for the same call, which the agent receives from now on."""
        answers, lane = ModelAnswers.of(self.home, asked.lease.campaign_id), asked.lease.lane
        for number, (call_id, receiver) in enumerate(answers.calls(lane, asked.request)):
            is_lost = not receiver or (number == 0 and receiver != asked.receiver)
            may_have = asked.has_key or (is_lost and call_id not in self._receiving)
            if may_have and (answer := answers.read(lane, asked.request, call_id)):
                self._receiving.add(call_id)
                return call_id, answer
        return None

    def refused(self, asked: Asked, earlier_calls: EarlierCalls) -> str:
        """Why a request is not sent: an earlier one for the same call was. Empty for a new call.

        Call it where `find` gives no answer and none runs.
        """
        lane = asked.lease.lane
        if (earlier := earlier_calls.of(lane, asked.question)) is None:
            return ""
        if earlier.is_lost:
            return UNKNOWN.format(call_id=earlier.call_id, tokens=earlier.tokens)
        kept = ModelAnswers.of(self.home, asked.lease.campaign_id).calls(lane, asked.question)
        receiver = kept[0][1] if kept else self._received.get((*_session(asked.lease), asked.question), "")
        if not asked.has_key and (receiver == asked.receiver or earlier.call_id in self._receiving):
            return ""
        return NOT_KEPT.format(call_id=earlier.call_id)

    def runs(self, asked: Asked) -> asyncio.Event | None:
        """What is set at the end of an earlier request for the same call; None if none runs."""
        for call_id, (earlier, over) in self._running.items():
            if earlier.is_same(asked) and (asked.has_key or call_id not in self._receiving):
                return over
        return None

    async def wait(self, asked: Asked, over: asyncio.Event, request: Request) -> bool:
        """Wait until an earlier request is over; False if the agent leaves before."""
        self._waiting[_session(asked.lease)] += 1
        try:
            return await set_or_left(over, request)
        finally:
            self._waiting[_session(asked.lease)] -= 1

    def begin(self, asked: Asked, call_id: str) -> None:
        """Note a call that runs, for an agent that receives its answer."""
        self._running[call_id] = asked, asyncio.Event()
        self._receiving.add(call_id)

    def end(self, call_id: str) -> None:
        """Note that a call is over; its answer is kept if it is whole."""
        self._running.pop(call_id)[1].set()

    def leave(self, asked: Asked, call_id: str, is_whole: bool) -> None:
        """Note that an agent received an answer, or left before its end."""
        if is_whole:
            self._received[(*_session(asked.lease), asked.question)] = asked.receiver
            answers = ModelAnswers.of(self.home, asked.lease.campaign_id)
            with suppress(OSError, EnpireError):  # then it may be given once more
                answers.receive(asked.lease.lane, asked.request, call_id, asked.receiver)
        self._receiving.discard(call_id)


class Delivery(StreamingResponse):
    """An answer to an agent; `left` is called at its end, with whether the agent received all of it."""

    def __init__(
        self, parts: AsyncIterator[bytes], status: int, headers: Mapping[str, str], left: Callable[[bool], None]
    ) -> None:
        super().__init__(self._whole(parts), status_code=status, headers=headers)
        self._is_whole, self._left = False, left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._is_whole:
                self._left(False)

    async def _whole(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in parts:
            yield part
        self._is_whole = True
        self._left(True)  # before the connection says that this was the end


async def set_or_left(event: asyncio.Event, request: Request) -> bool:
    """Wait until an event is set; False if the agent leaves before."""
    waits = [asyncio.create_task(event.wait()), asyncio.create_task(leaves(request))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
    return event.is_set()


async def leaves(request: Request) -> None:
    """Wait until the agent leaves; its request was read to its end before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:HASH]


def _session(lease: ModelLease) -> tuple[str, str]:
    return lease.campaign_id, lease.lane
