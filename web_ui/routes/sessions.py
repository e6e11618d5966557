"""Sign-in, sign-out, the one-time set-up, and the sessions and tokens of a user."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from web_ui.accounts import NAME, Role, User
from web_ui.attempts import Attempts
from web_ui.auth import COOKIE, Viewer, accounts_of, cookie, find_caller
from web_ui.openapi import refusals
from web_ui.passwords import LONGEST, SHORTEST
from web_ui.problems import Problem

router = APIRouter(tags=["sessions"])
DAY_S = 86400.0
KeyId = Annotated[str, Path(max_length=64)]


class Credentials(BaseModel):
    """A name and its password."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "ada", "password": "ten letters or more"}]}
    )
    name: str = Field(max_length=64)
    password: str = Field(max_length=LONGEST)


class Setup(BaseModel):
    """The secret of the set-up link, and the first admin."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"secret": "from the link", "name": "ada", "password": "ten letters or more"}]},
    )
    secret: str = Field(max_length=200)
    name: str = Field(max_length=64, json_schema_extra={"pattern": f"^{NAME.pattern}$"})
    password: str = Field(min_length=SHORTEST, max_length=LONGEST)


class SignInStatus(BaseModel):
    """The signed-in user, empty when none; `setup` is true while this server has no admin."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "ada", "role": "admin", "setup": False}]})
    name: str = ""
    role: Role | Literal[""] = ""
    setup: bool = False
    example: bool = False
    """Whether this server shows the bundled example, which every visitor reads and nothing changes."""


class NewPassword(BaseModel):
    """The current password and the new one."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"present": "the old one", "fresh": "ten letters or more"}]}
    )
    present: str = Field(max_length=LONGEST)
    fresh: str = Field(min_length=SHORTEST, max_length=LONGEST)


class NewToken(BaseModel):
    """The purpose of a token, and for how many days it is valid."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"label": "nightly script", "days": 90}]})
    label: str = Field(min_length=1, max_length=120)
    days: int = Field(default=90, ge=1, le=366)


class Secret(BaseModel):
    """A token; it is shown only once."""

    secret: str = Field(examples=["mF_9.B5f-4.1JqM…"])


class KeyLine(BaseModel):
    """One session or token."""

    id: str
    kind: Literal["session", "token"]
    user: str
    label: str
    made_s: float
    seen_s: float
    ends_s: float
    current: bool
    """Whether it is the one of this request."""


@router.get("/session")
async def standing(request: Request) -> SignInStatus:
    """Who is signed in; never an error, so that the page can ask first."""
    caller = find_caller(request)
    if caller is not None:
        example = bool(request.app.state.example)
        return SignInStatus(name=caller.user.name, role=caller.user.role, example=example)
    return SignInStatus(setup=not accounts_of(request).has_admin())


@router.post("/setup", status_code=201, responses=refusals(429))
async def set_up(body: Setup, request: Request, response: Response) -> SignInStatus:
    """Make the first admin with the set-up link's secret, and sign in."""
    sign_in_try = _Try(request, "setup")
    sign_in_try.enter()
    accounts = accounts_of(request)
    user = await asyncio.to_thread(accounts.redeem_setup, body.secret, body.name, body.password)
    sign_in_try.passed()
    return _begin(user, request, response)


@router.post("/session", status_code=201, responses=refusals(401, 429))
async def sign_in(body: Credentials, request: Request, response: Response) -> SignInStatus:
    """Start a session. 401 for a wrong name or password, 429 after too many failed tries."""
    sign_in_try = _Try(request, f"user {body.name}")
    sign_in_try.enter()
    user = await asyncio.to_thread(accounts_of(request).check, body.name, body.password)
    if user is None:
        raise Problem(401, "The name or the password is wrong.")
    sign_in_try.passed()
    return _begin(user, request, response)


@router.delete("/session", status_code=204)
async def sign_out(caller: Viewer, request: Request, response: Response) -> None:
    """End the session or token of this request."""
    accounts_of(request).revoke(caller.key.id)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


@router.put("/session/password", status_code=204, responses=refusals(429))
async def change_password(body: NewPassword, caller: Viewer, request: Request) -> None:
    """Change your own password; all your other sessions and tokens end."""
    sign_in_try = _Try(request, f"user {caller.user.name}")
    sign_in_try.enter()
    accounts = accounts_of(request)
    if caller.key.kind != "session" or not await asyncio.to_thread(accounts.check, caller.user.name, body.present):
        raise Problem(403, "The current password is wrong.")
    sign_in_try.passed()
    await asyncio.to_thread(accounts.change_password, caller.user.name, body.fresh, caller.key.id)
    accounts.record(caller.user.name, "changed the password")


@router.get("/keys")
async def keys(caller: Viewer, request: Request) -> list[KeyLine]:
    """Your sessions and tokens; an admin gets those of all users."""
    found = accounts_of(request).keys("" if caller.may("admin") else caller.user.name)
    return [
        KeyLine(
            id=key.id, kind=key.kind, user=key.user, label=key.label, made_s=key.made_s, seen_s=key.seen_s,
            ends_s=key.ends_s, current=key.id == caller.key.id,
        )
        for key in found
    ]  # fmt: skip


@router.post("/keys", status_code=201)
async def make_token(body: NewToken, caller: Viewer, request: Request) -> Secret:
    """Make a bearer token with your own role. Only a browser session may do so, not a token."""
    if caller.key.kind != "session":
        raise Problem(403, "A token cannot make tokens; sign in with a password.")
    secret = accounts_of(request).open_key("token", caller.user.name, body.label, body.days * DAY_S)
    accounts_of(request).record(caller.user.name, f"made the token {body.label!r}")
    return Secret(secret=secret)


@router.delete("/keys/{key_id}", status_code=204)
async def revoke(key_id: KeyId, caller: Viewer, request: Request) -> None:
    """End a session or token at once: your own, or as an admin of any user."""
    accounts_of(request).revoke(key_id, "" if caller.may("admin") else caller.user.name)
    accounts_of(request).record(caller.user.name, f"ended the session or token {key_id}")


class _Try:
    """One sign-in try: counts as failed for the address and the name until `passed` is called."""

    def __init__(self, request: Request, name: str) -> None:
        self._attempts = cast(Attempts, request.app.state.attempts)
        self._who = (request.client.host if request.client else "?", name)

    def enter(self) -> None:
        wait_s = self._attempts.enter(*self._who)
        if wait_s > 0:
            seconds = int(wait_s) + 1
            raise Problem(429, f"Too many failed tries; wait {seconds} s.", {"retry-after": str(seconds)})

    def passed(self) -> None:
        self._attempts.passed(*self._who)


def _begin(user: User, request: Request, response: Response) -> SignInStatus:
    label = request.headers.get("user-agent", "")
    secret = accounts_of(request).open_key("session", user.name, label)
    response.set_cookie(**cookie(secret, secure=request.url.scheme == "https"))  # pyright: ignore[reportArgumentType]
    accounts_of(request).record(user.name, "signed in")
    return SignInStatus(name=user.name, role=user.role)
