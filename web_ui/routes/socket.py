"""The WebSocket of a browser tab: it subscribes to topics and receives a snapshot of each, then deltas.

Client: {"subscribe": ["fleet", "campaign/ID"], "unsubscribe": [...]}. Server, as text:
{"topic", "kind": "snapshot" | "delta", "seq", "at_ms", "body"}; `seq` rises by one per message of a topic, a delta is a
JSON merge patch (RFC 7396). The heartbeat {"kind": "beat", "at_ms", "lab_s"} is sent at least once a second; `lab_s` is
the age of the lab's newest state in seconds, so that the page can show a lab that hangs. {"kind": "problem", "detail",
"topics"} answers an invalid message (no topics), or names the topics beyond the limit of one tab. Live images are
binary: two bytes of length (big endian), that many bytes of JSON {"topic", "age_ms"}, then the JPEG. When a camera has
no image, its topic has a document with the reason: {"why"}.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from dataclasses import dataclass, field
from typing import cast

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from enpire.service.watching import Preview
from web_ui.auth import find_caller
from web_ui.documents import Json, delta
from web_ui.hub import Hub
from web_ui.live import LiveCameras, LiveLab

router = APIRouter()
TOPIC = re.compile(r"fleet|commands|tasks|campaign/[\w.:-]{1,80}|camera/[\w.:-]{1,80}/[\w.:-]{1,80}")
MOST_TOPICS = 32
LONGEST_MESSAGE = 8192
HEARTBEAT_S = 1.0
"""Longest time between two messages, in seconds."""
CHECK_S = 2.0
"""Seconds between checks of the session; the connection of a revoked session is closed within this time."""


@dataclass(slots=True)
class TopicState:
    """The state of one topic that this client has."""

    seq: int = 0
    version: int = 0
    body: Json = field(default_factory=dict)
    picture: bytes = b""


@router.websocket("/socket")
async def socket(websocket: WebSocket) -> None:
    """Serve one tab. Closes with 4401 when the client is not signed in."""
    if find_caller(websocket) is None:
        await websocket.close(4401, "Sign in first.")
        return
    await websocket.accept()
    connection = Connection(websocket, cast(Hub, websocket.app.state.hub), cast(LiveLab, websocket.app.state.live))
    sender = asyncio.create_task(connection.send())
    try:
        await connection.listen()
    except WebSocketDisconnect:
        return
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
        connection.leave()


class Connection:
    """One connection with its subscriptions. A slow client gets the newest documents, not every one."""

    def __init__(self, websocket: WebSocket, hub: Hub, live: LiveLab) -> None:
        self._websocket = websocket
        self._hub = hub
        self._live = live
        self._topics: dict[str, TopicState] = {}
        self._event = hub.join()
        self._replies: list[Json] = []

    async def listen(self) -> None:
        """Handle the client's messages until it disconnects."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            problem = self._handle(message.get("text"))
            if problem:
                self._replies.append({"kind": "problem", "detail": problem, "topics": []})
            self._event.set()

    async def send(self) -> None:
        """Send changes and heartbeats until the connection ends."""
        checked_s = heartbeat_s = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._event.wait(), self._pause_s())
            self._event.clear()
            if time.monotonic() > checked_s + CHECK_S:
                checked_s = time.monotonic()
                if find_caller(self._websocket) is None:
                    await self._websocket.close(4401, "The session has ended.")
                    return
            sent = await self._send_all()
            if not sent or time.monotonic() > heartbeat_s + HEARTBEAT_S:
                heartbeat_s = time.monotonic()
                heartbeat = {"kind": "beat", "at_ms": _now_ms(), "lab_s": self._hub.lab_age_s()}
                await self._websocket.send_text(json.dumps(heartbeat))

    def leave(self) -> None:
        """Remove the connection from the hub."""
        self._hub.leave(self._event, set(self._topics))

    def _pause_s(self) -> float:
        return 0.2 if any(topic.startswith("camera/") for topic in self._topics) else HEARTBEAT_S

    async def _send_all(self) -> int:
        replies, self._replies = self._replies, []
        for reply in replies:
            await self._websocket.send_text(json.dumps(reply))
        sent = len(replies)
        for topic, state in list(self._topics.items()):
            if topic.startswith("camera/"):
                sent += await self._send_picture(topic, state)
            else:
                sent += await self._send_document(topic, state)
        return sent

    async def _send_document(self, topic: str, state: TopicState) -> bool:
        newest = self._hub.newest(topic)
        if newest is None or newest.version == state.version:
            return False
        state.version = newest.version
        return await self._send_body(topic, state, newest.body)

    async def _send_body(self, topic: str, state: TopicState, newest: Json) -> bool:
        """Send a document, unless the client has it already."""
        first = state.seq == 0
        if not first and newest == state.body:
            return False
        body = newest if first else delta(state.body, newest)
        state.seq, state.body = state.seq + 1, newest
        kind = "snapshot" if first else "delta"
        message = {"topic": topic, "kind": kind, "seq": state.seq, "at_ms": _now_ms(), "body": body}
        await self._websocket.send_text(json.dumps(message, separators=(",", ":")))
        return True

    async def _send_picture(self, topic: str, state: TopicState) -> bool:
        _, station, camera = topic.split("/")
        newest = self._live.picture(station, camera) if isinstance(self._live, LiveCameras) else Preview()
        if newest.why:
            return await self._send_body(topic, state, {"why": newest.why})
        if not newest.jpeg or newest.jpeg is state.picture:
            return False
        state.picture, state.body = newest.jpeg, {}  # an image clears the reason; the same reason may come again
        head = json.dumps({"topic": topic, "age_ms": round(1e3 * newest.age_s)}).encode()
        await self._websocket.send_bytes(len(head).to_bytes(2, "big") + head + newest.jpeg)
        return True

    def _handle(self, text: str | None) -> str:
        """Apply a message of the client; returns one sentence when it is invalid, else an empty text."""
        if text is None or len(text) > LONGEST_MESSAGE:
            return f"A message is text of at most {LONGEST_MESSAGE} characters."
        try:
            change = json.loads(text)
        except (ValueError, RecursionError):
            return "A message is a JSON object."
        if not isinstance(change, dict) or not change or set(change) - {"subscribe", "unsubscribe"}:
            return "A message has the keys subscribe and unsubscribe, each a list of topics."
        for topics in change.values():
            if not isinstance(topics, list) or not all(
                isinstance(item, str) and TOPIC.fullmatch(item) for item in topics
            ):
                return "A topic is fleet, commands, tasks, campaign/ID or camera/STATION/NAME."
        self._change(cast("dict[str, list[str]]", change))
        return ""

    def _change(self, change: dict[str, list[str]]) -> None:
        refused: list[Json] = []
        for topic in change.get("unsubscribe", []):
            if self._topics.pop(topic, None) is not None:
                self._hub.unsubscribe(topic)
        for topic in change.get("subscribe", []):
            if topic not in self._topics and len(self._topics) >= MOST_TOPICS:
                refused.append(topic)
                continue
            if topic not in self._topics:
                self._hub.subscribe(topic)
            self._topics[topic] = TopicState()
        if refused:
            detail = f"At most {MOST_TOPICS} topics at a time, live images included; close another view first."
            self._replies.append({"kind": "problem", "detail": detail, "topics": refused})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
