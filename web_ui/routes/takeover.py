"""The WebSocket with which an operator moves a robot from the page.

Client: {"axes": [-1..1 for each action of the task]} about thirty times a second, or {"gives_back": true}. Server, as
text: {"state": "waiting" | "moving", "actions": [...]}, or {"state": "lost", "detail": SENTENCE} before it closes. A
station has one holder: a second take-over ends the first. When the client is silent or gone without giving back, the
robot holds within three periods, and the policy moves it again after a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from dataclasses import dataclass, field
from typing import cast

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from enpire.errors import EnpireError
from enpire.home import Home
from enpire.service.taking_over import HandClient, HandStatus
from web_ui.auth import accounts_of, find_caller

router = APIRouter()
LONGEST_MESSAGE = 2048
MOST_AXES = 64
ANSWER_EVERY_S = 0.05
SILENT_S = 0.3
"""Seconds without an answer after which a station is shown as waiting: it has no rollout that may be taken over."""
CHECK_S = 2.0
"""Seconds between checks of the session."""


@dataclass(slots=True)
class Holder:
    """One take-over."""

    name: str
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when another operator takes over."""
    by: str = ""


class Holders:
    """Who holds each station. Call it only from the server's event loop."""

    def __init__(self) -> None:
        self._held: dict[str, Holder] = {}

    def take(self, station: str, name: str) -> Holder:
        """Take a station; the holder before it loses it."""
        before = self._held.get(station)
        if before is not None:
            before.by = name
            before.lost.set()
        self._held[station] = Holder(name=name)
        return self._held[station]

    def name(self, station: str) -> str:
        """Who holds a station; empty without a holder."""
        return self._held[station].name if station in self._held else ""

    def give_back(self, station: str, holder: Holder) -> None:
        """End a take-over, unless another one replaced it."""
        if self._held.get(station) is holder:
            del self._held[station]


@router.websocket("/takeover/{station}")
async def takeover(websocket: WebSocket, station: str) -> None:
    """Serve one take-over. Closes with 4401 without a session, 4403 without the role operator."""
    caller = find_caller(websocket)
    if caller is None or not caller.may("operator"):
        await websocket.close(*((4401, "Sign in first.") if caller is None else (4403, "Only operators take over.")))
        return
    await websocket.accept()
    home, name = cast(Home, websocket.app.state.home), caller.user.name
    try:
        client = HandClient(home.root, station)
    except EnpireError as problem:
        await _end(websocket, 4404, str(problem))
        return
    holders = cast(Holders, websocket.app.state.holders)
    holder = holders.take(station, name)
    accounts_of(websocket).record(name, f"took over {station[:80]!r}")
    answering = asyncio.create_task(_answer(websocket, client, holder))
    try:
        await _forward(websocket, client)
    except (WebSocketDisconnect, RuntimeError):  # the second where the answering task has closed the socket
        pass
    finally:
        client.close()  # before anything that a cancelled task would not reach
        holders.give_back(station, holder)
        accounts_of(websocket).record(name, f"gave back {station[:80]!r}")
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


async def _forward(websocket: WebSocket, client: HandClient) -> None:
    """Pass the client's inputs on until it disconnects or gives back."""
    while True:
        given = _message(await websocket.receive_text())
        if given is None:
            await _end(websocket, 4400, "An input is {axes: [NUMBER, ...]} or {gives_back: true}.")
            return
        axes, gives_back = given
        client.send(axes, gives_back=gives_back)
        if gives_back:
            await websocket.close(1000)
            return


async def _answer(websocket: WebSocket, client: HandClient, holder: Holder) -> None:
    """Tell the client what its station does; end when another operator took over or the session ended."""
    shown, heard_s, checked_s = "", -math.inf, time.monotonic()
    newest = HandStatus(actions=(), holder="")
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(holder.lost.wait(), ANSWER_EVERY_S)
            await _end(websocket, 4409, f"{holder.by} took over this station.")
            return
        if time.monotonic() > checked_s + CHECK_S:
            checked_s = time.monotonic()
            if find_caller(websocket) is None:
                await _end(websocket, 4401, "The session has ended.")
                return
        status = client.status()
        if status is not None:
            newest, heard_s = status, time.monotonic()
        moving = newest.holder == client.holder and time.monotonic() - heard_s < SILENT_S
        text = json.dumps({"state": "moving" if moving else "waiting", "actions": newest.actions})
        if text != shown:
            shown = text
            await websocket.send_text(text)


async def _end(websocket: WebSocket, code: int, why: str) -> None:
    with contextlib.suppress(RuntimeError):
        await websocket.send_text(json.dumps({"state": "lost", "detail": why}))
        await websocket.close(code, why[:120])


def _message(text: str) -> tuple[tuple[float, ...], bool] | None:
    """The axes of an input, and whether it gives back; None when it is invalid."""
    if len(text) > LONGEST_MESSAGE:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or set(content) - {"axes", "gives_back"}:
        return None
    axes = content.get("axes", [])
    if not isinstance(axes, list) or len(axes) > MOST_AXES:
        return None
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and abs(one) <= 1 for one in axes):
        return None
    return tuple(float(one) for one in axes), content.get("gives_back") is True
