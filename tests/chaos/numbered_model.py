"""A language model on the loopback that counts its calls: each answer names its number as the model's name."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.agent_loop.recorded_model import READ, Block, events, tool_use, words
from tests.fakes.loopback_server import answering

ANSWER_S = 1.0
"""Seconds that the model takes for an answer, so that many kills come during a call."""


@dataclass
class NumberedModel:
    """A model that posts a conclusion with the number of the call, and then ends the turn."""

    asked: list[Block] = field(default_factory=list[Block])
    """What each call asked; its number is the place in this list, from 1."""
    running: Counter[str] = field(default_factory=Counter[str])
    """Agent session -> calls that wait for their answer."""
    _one: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, question: Block) -> str:
        """The answer to a question, as the API streams it, after ANSWER_S."""
        brief = json.loads(question["messages"][0]["content"][0]["text"])
        with self._one:
            self.asked.append(question)
            number = len(self.asked)
            self.running[brief["lane"]] += 1
        time.sleep(ANSWER_S)
        with self._one:
            self.running[brief["lane"]] -= 1
        begins = not used_tools(question)
        blocks = [tool_use("post_finding", text=f"of call {number}")] if begins else [words("This turn is over.")]
        return "".join(events(blocks, f"model-{number}"))

    def names(self) -> Sequence[str]:
        """The name in the answer to each call."""
        return [f"model-{number}" for number in range(1, len(self.asked) + 1)]


def used_tools(question: Block) -> Sequence[Block]:
    """The calls of tools that the model made before in this conversation."""
    said = [one for message in question["messages"] if message["role"] == "assistant" for one in message["content"]]
    return [one for one in said if one["type"] == "tool_use"]


@contextmanager
def served(model: NumberedModel) -> Iterator[str]:
    """The address at which the model answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.startswith("/v1/messages/count_tokens"):
                self._send("application/json", json.dumps({"input_tokens": READ}))
            else:
                self._send("text/event-stream", model.answer(body))

        def _send(self, kind: str, text: str) -> None:
            data = text.encode()
            with suppress(BrokenPipeError, ConnectionResetError):  # the gateway was killed
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with answering(Handler) as address:
        yield address
