"""A language model behind the Messages API: complete answers or a clear error.

The model gateway counts every call and refuses what a limit does not allow. Before an answer begins, the API client
itself retries (rate limit, server error, no connection, timeout). This module retries an answer that began and then
broke off, or that is malformed. A retry is the same call, so that the gateway gives the answer that it kept, and sends
no call twice. Only an answer that the gateway gave whole, and that is malformed, is asked for as a new call.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from agent_loop.agent_context import AgentContext
from agent_loop.agents.gateway_budget import LeaseRefused, NoGateway, gateway_budget, refusal_of
from agent_loop.model_gateway.statuses import PAYMENT, SENT_BEFORE, UNAUTHORIZED
from enpire.errors import EnpireError, UsageError

if TYPE_CHECKING:
    from anthropic import Anthropic as Client
    from anthropic.lib.streaming import MessageStream

ATTEMPTS = 4
"""Retries of the API client before an answer begins."""
RETRY_DELAYS_S = (0.1, 0.5, 2.0)
"""Seconds before each retry of an answer that broke off."""
GATEWAY_DELAYS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before the model gateway, which may be starting again, is asked once more what is left."""
USEFUL_TOKENS = 256
"""Fewest tokens for an answer. With less budget left, the model gateway refuses the call."""
COUNT_MARGIN = 1.05
"""The token count of the API is an estimate; the real count may be slightly higher."""
MALFORMED = (ValueError, TypeError, RuntimeError, LookupError, AttributeError, AssertionError)
"""Exceptions that the client raises when an answer does not follow the API."""
Block = dict[str, Any]


class ModelProblem(EnpireError):
    """The language model cannot be reached, refuses, or gives no complete answer."""


class Refused(EnpireError):
    """The model gateway does not send a question, because a limit of the campaign or of the session is reached."""


class OutcomeUnknown(EnpireError):
    """The question was sent before, and its answer is not there. It may have been paid, and is not sent again."""


class BrokenOff(Exception):
    """An answer began and did not end, or was malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One complete answer of the model."""

    blocks: list[Block]
    """Content blocks, in the form that the next request sends back."""
    uses_tools: bool
    """Whether the model asks for tool calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The constant part of every call of a conversation."""

    model: str
    system: str
    tools: list[dict[str, object]]
    answer_tokens: int
    """Most tokens of one answer."""
    answer_s: float
    """Seconds without a received byte after which an answer counts as lost."""


class Model:
    """One model, reached through the model gateway with a lease; the key is in the gateway's process alone."""

    def __init__(self, question: Question, context: AgentContext) -> None:
        self._question, self._context = question, context
        self._client = _client(question.answer_s, context)
        self._malformed: Counter[str] = Counter()
        """Call -> times that its answer was malformed. The second time it was the one that the gateway keeps."""

    def use_tools(self, tools: list[dict[str, object]]) -> None:
        """Offer these tools from the next call on."""
        self._question = replace(self._question, tools=tools)

    def ask(self, messages: list[Block], question_id: str) -> Answer:
        """The answer to a conversation.

        `question_id` is the same when a process that was started again asks the same: the model gateway then gives the
        answer that was paid for.

        Raises:
            Refused: a limit does not allow the call.
            OutcomeUnknown: the call was sent before, and its answer is lost.
            ModelProblem: the model does not answer, or no answer was complete.
            NoGateway: the model gateway cannot be reached.
            LeaseRefused: the lease of the session is over.
        """
        delays = list(RETRY_DELAYS_S)
        while True:
            try:
                return self._streamed(messages, self._longest_answer(messages), question_id)
            except BrokenOff as broken:
                if not delays:
                    raise ModelProblem(
                        f"The model {self._question.model} gave no complete answer: {broken}"
                    ) from broken
                time.sleep(delays.pop(0))

    def _longest_answer(self, messages: list[Block]) -> int:
        """Tokens of the longest answer: what the limits leave. Also with too little left, the gateway is asked.

        It may hold an answer that was paid for already; else it refuses the call.
        """
        most, left = self._question.answer_tokens, self._left()
        return most if left is None else max(min(most, USEFUL_TOKENS), min(most, left - self._count(messages)))

    def _left(self) -> int | None:
        """Tokens that the next call may cost; None without a limit."""
        for delay_s in GATEWAY_DELAYS_S:
            try:
                return gateway_budget(self._context).tokens
            except NoGateway:
                time.sleep(delay_s)
        return gateway_budget(self._context).tokens

    def _count(self, messages: list[Block]) -> int:
        """Input tokens of the next call, counted by the API; the count is free of charge."""
        import anthropic
        import httpx2

        asked = self._question
        try:
            counted = self._client.messages.count_tokens(
                model=asked.model, system=asked.system, tools=cast("Any", asked.tools), messages=cast("Any", messages)
            )  # fmt: skip
            return math.ceil(COUNT_MARGIN * counted.input_tokens)
        except (anthropic.AnthropicError, httpx2.HTTPError, *MALFORMED) as problem:
            why = f"The model {asked.model} did not count a question: {problem}"
            raise _refusal(problem) or ModelProblem(why) from problem

    def _streamed(self, messages: list[Block], most: int, question_id: str) -> Answer:
        """Stream one answer. The API caches the tools, the system prompt and the conversation so far."""
        import anthropic
        import httpx2

        asked, began, call = self._question, False, self._call(question_id)
        system = [{"type": "text", "text": asked.system, "cache_control": {"type": "ephemeral"}}]
        try:
            with self._client.messages.stream(
                model=asked.model, max_tokens=most, system=cast("Any", system),
                tools=cast("Any", asked.tools), messages=cast("Any", cached(messages)),
                extra_headers={"idempotency-key": call},
            ) as stream:  # fmt: skip
                began = True
                return _received(stream)
        except (anthropic.AnthropicError, httpx2.HTTPError, *MALFORMED) as problem:
            if began:
                self._malformed[call] += isinstance(problem, MALFORMED)
                raise BrokenOff(str(problem)) from problem
            raise _refusal(problem) or ModelProblem(f"The model {asked.model} did not answer: {problem}") from problem

    def _call(self, question_id: str) -> str:
        """The name of the call: another one where the answer that the gateway keeps is malformed."""
        number = 0
        while self._malformed[f"{question_id}-{number}"] > 1:
            number += 1
        return f"{question_id}-{number}"


def cached(messages: list[Block]) -> list[Block]:
    """The conversation with a cache mark on its last block, so that the next call reads it from the cache."""
    *before, last = messages
    *content, end = last["content"]
    return [*before, {**last, "content": [*content, {**end, "cache_control": {"type": "ephemeral"}}]}]


def _received(stream: MessageStream[Any]) -> Answer:
    """Read an answer to its end.

    Raises:
        ValueError: the answer is incomplete, or a block is malformed.
    """
    message = stream.get_final_message()
    if message.stop_reason is None:
        raise ValueError("it broke off.")
    return Answer(blocks=list(_valid(message.content)), uses_tools=message.stop_reason == "tool_use")


def _valid(blocks: Iterable[Any]) -> Iterable[Block]:
    """The blocks in the form that the API accepts back: without empty text."""
    for block in blocks:
        names = [block.id, block.name] if block.type == "tool_use" else []
        if not all(isinstance(name, str) for name in names) or (names and not isinstance(block.input, dict)):
            raise ValueError("a tool call has no name, or no named arguments.")
        if block.type != "text" or block.text.strip():
            yield block.to_dict()


def _refusal(problem: Exception) -> EnpireError | None:
    """What the model gateway itself refused; None for any other problem."""
    status, (kind, why) = getattr(problem, "status_code", 0), refusal_of(getattr(problem, "body", None))
    if kind == SENT_BEFORE:
        return OutcomeUnknown(why)
    refused = {UNAUTHORIZED: LeaseRefused, PAYMENT: Refused}.get(status)
    return refused(why or str(problem)) if refused else None


def _client(answer_s: float, context: AgentContext) -> Client:
    import anthropic

    if not context.models:
        raise UsageError("The agent anthropic needs the model gateway: start it by `enpire run` or `enpire agent run`.")
    return anthropic.Anthropic(
        api_key=context.lease, base_url=context.models, max_retries=ATTEMPTS, timeout=answer_s
    )  # fmt: skip
