"""The model gateway as an ASGI application: lease in, provider's key out, every call metered, limited and recorded.

A call that a session makes again is answered from what is kept, or refused (`repeats`); the provider is not called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent_loop.model_gateway.calls import Call, Priced
from agent_loop.model_gateway.prices import read_prices
from agent_loop.model_gateway.questions import ANSWER_TOKENS, Endpoint, Question, read_question
from agent_loop.model_gateway.recorded import Recorded, recorded_calls
from agent_loop.model_gateway.refusals import NO_LEASE, NOT_REACHED, UNANSWERED, refusal, too_many
from agent_loop.model_gateway.repeats import Asked, Delivery, Repeats, asked_in, set_or_left
from agent_loop.model_gateway.spending import USEFUL_TOKENS, LimitReached
from agent_loop.model_gateway.statuses import (
    BAD_GATEWAY,
    BAD_REQUEST,
    PAYMENT,
    SENT_BEFORE,
    UNAUTHORIZED,
    UNAVAILABLE,
)
from agent_loop.model_gateway.upstream import COUNT_PATH, answer_headers, count_question, open_client, request_headers
from enpire.errors import EnpireError, UsageError
from enpire.ids import mint
from enpire.service.asking import (
    CallRecords,
    ModelAnswers,
    ModelCalled,
    ModelLease,
    ModelLeases,
    RequestRate,
    pass_on,
)
from enpire.service.processes import PROVIDERS, Provider

LARGEST_QUESTION = 32 * 2**20
"""Most bytes of a question."""
END_S = 1.5
"""Seconds for the calls that run when the gateway is asked to end. What is not over then is recorded as lost."""
MOST_RUNNING = 8
"""Calls of one session at one time."""
PACE_S = 0.1
"""Seconds before a session that must wait, or has no lease, is refused, so that a flood of requests costs little."""
ROUTES: Mapping[str, tuple[str, Endpoint]] = {
    "/v1/messages": ("anthropic", "messages"),
    "/v1/chat/completions": ("openai", "chat"),
    "/v1/responses": ("openai", "responses"),
}
"""Path -> the provider that it means without a provider's name before it, and its endpoint."""


@dataclass(slots=True)
class Gateway:
    """The gateway of one home."""

    home: Path
    log: Callable[[str], None] = print
    clock: Callable[[], float] = time.monotonic
    client: httpx.AsyncClient = field(default_factory=open_client)
    campaigns: dict[str, Recorded] = field(default_factory=dict[str, Recorded])
    """Campaign -> the calls of its sessions."""
    rates: dict[tuple[str, ...], RequestRate] = field(default_factory=dict[tuple[str, ...], RequestRate])
    """(campaign, session, what it asks for) -> how often it may."""
    reading: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict[tuple[str, str], asyncio.Lock])
    """(campaign, session) -> held while a question of it is read."""
    running: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    repeated: set[str] = field(default_factory=set[str])
    """Calls that were made again, and whose log says so."""
    repeats: Repeats = field(init=False)

    def __post_init__(self) -> None:
        self.repeats = Repeats(self.home)
        pass_on(self.home)

    def app(self) -> Starlette:
        """The application."""
        routes = [Route("/left", self._left, methods=["GET"])]
        for name, provider in PROVIDERS.items():
            for path, (usual, endpoint) in ROUTES.items():
                if (endpoint == "messages") == (provider.style == "anthropic"):
                    paths = [f"/{name}{path}", *([path] if name == usual else [])]
                    routes += [Route(one, self._answering(provider, endpoint), methods=["POST"]) for one in paths]
        counting = [f"/anthropic{COUNT_PATH}", COUNT_PATH]
        routes += [Route(path, self._count, methods=["POST"]) for path in counting]
        return Starlette(routes=routes)

    async def close(self) -> None:
        """Give the calls that run END_S to end, break off the others, and close the connections."""
        if self.running:
            _, late = await asyncio.wait(self.running, timeout=END_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.client.aclose()

    def open_campaign(self, campaign_id: str) -> Recorded:
        """The calls of a campaign's sessions, from the ledger and from the records that it does not hold yet."""
        if campaign_id not in self.campaigns:
            records = CallRecords.of(self.home, campaign_id)
            records.close()
            self.campaigns[campaign_id] = recorded_calls(self.home, campaign_id, records.ended())
        return self.campaigns[campaign_id]

    def _answering(self, provider: Provider, endpoint: Endpoint) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            return await self._answer(request, provider, endpoint)

        return answer

    async def _answer(self, request: Request, provider: Provider, endpoint: Endpoint) -> Response:
        lease = self._lease(request)
        if lease is None or provider.name not in lease.providers:
            return await self._no_lease(lease, provider)
        spending = self.open_campaign(lease.campaign_id).spending
        if why := self._too_many(lease):  # before the body is read: reading a large one takes time
            return await self._later(why)
        try:
            question = await self._question(endpoint, request, lease)
            ask = await asyncio.to_thread(asked_in, lease, _token(request), provider, question, request.headers)
        except UsageError as problem:
            return refusal(BAD_REQUEST, str(problem))
        if (answer := await self._repeated(request, ask)) is not None:
            return answer
        call_id = mint()
        self.repeats.begin(ask, call_id)  # before anything is awaited: the same request made now waits for this one
        is_reserved = False
        try:
            call = await self._reserve(request, provider, ask, question, call_id)
            is_reserved = True
        except LimitReached as problem:
            spending.refused[lease.lane] = str(problem)
            return refusal(PAYMENT, str(problem))
        except EnpireError as problem:
            return refusal(UNAVAILABLE, str(problem))
        finally:
            if not is_reserved:
                self.repeats.leave(ask, call_id, is_whole=False)
                self.repeats.end(call_id)
        return await self._deliver(request, call, ask)

    async def _repeated(self, request: Request, ask: Asked) -> Response | None:
        """The answer to a call that is made again, if need be after its end, or why there is none; None: a new call."""
        earlier = self.open_campaign(ask.lease.campaign_id).earlier
        while True:
            if self._lease(request) is None:  # it may have ended meanwhile
                return refusal(UNAUTHORIZED, NO_LEASE)
            if (found := self.repeats.find(ask)) is not None:
                call_id, answer = found
                self._log_repeat(ask, call_id)
                left = partial(self.repeats.leave, ask, call_id)
                return Delivery(_one(answer.data), answer.status, answer.headers, left)
            if why := self._running_too_many(ask.lease):  # others of its session may have begun meanwhile
                return await self._later(why)
            if (over := self.repeats.runs(ask)) is None:
                why = self.repeats.refused(ask, earlier)
                return refusal(BAD_REQUEST, why, kind=SENT_BEFORE) if why else None
            if not await self.repeats.wait(ask, over, request):
                return refusal(UNAVAILABLE, "The agent left before the answer came.")

    def _log_repeat(self, ask: Asked, call_id: str) -> None:
        """Log that a call was made again; once, because an agent may make it as often as it likes."""
        if call_id not in self.repeated:
            self.repeated.add(call_id)
            self.log(f"{ask.lease.lane}: call {call_id} was made again and is answered by what is kept.")

    async def _deliver(self, request: Request, call: Call, ask: Asked) -> Response:
        """Send a call, and the answer to the agent as it arrives."""
        task = asyncio.create_task(self._run(call, dict(request.headers)))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        task.add_done_callback(lambda _: self.repeats.end(call.call_id))
        try:
            await set_or_left(call.began, request)
        finally:
            if not call.has_answer:
                self.repeats.leave(ask, call.call_id, is_whole=False)
        if not call.has_answer and call.sent:
            why = UNANSWERED.format(provider=call.provider.name, problem=call.problem, tokens=call.bound.tokens)
            return refusal(BAD_REQUEST, why, kind=SENT_BEFORE)
        if not call.has_answer:
            return refusal(BAD_GATEWAY, NOT_REACHED.format(provider=call.provider.name, problem=call.problem))
        left = partial(self.repeats.leave, ask, call.call_id)
        return Delivery(_parts(call), call.status, answer_headers(call.headers), left)

    async def _reserve(
        self, request: Request, provider: Provider, ask: Asked, question: Question, call_id: str
    ) -> Call:
        """Reserve what a call can cost, and record it, before it is sent.

        Raises:
            LimitReached: it could exceed a limit.
            EnpireError: the price file is wrong, or the disk refuses the record.
        """
        lease = ask.lease
        spending, read = self.open_campaign(lease.campaign_id).spending, question.read_bound
        prices = read_prices(self.home)[0]
        priced = Priced(prices=prices, price=prices.find(provider.name, (question.model,)))
        question = question.with_answer_limit(_answer_limit(spending.left(lease), read))
        bound = priced.bound(question, read)
        try:
            spending.reserve(lease, call_id, bound)
        except LimitReached:
            counted = 0
            if provider.style == "anthropic":
                counted = await count_question(self.client, provider, question.body, request.headers)
            if not 0 < counted < read:
                raise
            bound = priced.bound(question, counted)
            spending.reserve(lease, call_id, bound)
        call = Call(
            call_id=call_id, request=ask.request, lease=lease, provider=provider, question=question, priced=priced,
            bound=bound,
        )  # fmt: skip
        try:
            CallRecords.of(self.home, lease.campaign_id).begin(call.lost())
        except EnpireError:
            spending.release(call_id)
            raise
        return call

    async def _run(self, call: Call, headers: Mapping[str, str]) -> None:
        """Send a call; keep its answer and record what it cost, also if it breaks off, then hand out its last part."""
        try:
            await call.send(self.client, headers)
        finally:
            record = call.record()
            recorded = self.open_campaign(call.lease.campaign_id)
            recorded.earlier.note(record)
            recorded.spending.settle(record)
            try:
                self._keep(call, record)
                CallRecords.of(self.home, call.lease.campaign_id).end(record)
            except EnpireError as problem:  # the open record counts as lost; the next gateway passes it on
                self.log(f"{call.lease.lane}: the end of call {call.call_id} is not recorded: {problem}")
            finally:
                call.finish()
        if call.problem:
            self.log(f"{call.lease.lane}: call {call.call_id} of {record.model} is {record.outcome}: {call.problem}")

    def _keep(self, call: Call, record: ModelCalled) -> None:
        try:
            if answer := call.to_keep(record):
                ModelAnswers.of(self.home, call.lease.campaign_id).keep(answer)
        except (OSError, EnpireError) as problem:
            self.log(f"{call.lease.lane}: the answer to call {call.call_id} is not kept: {problem}")

    async def _count(self, request: Request) -> Response:
        """Pass on a request to count tokens, which is free."""
        provider, lease = PROVIDERS["anthropic"], self._lease(request)
        if lease is None or provider.name not in lease.providers:
            return await self._no_lease(lease, provider)
        if why := self._too_many(lease):
            return await self._later(why)
        try:
            question = await self._question("messages", request, lease)
            headers = request_headers(provider, request.headers)
            url = provider.address + COUNT_PATH
            answer = await self.client.post(url, content=question.data(), headers=headers)
        except UsageError as problem:
            return refusal(BAD_REQUEST, str(problem))
        except httpx.HTTPError as problem:
            return refusal(BAD_GATEWAY, f"The provider {provider.name} did not count the tokens: {problem}. Ask again.")
        return Response(answer.content, answer.status_code, answer_headers(answer.headers))

    async def _left(self, request: Request) -> Response:
        """Tokens that the session may still spend, and why its last call was refused, if a limit refused it."""
        lease = self._lease(request)
        if lease is None:
            return await self._no_lease(lease, PROVIDERS["anthropic"])
        if not self._is_allowed(lease, "left"):
            return await self._later("This session asks too often what is left; ask at most 120 times a minute.")
        spending = self.open_campaign(lease.campaign_id).spending
        return JSONResponse({"tokens": spending.left(lease), "refused": spending.refused.get(lease.lane, "")})

    async def _no_lease(self, lease: ModelLease | None, provider: Provider) -> Response:
        await asyncio.sleep(PACE_S)
        if lease is None:
            return refusal(UNAUTHORIZED, NO_LEASE)
        named = ", ".join(lease.providers)
        return refusal(UNAUTHORIZED, f"The lease of this session is not for {provider.name}; it is for {named}.")

    async def _later(self, why: str) -> Response:
        await asyncio.sleep(PACE_S)
        return too_many(why)

    def _lease(self, request: Request) -> ModelLease | None:
        token = _token(request)
        return ModelLeases(self.home).find(token) if token else None

    async def _question(self, endpoint: Endpoint, request: Request, lease: ModelLease) -> Question:
        """Read a question; one of a session at a time, in a thread, so that a large one holds up its own session only.

        Raises:
            UsageError: as `read_question`, or it is too large.
        """
        async with self.reading.setdefault((lease.campaign_id, lease.lane), asyncio.Lock()):
            return await asyncio.to_thread(read_question, endpoint, await _body(request))

    def _is_allowed(self, lease: ModelLease, what: str) -> bool:
        """Count a request of a session; False if it sends more than the rate allows."""
        key = lease.campaign_id, lease.lane, what
        rate = self.rates.setdefault(key, RequestRate(self.clock))
        if not rate.allowed():
            return False
        rate.take()
        return True

    def _too_many(self, lease: ModelLease) -> str:
        """Why a session must wait; empty if it need not."""
        if why := self._running_too_many(lease):
            return why
        if not self._is_allowed(lease, "calls"):
            return "This session sends too many requests; send at most 120 a minute."
        return ""

    def _running_too_many(self, lease: ModelLease) -> str:
        if (busy := self.repeats.busy(lease)) < MOST_RUNNING:
            return ""
        return f"{busy} calls of this session run; at most {MOST_RUNNING} may run at one time: wait for one to end."


def _token(request: Request) -> str:
    token = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    return token.strip()


def _answer_limit(left: int | None, read: int) -> int:
    """Most tokens of an answer to a question without a limit of its own."""
    return ANSWER_TOKENS if left is None else max(USEFUL_TOKENS, min(ANSWER_TOKENS, left - read))


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > LARGEST_QUESTION:
            raise UsageError(f"The request has more than {LARGEST_QUESTION >> 20} MiB, the most that is sent on.")
    return bytes(data)


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _parts(call: Call) -> AsyncIterator[bytes]:
    while (part := await call.parts.get()) is not None:
        yield part
    if call.problem:
        raise ConnectionError(call.problem)  # the agent sees a broken connection, not an end
