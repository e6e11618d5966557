"""Who is calling, and whether the role allows it: FastAPI dependencies over `Accounts`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.requests import HTTPConnection

from web_ui.accounts import ROLES, SESSION_S, Accounts, Key, Role, User
from web_ui.problems import Problem

COOKIE = "enpire_session"
TOKEN = HTTPBearer(scheme_name="token", description="A token of Settings, for scripts.", auto_error=False)
SESSION = APIKeyCookie(
    name=COOKIE, scheme_name="session", auto_error=False,
    description="A session of a browser; a request that changes something says its Origin, too.",
)  # fmt: skip
"""Either will do. They only tell OpenAPI so: `find_caller` reads both, for the socket as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A signed-in user, and the session or token that says so."""

    user: User
    key: Key

    def may(self, role: Role) -> bool:
        """Whether the user's role includes this one."""
        return ROLES.index(self.user.role) >= ROLES.index(role)


def accounts_of(connection: HTTPConnection) -> Accounts:
    """The accounts of this server."""
    return cast(Accounts, connection.app.state.accounts)


def find_caller(connection: HTTPConnection) -> Caller | None:
    """The caller by bearer token or session cookie; None when neither is good."""
    accounts = accounts_of(connection)
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        held = accounts.holder("token", secret.strip())
    else:
        held = accounts.holder("session", connection.cookies.get(COOKIE, ""))
    return Caller(user=held[0], key=held[1]) if held else None


async def signed_in(
    connection: HTTPConnection,
    _token: Annotated[object, Security(TOKEN)],
    _session: Annotated[object, Security(SESSION)],
) -> Caller:
    """Any user; 401 otherwise. Runs on the event loop, so that no queue of slow reads delays a stop."""
    caller = find_caller(connection)
    if caller is None:
        raise Problem(401, "Sign in, or send a bearer token that is still good.", {"www-authenticate": "Bearer"})
    return caller


def needs(role: Role) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency that lets only this role and those above pass; 403 otherwise."""

    async def check(caller: Annotated[Caller, Depends(signed_in)]) -> Caller:
        if not caller.may(role):
            raise Problem(403, f"This needs the role {role}; {caller.user.name!r} is {caller.user.role}.")
        return caller

    return check


Anybody = Annotated[Caller, Depends(signed_in)]
Operator = Annotated[Caller, Depends(needs("operator"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


def cookie(secret: str, *, secure: bool, life_s: float = SESSION_S) -> dict[str, object]:
    """Arguments of `Response.set_cookie`: no script reads it, no other site sends it."""
    return {
        "key": COOKIE,
        "value": secret,
        "max_age": int(life_s),
        "path": "/",
        "httponly": True,
        "samesite": "strict",
        "secure": secure,
    }
