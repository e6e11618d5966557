"""A recorded conversation behind the Messages API: a loopback server that streams one answer for each request."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.loopback_server import answering

Block = dict[str, Any]
SILENCE_S = 1.0
USAGE = {"input_tokens": 20, "cache_creation_input_tokens": 80, "cache_read_input_tokens": 400, "output_tokens": 1}
READ, SAID = 500, 50
"""Tokens that the API reads and answers in every call."""


@dataclass
class Recording:
    """What the model answers, and what it was asked. Beside it, the recording plays the model gateway's limit."""

    answers: list[list[Block]]
    asked: list[Block] = field(default_factory=list[Block])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    tokens: int | None = None
    """What the session may spend, as the model gateway tells and holds it; None: no limit."""
    spent: int = 0
    silent: int = 0
    """Questions for what is left that get no answer, as from a gateway that starts again."""
    lease_over: bool = False
    """Whether the lease of the session is over."""
    refuse: int = 0
    """HTTP status to answer with instead."""
    spoilt: dict[int, int | str] = field(default_factory=dict[int, "int | str"])
    """Which requests go wrong, counted from 0: an HTTP status; or overloaded, cut, nonsense, silent, sent_before."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Answers wait until it is set."""

    def __post_init__(self) -> None:
        """Nothing waits, unless a test says so."""
        self.gate.set()

    @property
    def left(self) -> int | None:
        """Tokens that the session may still spend."""
        return None if self.tokens is None else self.tokens - self.spent

    def refusal(self, body: Block) -> str:
        """Why the limit refuses a request; empty if it does not."""
        over = self.left is not None and READ + body["max_tokens"] > self.left
        return f"The call is not sent: {self.left} are left." if over else ""

    def next(self) -> list[Block]:
        """The answer to the request that came last; words at the end. A request that went wrong uses none up."""
        index = len(self.asked) - 1 - sum(request < len(self.asked) - 1 for request in self.spoilt)
        return self.answers[index] if index < len(self.answers) else [{"type": "text", "text": "nothing more"}]


def tool_use(name: str, **arguments: object) -> Block:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}


def words(text: str) -> Block:
    return {"type": "text", "text": text}


class Handler(BaseHTTPRequestHandler):
    """Plays a recording."""

    recording: Recording

    def do_GET(self) -> None:
        self.recording.silent -= 1
        left = {"tokens": self.recording.left, "refused": ""}
        if self.recording.lease_over:
            self._send(401, "application/json", json.dumps({"type": "error", "error": {"message": "It is over."}}))
            return
        self._send(200, "application/json", "" if self.recording.silent >= 0 else json.dumps(left))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.startswith("/v1/messages/count_tokens") and not self.recording.refuse:
            self._send(200, "application/json", json.dumps({"input_tokens": READ}))
        else:
            self._answer(body)

    def _answer(self, body: Block) -> None:
        if why := self.recording.refusal(body):
            self._send(402, "application/json", json.dumps({"type": "error", "error": {"message": why}}))
            return
        self.recording.asked.append(body)
        self.recording.headers.append({key.lower(): value for key, value in self.headers.items()})
        fault = self.recording.spoilt.get(len(self.recording.asked) - 1, self.recording.refuse)
        if fault == "sent_before":
            problem = {"type": fault, "message": "It was sent before."}
            self._send(400, "application/json", json.dumps({"type": "error", "error": problem}))
        elif isinstance(fault, int) and fault:
            problem = {"type": "invalid_request_error", "message": "no such model"}
            self._send(fault, "application/json", json.dumps({"type": "error", "error": problem}))
        else:
            self.recording.spent += READ + SAID
            self._stream("".join(events(self.recording.next(), body["model"])), str(fault or ""))

    def _stream(self, text: str, fault: str) -> None:
        self.recording.gate.wait(300)
        if fault == "silent":
            time.sleep(SILENCE_S)
        elif fault == "cut":
            self._send(200, "text/event-stream", text[: len(text) // 2], length=len(text.encode()))
            return
        self._send(200, "text/event-stream", spoilt(text, fault))

    def _send(self, status: int, kind: str, text: str, length: int = 0) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(length or len(data)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.close_connection = bool(length)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client stopped waiting
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(recording: Recording) -> Iterator[str]:
    """The address of a server that plays the recording."""
    with answering(type("PlayingHandler", (Handler,), {"recording": recording})) as address:
        yield address


def spoilt(text: str, fault: str) -> str:
    """What the API sends of an answer that goes wrong in its middle."""
    if fault == "overloaded":
        problem = {"type": "overloaded_error", "message": "too many people ask"}
        return text[: text.index("event: content_block_start")] + sent("error", error=problem)
    return text.replace('"delta"', '"other"', 1) if fault == "nonsense" else text


def events(blocks: list[Block], model: str) -> Iterator[str]:
    """One answer as the API streams it."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": USAGE}  # fmt: skip
    yield sent("message_start", message=message)
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield sent("content_block_start", index=index, content_block=begun)
        yield sent("content_block_delta", index=index, delta=delta)
        yield sent("content_block_stop", index=index)
    uses = any(block["type"] == "tool_use" for block in blocks)
    end = {"stop_reason": "tool_use" if uses else "end_turn", "stop_sequence": None}
    yield sent("message_delta", delta=end, usage={"output_tokens": SAID})
    yield sent("message_stop")


def sent(kind: str, **body: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **body})}\n\n"
