"""The caller of a request and the check of the role, as FastAPI dependencies."""

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
TOKEN = HTTPBearer(scheme_name="token", description="A token from the page Settings, for scripts.", auto_error=False)
SESSION = APIKeyCookie(
    name=COOKIE, scheme_name="session", auto_error=False,
    description="A browser session. A request that changes something must also have an Origin header.",
)  # fmt: skip
"""Only for the OpenAPI document: one of the two suffices. `find_caller` reads both, also for the WebSocket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A signed-in user with the session or token that was used."""

    user: User
    key: Key

    def may(self, role: Role) -> bool:
        """Whether the user's role includes this one."""
        return ROLES.index(self.user.role) >= ROLES.index(role)


VISITOR = Caller(
    user=User(name="visitor", role="viewer"),
    key=Key(id="visitor", kind="session", user="visitor", label="", made_s=0.0, seen_s=0.0, ends_s=float("inf")),
)
"""Every caller of a server that shows the bundled example."""


def accounts_of(connection: HTTPConnection) -> Accounts:
    """The accounts of this server."""
    return cast(Accounts, connection.app.state.accounts)


def find_caller(connection: HTTPConnection) -> Caller | None:
    """The caller by bearer token or session cookie; None when neither is valid."""
    if connection.app.state.example:
        return VISITOR
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
    """Any signed-in user; 401 otherwise. Runs on the event loop, so that slow reads do not delay a stop."""
    caller = find_caller(connection)
    if caller is None:
        raise Problem(401, "Sign in, or send a valid bearer token.", {"www-authenticate": "Bearer"})
    return caller


def needs(role: Role) -> Callable[[Caller], Awaitable[Caller]]:
    """A dependency that requires this role or a higher one; 403 otherwise."""

    async def check(caller: Annotated[Caller, Depends(signed_in)]) -> Caller:
        if not caller.may(role):
            raise Problem(403, f"This requires the role {role}; {caller.user.name!r} has the role {caller.user.role}.")
        return caller

    return check


Viewer = Annotated[Caller, Depends(signed_in)]
Operator = Annotated[Caller, Depends(needs("operator"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


def cookie(secret: str, *, secure: bool, life_s: float = SESSION_S) -> dict[str, object]:
    """Arguments of `Response.set_cookie`: not readable by scripts, not sent by other sites."""
    return {
        "key": COOKIE,
        "value": secret,
        "max_age": int(life_s),
        "path": "/",
        "httponly": True,
        "samesite": "strict",
        "secure": secure,
    }
