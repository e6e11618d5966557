"""One call of a language model: reserved, recorded, sent, metered and recorded again, whatever becomes of the agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import httpx

from agent_loop.model_gateway.prices import Price, Prices
from agent_loop.model_gateway.questions import LONGEST_MODEL, Question
from agent_loop.model_gateway.spending import Bound
from agent_loop.model_gateway.upstream import PATHS, answer_headers, request_headers
from agent_loop.model_gateway.usage import READERS, EventStream, Usage, read_object
from enpire.log_lines import encodable
from enpire.service.asking import LARGEST_KEPT, CallOutcome, KeptAnswer, ModelCalled, ModelLease
from enpire.service.processes import Provider

LARGEST_ANSWER = 64 * 2**20
"""Most bytes of an answer that is not streamed."""
UNANSWERED = (504, 520, 524)
"""Statuses of servers before the provider that stopped waiting for it: it may work on the call, and be paid for it."""
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
"""Problems of a connection over which no question went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """The prices that hold for one question."""

    prices: Prices
    price: Price | None
    """Of the model as the agent asked for it."""

    def bound(self, question: Question, read: int) -> Bound:
        """The most that the question can cost, if the provider reads at most `read` tokens."""
        answer = question.answer_bound
        money = self.price.at_most(read, answer) if self.price else None
        return Bound(tokens=read + answer, money=money)

    def cost(self, provider: str, asked: str, usage: Usage) -> tuple[float | None, str]:
        """What a call cost, and the entry of the price file; None where it is unknown."""
        price = self.prices.find(provider, (usage.model, asked))
        money = price.of(usage) if price else None
        return money, price.name if price and money is not None else ""


@dataclass(slots=True, kw_only=True)
class Call:
    """A call that runs. The agent may leave before it ends: the call is read to its end, so that its count is exact."""

    call_id: str
    request: str
    """Hash of what is asked."""
    lease: ModelLease
    provider: Provider
    question: Question
    priced: Priced
    bound: Bound
    usage: Usage = field(default_factory=Usage)
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    began: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the provider's status is known, or will never be."""
    parts: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue[bytes | None])
    """The answer for the agent; None after its last part."""
    held: bytes = b""
    """The last part, until the answer is kept."""
    whole: bytearray = field(default_factory=bytearray)
    """All parts together, as far as they can be kept."""
    problem: str = ""
    """Why no answer, or only a part of it, came."""
    sent: bool = True
    """False when no connection to the provider was made."""
    began_s: float = field(default_factory=time.monotonic)

    async def send(self, client: httpx.AsyncClient, headers: Mapping[str, str]) -> None:
        """Send the question, read the answer to its end and hand out all but its last part; a problem is noted."""
        self.sent = False
        try:
            url = self.provider.address + PATHS[self.question.endpoint]
            head = request_headers(self.provider, headers)
            request = client.build_request("POST", url, content=self.question.data(), headers=head)
            self.sent = True
            answer = await client.send(request, stream=True)
            try:
                await self._begin(answer)
            finally:
                await answer.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as problem:
            self.problem = f"{type(problem).__name__}: {problem}"
            self.sent &= not isinstance(problem, NOT_SENT)
        finally:
            self.began.set()

    async def _begin(self, answer: httpx.Response) -> None:
        self.status, self.headers = answer.status_code, answer.headers
        if self.status in UNANSWERED:
            raise ValueError(f"HTTP status {self.status}, after which the provider may work on")
        self.began.set()
        await self._receive(answer)

    @property
    def has_answer(self) -> bool:
        """Whether the provider's own answer, or its beginning, is there for the agent."""
        return bool(self.status) and self.status not in UNANSWERED

    def finish(self) -> None:
        """Hand out the last part: what is kept of the call is on the disk."""
        self.parts.put_nowait(self.held)
        self.parts.put_nowait(None)

    def to_keep(self, record: ModelCalled) -> KeptAnswer | None:
        """The answer as it is kept under the hash of its request; None if it is not whole, or too large."""
        if record.outcome != "answered" or self.problem or len(self.whole) > LARGEST_KEPT:
            return None
        headers = answer_headers(self.headers)
        return KeptAnswer(
            call=record, request=self.request, status=self.status, headers=headers, data=bytes(self.whole)
        )

    def _hand_out(self, part: bytes) -> None:
        if self.held:
            self.parts.put_nowait(self.held)
        self.held = part
        if len(self.whole) <= LARGEST_KEPT:
            self.whole += part

    async def _receive(self, answer: httpx.Response) -> None:
        kind = answer.headers.get("content-type", "")
        if answer.is_success and kind.startswith("text/event-stream"):
            await self._receive_stream(answer)
            return
        data = b""
        async for part in answer.aiter_bytes():
            data += part
            if len(data) > LARGEST_ANSWER:
                raise ValueError(f"the answer has more than {LARGEST_ANSWER >> 20} MiB")
        if answer.is_success and (document := read_object(data)) is not None:
            READERS[self.question.endpoint](document, self.usage)
        self._hand_out(data)

    async def _receive_stream(self, answer: httpx.Response) -> None:
        stream, read = EventStream(), READERS[self.question.endpoint]
        async for part in answer.aiter_bytes():
            for block, document in stream.feed(part):
                if document is not None:
                    read(document, self.usage)
                    if self.question.hides_count and document.get("usage") and not document.get("choices"):
                        continue  # the agent did not ask for this event
                self._hand_out(block)
        if rest := stream.end():
            self._hand_out(rest)

    def record(self) -> ModelCalled:
        """The event of the call, as far as it has come."""
        refused = self.has_answer and not httpx.codes.is_success(self.status) and not self.usage.input
        failed = not self.sent or refused
        outcome: CallOutcome = "answered" if self.usage.complete else "failed" if failed else "lost"
        money, price = None, ""
        if outcome == "failed":
            money = 0.0
        elif outcome == "answered":
            money, price = self.priced.cost(self.provider.name, self.question.model, self.usage)
        usage = self.usage
        return ModelCalled(
            call_id=self.call_id, author=self.lease.author, lane=self.lease.lane, provider=self.provider.name,
            endpoint=self.question.endpoint, outcome=outcome,
            model=encodable((usage.model or self.question.model)[:LONGEST_MODEL]),
            status=self.status, fresh=usage.fresh, cache_read=usage.cache_read, cache_write=usage.cache_write,
            output=usage.output, bound=self.bound.tokens, money=money, price=price[:400],
            currency=self.priced.prices.currency if money is not None else "", bound_money=self.bound.money,
            seconds=round(time.monotonic() - self.began_s, 3), request=self.request,
        )  # fmt: skip

    def lost(self) -> ModelCalled:
        """The event of the call before it is sent: what is recorded if this process is killed now."""
        return replace(self.record(), outcome="lost", money=None, currency="")
