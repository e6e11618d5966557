"""Checks of every request (host name, origin, size) and the security headers of every answer.

Requests that another site makes a browser send (cross-site requests, DNS rebinding) are refused here, before a route
runs. Rules: OWASP ASVS 4.0 sections 13 and 14.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web_ui import problems

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
BODY_LIMIT = 256 * 1024
_MOST_DIGITS = 12
"""Of the Content-Length header; Python converts only 4,300."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EXAMPLE = (
    "This is the example of `enpire serve --example`, which is read-only; run `enpire demo` for a lab of your own."
)
EVERYWHERE = ("0.0.0.0", "::")
"""These mean every address of the machine."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class RequestGuard:
    """ASGI middleware. `hosts` are the host names (without port) under which this server is served.

    With one of EVERYWHERE among them, every numeric address is served too: behind a forwarded port the address is not
    one of this machine, and DNS rebinding needs a name. A read-only server refuses whatever could change something.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = LOOPBACK, *, read_only: bool = False) -> None:
        self.app = app
        self.read_only = read_only
        self.hosts = frozenset(hosts)
        self.any_address = not self.hosts.isdisjoint(EVERYWHERE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on and add the headers to its answer."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            refusal = self._refusal(Headers(scope=scope), unsafe=True)
            if refusal:
                await send({"type": "websocket.close", "code": 4403, "reason": refusal[1][:120]})
            else:
                await self.app(scope, receive, send)
        else:
            await self._http(scope, receive, _with_headers(send))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refusal = self._refusal(request.headers, unsafe=request.method not in SAFE)
        if self.read_only and not refusal and request.method not in SAFE:
            refusal = 403, EXAMPLE
        if refusal:
            await problems.answer(*refusal)(scope, receive, send)
            return
        try:
            body = await _bounded(request)
        except ClientDisconnect:
            return
        if body is None:
            detail = f"The body of a request may have at most {BODY_LIMIT} bytes."
            await problems.answer(413, detail, {"connection": "close"})(scope, receive, send)
            return
        await self.app(scope, _replay(body, receive), send)

    def _refusal(self, headers: Headers, *, unsafe: bool) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._serves(_name(host)):
            known = ", ".join(sorted(self.hosts.difference(EVERYWHERE)))
            return 421, f"{host[:80]!r} is not served here; allowed: {known}; `enpire serve --name NAME` adds a name."
        if not unsafe:
            return None
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None:
            if not _is_site(origin, host):
                return 403, f"A request from {origin[:80]!r} may not change anything here."
        elif site not in (None, "same-origin", "none"):
            return 403, "A request from another site may not change anything here."
        elif site is None and "cookie" in headers:
            return 403, "A request with a cookie must have an Origin header; scripts use a bearer token instead."
        return None

    def _serves(self, name: str) -> bool:
        return name in self.hosts or (self.any_address and _is_address(name))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_site(origin: str, host: str) -> bool:
    """Whether an Origin header names this server."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.netloc.lower() == host.lower() and parts.scheme in ("http", "https")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """The host without its port; IPv6 without brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


async def _bounded(request: Request) -> bytes | None:
    """The whole body, or None when it is longer than BODY_LIMIT."""
    stated = request.headers.get("content-length", "0")
    if stated.isascii() and stated.isdigit() and (len(stated) > _MOST_DIGITS or int(stated) > BODY_LIMIT):
        return None
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_LIMIT:
            return None
        parts.append(part)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read, then what follows (the disconnect)."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return wrapped
