"""Commands: submitted with a key, answered 202, tracked until they are effective or refused."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Executor
from typing import Annotated, cast

from fastapi import APIRouter, Header, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from enpire.ids import is_id, is_version_id
from web_ui.auth import Viewer
from web_ui.commands import CommandRequest, CommandTracker
from web_ui.documents import CommandDocument
from web_ui.hub import Hub
from web_ui.live import REASONED, STATION_COMMANDS, TARGETED, CommandKind
from web_ui.openapi import refusals
from web_ui.problems import Problem

router = APIRouter(prefix="/commands", tags=["commands"])
HYPOTHESIS: tuple[CommandKind, ...] = ("hypothesis reject", "hypothesis restore", "hypothesis pin", "hypothesis unpin")
KEY = re.compile(r"[A-Za-z0-9._:-]{8,100}")
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="8 to 100 characters. A request with the same key is the same command.",
        json_schema_extra={"pattern": f"^{KEY.pattern}$", "minLength": 8, "maxLength": 100},
    ),
]


class Command(BaseModel):
    """A command and its target: a station, a policy version or an episode."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"verb": "stop"},
                {"verb": "pause", "target": "sim-1"},
                {"verb": "service", "target": "sim-1", "reason": "the gripper slips"},
                {"verb": "resume", "target": "sim-1", "seen": 4127},
                {"verb": "change limits", "target": "budget.wall_s=7200 goal.success=0.97", "reason": "one more night"},
                {"verb": "rollback", "reason": "it grips too hard"},
                {
                    "verb": "experiment clear",
                    "target": "01JD3Y6Z8Q4M0C5T9V2K7B1XNA",
                    "reason": "the timer is for a log",
                    "seen": 4127,
                },
                {"verb": "hypothesis propose", "target": "passes=8", "reason": "more passes find more successes"},
                {"verb": "judge failure", "target": "01JD3Y6Z8Q4M0C5T9V2K7B1XNA"},
            ]
        },
    )
    verb: CommandKind
    target: str = Field(
        default="",
        max_length=200,
        description="A station (empty: all), a policy version, an episode, an experiment, a hypothesis, changed limits "
        "or settings, an alarm.",
    )
    reason: str = Field(
        default="",
        max_length=300,
        description="Required to promote, to roll back, for service, for the quarantine, to reject and to rerun; "
        "the statement of a proposal.",
    )
    seen: int | None = Field(
        default=None,
        ge=0,
        le=2**63 - 1,
        description="`newest_event` of the campaign as its user saw it. A resume ends no stop that is newer, and "
        "'experiment clear', which requires it, no newer quarantine. Without it, the newest event when the request "
        "arrives.",
    )


@router.post("", status_code=202, responses=refusals(404, 409, 503))
async def command(body: Command, key: IdempotencyKey, caller: Viewer, request: Request) -> CommandDocument:
    """Submit a command. Every signed-in user may stop; all other commands require the role operator."""
    if body.verb != "stop" and not caller.may("operator"):
        raise Problem(
            403,
            f"{body.verb!r} requires the role operator; {caller.user.name!r} has the role {caller.user.role}.",
        )
    if not KEY.fullmatch(key):
        raise Problem(400, "Idempotency-Key must have 8 to 100 letters, digits, dots, underscores, colons or dashes.")
    _check(body)
    submitted = CommandRequest(
        verb=body.verb, target=body.target, by=caller.user.name, key=key, reason=body.reason.strip(), seen=body.seen
    )
    pool = cast(Executor, request.app.state.command_pool)  # separate threads, so that slow reads do not delay a stop
    document = await asyncio.get_running_loop().run_in_executor(pool, _tracker(request).submit, submitted)
    cast(Hub, request.app.state.hub).submitted()
    return document


def _check(body: Command) -> None:
    """Refuse a command whose target or reason is missing or invalid."""
    if body.verb in TARGETED and not body.target:
        experiment = "an experiment, or a policy version,"
        wanted = {
            "promote": "a policy version", "change limits": "changes such as budget.wall_s=7200",
            "experiment quarantine": experiment, "experiment clear": experiment, "experiment rerun": experiment,
            **dict.fromkeys(("service", "service done", "reset", "home"), "one station"),
            "hypothesis propose": "changed settings such as passes=8", **dict.fromkeys(HYPOTHESIS, "a hypothesis"),
            "acknowledge": "the `key` of an alarm", "acknowledge undo": "the `key` of an alarm",
        }  # fmt: skip
        raise Problem(
            400, f"The command {body.verb!r} needs {wanted.get(body.verb, 'the id of an episode')} as `target`."
        )
    if body.verb not in STATION_COMMANDS | TARGETED and body.target:
        raise Problem(400, f"The command {body.verb!r} applies to the whole campaign; leave `target` empty.")
    if body.verb == "promote" and not is_version_id(body.target):
        raise Problem(422, "The `target` of 'promote' is a policy version: 64 digits, 0 to 9 and a to f.")
    if body.verb.startswith("judge ") and not is_id(body.target):
        raise Problem(422, f"The `target` of {body.verb!r} is an episode's id: 26 capital letters and digits.")
    if body.verb == "experiment clear" and body.seen is None:
        raise Problem(
            400,
            "The command 'experiment clear' needs `seen`, the `newest_event` of the campaign that you saw: it ends "
            "what held the experiment then, and nothing newer.",
        )
    if body.verb in REASONED and not body.reason.strip():
        raise Problem(400, f"The command {body.verb!r} needs a `reason`, which the ledger keeps.")


@router.get("")
async def commands(_caller: Viewer, request: Request) -> list[CommandDocument]:
    """The last commands, newest first."""
    return _tracker(request).all()[::-1]


@router.get("/{command_id}")
async def one(command_id: Annotated[str, Path(max_length=100)], _caller: Viewer, request: Request) -> CommandDocument:
    """One command and its state."""
    return _tracker(request).get(command_id)


def _tracker(request: Request) -> CommandTracker:
    return cast(CommandTracker, request.app.state.commands)
