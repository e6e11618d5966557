"""The one socket of a tab: it subscribes to topics and is sent a snapshot of each, then deltas.

Client: {"subscribe": ["fleet", "campaign/ID"], "unsubscribe": [...]}. Server, as text:
{"topic", "kind": "snapshot" | "delta", "seq", "at_ms", "body"}; `seq` rises by one per message of a topic, a delta is a
JSON merge patch (RFC 7396). {"kind": "beat", "at_ms", "lab_s"} at least once a second; `lab_s` is the age of the lab's
newest state, so that a lab that hangs behind a server that lives is not shown as live. {"kind": "problem", "detail",
"topics"} for what was not understood (no topics), or for topics beyond the most that one tab may have. Pictures are
binary: two bytes of length (big endian), that many bytes of JSON {"topic"}, the JPEG; where a camera gives none, its
topic has a document with the reason: {"why"}.
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
TOPIC = re.compile(r"fleet|commands|campaign/[\w.:-]{1,80}|camera/[\w.:-]{1,80}/[\w.:-]{1,80}")
MOST_TOPICS = 32
LONGEST_MESSAGE = 8192
BEAT_S = 1.0
CHECK_S = 2.0
"""How often the session is looked at again: a revoked one loses its socket within this time."""


@dataclass(slots=True)
class Sent:
    """What this client has of one topic."""

    seq: int = 0
    version: int = 0
    body: Json = field(default_factory=dict)
    picture: bytes = b""


@router.websocket("/socket")
async def socket(websocket: WebSocket) -> None:
    """One tab. 4401 when nobody is signed in."""
    if find_caller(websocket) is None:
        await websocket.close(4401, "Sign in first.")
        return
    await websocket.accept()
    line = Line(websocket, cast(Hub, websocket.app.state.hub), cast(LiveLab, websocket.app.state.live))
    sender = asyncio.create_task(line.send())
    try:
        await line.listen()
    except WebSocketDisconnect:
        return
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
        line.leave()


class Line:
    """One connection: what it wants, what it was sent. A slow client gets the newest state, not every one."""

    def __init__(self, websocket: WebSocket, hub: Hub, live: LiveLab) -> None:
        self._websocket = websocket
        self._hub = hub
        self._live = live
        self._topics: dict[str, Sent] = {}
        self._event = hub.watch()
        self._replies: list[Json] = []

    async def listen(self) -> None:
        """Read what the client wants until it goes."""
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            problem = self._understand(message.get("text"))
            if problem:
                self._replies.append({"kind": "problem", "detail": problem, "topics": []})
            self._event.set()

    async def send(self) -> None:
        """Send what changed, or a beat; ends with the connection."""
        checked_s = beaten_s = time.monotonic()
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
            if not sent or time.monotonic() > beaten_s + BEAT_S:
                beaten_s = time.monotonic()
                beat = {"kind": "beat", "at_ms": _now_ms(), "lab_s": self._hub.lab_age_s()}
                await self._websocket.send_text(json.dumps(beat))

    def leave(self) -> None:
        """The connection is gone."""
        self._hub.leave(self._event, set(self._topics))

    def _pause_s(self) -> float:
        return 0.2 if any(topic.startswith("camera/") for topic in self._topics) else BEAT_S

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

    async def _send_document(self, topic: str, state: Sent) -> bool:
        newest = self._hub.newest(topic)
        if newest is None or newest.version == state.version:
            return False
        state.version = newest.version
        return await self._send_body(topic, state, newest.body)

    async def _send_body(self, topic: str, state: Sent, newest: Json) -> bool:
        """Send what a document is now, unless this client has it already."""
        first = state.seq == 0
        if not first and newest == state.body:
            return False
        body = newest if first else delta(state.body, newest)
        state.seq, state.body = state.seq + 1, newest
        kind = "snapshot" if first else "delta"
        message = {"topic": topic, "kind": kind, "seq": state.seq, "at_ms": _now_ms(), "body": body}
        await self._websocket.send_text(json.dumps(message, separators=(",", ":")))
        return True

    async def _send_picture(self, topic: str, state: Sent) -> bool:
        _, station, camera = topic.split("/")
        newest = self._live.picture(station, camera) if isinstance(self._live, LiveCameras) else Preview()
        if newest.why:
            return await self._send_body(topic, state, {"why": newest.why})
        if not newest.jpeg or newest.jpeg is state.picture:
            return False
        state.picture, state.body = newest.jpeg, {}  # a picture takes back the reason; the same one may come again
        head = json.dumps({"topic": topic}).encode()
        await self._websocket.send_bytes(len(head).to_bytes(2, "big") + head + newest.jpeg)
        return True

    def _understand(self, text: str | None) -> str:
        """Take the client's wish; a sentence when it is not one."""
        if text is None or len(text) > LONGEST_MESSAGE:
            return f"A message is text of at most {LONGEST_MESSAGE} characters."
        try:
            wish = json.loads(text)
        except (ValueError, RecursionError):
            return "A message is a JSON object."
        if not isinstance(wish, dict) or not wish or set(wish) - {"subscribe", "unsubscribe"}:
            return "A message has the keys subscribe and unsubscribe, each a list of topics."
        for topics in wish.values():
            if not isinstance(topics, list) or not all(
                isinstance(item, str) and TOPIC.fullmatch(item) for item in topics
            ):
                return "A topic is fleet, commands, campaign/ID or camera/STATION/NAME."
        self._change(cast("dict[str, list[str]]", wish))
        return ""

    def _change(self, wish: dict[str, list[str]]) -> None:
        refused: list[Json] = []
        for topic in wish.get("unsubscribe", []):
            if self._topics.pop(topic, None) is not None:
                self._hub.unwant(topic)
        for topic in wish.get("subscribe", []):
            if topic not in self._topics and len(self._topics) >= MOST_TOPICS:
                refused.append(topic)
                continue
            if topic not in self._topics:
                self._hub.want(topic)
            self._topics[topic] = Sent()
        if refused:
            detail = f"At most {MOST_TOPICS} topics at a time, pictures among them: close another view first."
            self._replies.append({"kind": "problem", "detail": detail, "topics": refused})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
