"""Commands to the fleet: handed in with a key, answered 202, watched until they are effective."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Executor
from typing import Annotated, cast

from fastapi import APIRouter, Header, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from web_ui.auth import Anybody
from web_ui.commands import CommandDesk
from web_ui.commands import Request as Wish
from web_ui.documents import CommandDocument
from web_ui.hub import Hub
from web_ui.live import CAMPAIGN_VERBS, Verb
from web_ui.problems import Problem

router = APIRouter(prefix="/commands", tags=["commands"])
KEY = re.compile(r"[A-Za-z0-9._:-]{8,100}")
IdempotencyKey = Annotated[
    str, Header(alias="Idempotency-Key", description="8 to 100 characters; the same again is the same command.")
]


class Command(BaseModel):
    """What to do, and to which station; an empty station means every one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"verb": "stop", "station": ""}, {"verb": "pause", "station": "sim-1"}]},
    )
    verb: Verb
    station: str = Field(default="", max_length=100)


@router.post("", status_code=202)
async def command(body: Command, key: IdempotencyKey, caller: Anybody, request: Request) -> CommandDocument:
    """Hand in a command. Everybody who is signed in may stop; to pause and to resume needs an operator."""
    if body.verb != "stop" and not caller.may("operator"):
        raise Problem(403, f"To {body.verb} needs the role operator; {caller.user.name!r} is {caller.user.role}.")
    if not KEY.fullmatch(key):
        raise Problem(400, "Idempotency-Key has 8 to 100 of: letters, digits, dot, underscore, colon, dash.")
    if body.verb in CAMPAIGN_VERBS and body.station:
        raise Problem(400, f"{body.verb!r} concerns no single station: leave `station` empty.")
    wish = Wish(verb=body.verb, station=body.station, by=caller.user.name, key=key)
    pool = cast(Executor, request.app.state.command_pool)  # its own threads: slow reads never delay a stop
    document = await asyncio.get_running_loop().run_in_executor(pool, _desk(request).hand_in, wish)
    cast(Hub, request.app.state.hub).post_commands()
    return document


@router.get("")
async def commands(_caller: Anybody, request: Request) -> list[CommandDocument]:
    """The last commands, newest first."""
    return _desk(request).all()[::-1]


@router.get("/{command_id}")
async def one(command_id: Annotated[str, Path(max_length=100)], _caller: Anybody, request: Request) -> CommandDocument:
    """How far one command is."""
    return _desk(request).get(command_id)


def _desk(request: Request) -> CommandDesk:
    return cast(CommandDesk, request.app.state.desk)
