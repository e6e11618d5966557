"""A recorded conversation behind the Messages API: a loopback server that streams one answer for each request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Block = dict[str, Any]
USAGE = {"input_tokens": 20, "cache_creation_input_tokens": 80, "cache_read_input_tokens": 400, "output_tokens": 1}


@dataclass
class Recording:
    """What the model answers, and what it was asked."""

    answers: list[list[Block]]
    asked: list[Block] = field(default_factory=list[Block])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    refuse: int = 0
    """HTTP status to answer with instead."""

    def next(self) -> list[Block]:
        """The answer to the request that came last; words at the end."""
        index = len(self.asked) - 1
        return self.answers[index] if index < len(self.answers) else [{"type": "text", "text": "nothing more"}]


def tool_use(name: str, **arguments: object) -> Block:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}


def words(text: str) -> Block:
    return {"type": "text", "text": text}


@contextmanager
def served(recording: Recording) -> Iterator[str]:
    """The address of a server that plays the recording."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            recording.asked.append(body)
            recording.headers.append({key.lower(): value for key, value in self.headers.items()})
            if recording.refuse:
                problem = {"type": "invalid_request_error", "message": "no such model"}
                self._send(recording.refuse, "application/json", json.dumps({"type": "error", "error": problem}))
            else:
                self._send(200, "text/event-stream", "".join(events(recording.next(), body["model"])))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(20)
        server.server_close()


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
    yield sent("message_delta", delta=end, usage={"output_tokens": 50})
    yield sent("message_stop")


def sent(kind: str, **body: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **body})}\n\n"
