"""A provider of language models on the loopback: each request gets the next answer of a script."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.loopback_server import answering


@dataclass
class Answer:
    """One answer: a JSON document, or the events of a stream."""

    document: dict[str, Any] = field(default_factory=dict[str, Any])
    events: tuple[dict[str, Any], ...] = ()
    status: int = 200
    cut: bool = False
    """Whether the connection breaks in the middle."""
    silent: bool = False
    """Whether the connection ends before the answer begins."""
    waits: threading.Event | None = None
    """Set by the test when the answer may come."""

    def data(self) -> tuple[str, bytes]:
        """Content type and body."""
        if not self.events:
            return "application/json", json.dumps(self.document).encode()
        lines = [f"event: {item.get('type', 'message')}\ndata: {json.dumps(item)}\n\n" for item in self.events]
        return "text/event-stream", "".join(lines).encode()


@dataclass
class Script:
    """What the provider answers, and what it was asked."""

    answers: list[Answer]
    counts: int = 0
    """What it counts for a question; 0: it refuses to count."""
    counted: threading.Event | None = None
    """Set by the test when it may count."""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """The address of the provider."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("count_tokens"):
                if script.counted is not None:
                    script.counted.wait(60)
                status = 200 if script.counts else 404
                self._send(status, "application/json", json.dumps({"input_tokens": script.counts}).encode())
                return
            script.asked.append(body)
            script.paths.append(self.path)
            script.headers.append({key.lower(): value for key, value in self.headers.items()})
            answer = script.answers[len(script.asked) - 1]
            script.arrived.release()
            if answer.waits is not None:
                answer.waits.wait(60)
            self.close_connection = True
            if answer.silent:
                return
            kind, data = answer.data()
            self._send(answer.status, kind, data[: len(data) // 2] if answer.cut else data, len(data))

        def _send(self, status: int, kind: str, data: bytes, length: int = 0) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(length or len(data)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with answering(Handler) as address:
        yield address


def messages(usage: dict[str, Any], **more: object) -> dict[str, Any]:
    """A whole answer of the Messages API."""
    content = [{"type": "text", "text": "yes"}]
    return {"type": "message", "role": "assistant", "model": "a-model-1", "content": content, "usage": usage, **more}


def streamed_messages(start: dict[str, Any], end: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """A streamed answer of the Messages API, with its first and its last count."""
    return (
        {"type": "message_start", "message": {"model": "a-model-1", "usage": start}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "yes"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end},
        {"type": "message_stop"},
    )
