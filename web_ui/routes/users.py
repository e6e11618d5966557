"""User accounts, for admins."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from web_ui.accounts import NAME, Role
from web_ui.auth import Admin, accounts_of
from web_ui.openapi import refusals
from web_ui.passwords import LONGEST, SHORTEST
from web_ui.problems import Problem

router = APIRouter(prefix="/users", tags=["users"])


class NewUser(BaseModel):
    """A user to make."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "grace", "role": "operator", "password": "ten letters or more"}]},
    )
    name: str = Field(max_length=64, json_schema_extra={"pattern": f"^{NAME.pattern}$"})
    role: Role
    password: str = Field(min_length=SHORTEST, max_length=LONGEST)


class UserLine(BaseModel):
    """One user."""

    name: str
    role: Role


class AuditLine(BaseModel):
    """One line of the audit log of the accounts."""

    stamp_s: float
    user: str
    deed: str


@router.get("", responses=refusals(403))
async def users(_caller: Admin, request: Request) -> list[UserLine]:
    """All users."""
    return [UserLine(name=user.name, role=user.role) for user in accounts_of(request).users()]


@router.post("", status_code=201)
async def add(body: NewUser, caller: Admin, request: Request) -> UserLine:
    """Make a user."""
    accounts = accounts_of(request)
    user = await asyncio.to_thread(accounts.add_user, body.name, body.role, body.password)
    accounts.record(caller.user.name, f"made the {user.role} {user.name!r}")
    return UserLine(name=user.name, role=user.role)


@router.delete("/{name}", status_code=204, responses=refusals(400, 409))
async def remove(name: Annotated[str, Path(max_length=64)], caller: Admin, request: Request) -> None:
    """Remove a user with all sessions and tokens. 409 for your own account; 400 for the last admin."""
    if name == caller.user.name:
        raise Problem(409, "You cannot remove your own account; ask another admin.")
    accounts_of(request).remove_user(name)
    accounts_of(request).record(caller.user.name, f"removed the user {name!r}")


@router.get("/audit", responses=refusals(403))
async def audit(_caller: Admin, request: Request) -> list[AuditLine]:
    """The newest hundred lines of the audit log, newest first."""
    lines = accounts_of(request).audit_log()
    return [AuditLine(stamp_s=stamp_s, user=user, deed=action) for stamp_s, user, action in lines]
