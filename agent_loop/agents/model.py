"""A language model behind the Messages API: whole answers or a clear sentence, and what every call cost.

Until an answer begins, the client itself asks again (too many requests, a fault of the server, no connection, no byte
for too long). An answer that began and then broke off, or that makes no sense, is asked for again here.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from enpire.errors import EnpireError, UsageError

if TYPE_CHECKING:
    from anthropic import Anthropic as Client
    from anthropic.lib.streaming import MessageStream
    from anthropic.types import Usage

KEY = "ANTHROPIC_API_KEY"
ATTEMPTS = 4
"""How often the client asks again before an answer begins."""
PAUSES_S = (0.5, 2.0)
"""Seconds before an answer that broke off is asked for again."""
USEFUL_TOKENS = 256
"""An answer that may not be this long is not asked for."""
COUNT_MARGIN = 1.05
"""The API calls its count of a question an estimate that a call may differ from by a little."""
NONSENSE = (ValueError, TypeError, RuntimeError, LookupError, AttributeError, AssertionError)
"""What the client raises while it reads an answer that is not as the API promises."""
Block = dict[str, Any]


class ModelProblem(EnpireError):
    """The language model cannot be reached, refuses, or gives no whole answer."""


class BudgetSpent(EnpireError):
    """What is left of the tokens is not enough for the next question and a useful answer."""


class BrokenOff(Exception):
    """An answer began and did not end, or made no sense."""


@dataclass(slots=True)
class Cost:
    """Tokens of one call, as the API counted them so far."""

    began: bool = False
    """Whether the API took the question: from then on, what goes wrong may go right the next time."""
    model: str = ""
    fresh: int = 0
    cached: int = 0
    output: int = 0

    def count(self, usage: Usage) -> None:
        """Take the counts of an answer, which are totals."""
        self.fresh = int(usage.input_tokens or 0) + int(usage.cache_creation_input_tokens or 0)
        self.cached = int(usage.cache_read_input_tokens or 0)
        self.output = int(usage.output_tokens or 0)

    @property
    def total(self) -> int:
        """All sorts."""
        return self.fresh + self.cached + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said."""

    blocks: list[Block]
    """As the API takes them back in the next request."""
    uses_tools: bool
    """Whether it ended to let its tools be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What stays the same in every call of a conversation."""

    model: str
    system: str
    tools: list[dict[str, object]]
    answer_tokens: int
    """Of one answer at most."""
    answer_s: float
    """Seconds without a byte after which an answer counts as lost."""


class Model:
    """One model; the key is read from the environment by the client, and kept nowhere."""

    def __init__(self, question: Question, spent: Callable[[Mapping[str, object]], object]) -> None:
        """`spent` is told of every call: fresh, cached and output tokens, and the model."""
        self._question, self._spent = question, spent
        self._client = _client(question.answer_s)

    def ask(self, messages: list[Block], left: int) -> tuple[Answer, int]:
        """The answer to a conversation, and the tokens that it cost with every attempt: at most `left`.

        Raises:
            BudgetSpent: `left` does not hold the question and a useful answer.
            ModelProblem: the model does not answer, or never to the end.
        """
        cost, pauses, read = 0, list(PAUSES_S), self._count(messages)
        while True:
            call, room = Cost(), left - cost - read
            if room < min(self._question.answer_tokens, USEFUL_TOKENS):
                raise BudgetSpent(f"{left - cost} are left, and the next question alone has about {read}")
            try:
                answer = self._streamed(messages, room, call)
                return answer, cost + self._account(call)
            except BrokenOff as broken:
                cost += self._account(call)
                if not pauses:
                    raise ModelProblem(f"The model {self._question.model} gave no whole answer: {broken}") from broken
                time.sleep(pauses.pop(0))

    def _count(self, messages: list[Block]) -> int:
        """Tokens that the API will read for the next answer; asking for the count is free of charge."""
        import anthropic
        import httpx2

        asked = self._question
        try:
            counted = self._client.messages.count_tokens(
                model=asked.model, system=asked.system, tools=cast("Any", asked.tools), messages=cast("Any", messages)
            )  # fmt: skip
            return math.ceil(COUNT_MARGIN * counted.input_tokens)
        except (anthropic.AnthropicError, httpx2.HTTPError, *NONSENSE) as problem:
            raise ModelProblem(f"The model {asked.model} did not count a question: {problem}") from problem

    def _streamed(self, messages: list[Block], room: int, call: Cost) -> Answer:
        """One streamed answer; tools, system and the conversation so far are cached by the API."""
        import anthropic
        import httpx2

        asked = self._question
        system = [{"type": "text", "text": asked.system, "cache_control": {"type": "ephemeral"}}]
        try:
            with self._client.messages.stream(
                model=asked.model, max_tokens=min(asked.answer_tokens, room), system=cast("Any", system),
                tools=cast("Any", asked.tools), messages=cast("Any", cached(messages)),
            ) as stream:  # fmt: skip
                call.began = True
                return _received(stream, call)
        except (anthropic.AnthropicError, httpx2.HTTPError, *NONSENSE) as problem:
            if call.began:
                raise BrokenOff(str(problem)) from problem
            raise ModelProblem(f"The model {asked.model} did not answer: {problem}") from problem

    def _account(self, call: Cost) -> int:
        """Tell the lab what a call cost; of an answer that broke off, what it had said so far."""
        if call.total:
            said = {"fresh": call.fresh, "cached": call.cached, "output": call.output, "model": call.model}
            self._spent(said)
        return call.total


def cached(messages: list[Block]) -> list[Block]:
    """The conversation with a cache mark on its last block, so that the next call reads all of it from the cache."""
    *before, last = messages
    *content, end = last["content"]
    return [*before, {**last, "content": [*content, {**end, "cache_control": {"type": "ephemeral"}}]}]


def _received(stream: MessageStream[Any], call: Cost) -> Answer:
    """Read an answer to its end, counting as it goes.

    Raises:
        ValueError: it ended before its end, or a block is none.
    """
    for event in stream:
        if event.type == "message_start":
            call.model = str(event.message.model)
            call.count(event.message.usage)
    message = stream.get_final_message()
    call.count(message.usage)
    if message.stop_reason is None:
        raise ValueError("it broke off before its end.")
    return Answer(blocks=list(_sound(message.content)), uses_tools=message.stop_reason == "tool_use")


def _sound(blocks: Iterable[Any]) -> Iterable[Block]:
    """The blocks as the API takes them back: none without words."""
    for block in blocks:
        names = [block.id, block.name] if block.type == "tool_use" else []
        if not all(isinstance(name, str) for name in names) or (names and not isinstance(block.input, dict)):
            raise ValueError("it uses a tool without its name, or without named arguments.")
        if block.type != "text" or block.text.strip():
            yield block.to_dict()


def _client(answer_s: float) -> Client:
    import anthropic

    key = os.environ.get(KEY)
    if not key:
        raise UsageError(f"The agent anthropic needs a key: set {KEY} for `enpire run`, or use the agent search.")
    return anthropic.Anthropic(api_key=key, max_retries=ATTEMPTS, timeout=answer_s)
