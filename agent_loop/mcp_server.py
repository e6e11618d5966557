"""The agents' tools as an MCP server over HTTP with a bearer token; over stdio: `agent_loop.mcp_stdio`."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, cast

import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext

from agent_loop import tools
from agent_loop.lab_client import LabClient
from agent_loop.mcp_stdio import INSTRUCTIONS
from agent_loop.tool_documents import answered, described
from enpire import __version__

LARGEST_REQUEST = 256 * 1024
"""Most bytes of one request."""
REFUSAL = {
    "type": "about:blank", "title": "Sign in first", "status": 401,
    "detail": "The bearer token is missing or wrong: send the one in ENPIRE_MCP_TOKEN, or in the home's mcp_token.",
}  # fmt: skip
"""Answer to a request without the token (RFC 9457)."""
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def tool_server(client: LabClient) -> Server[Any]:
    """The MCP server of one agent session."""

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(described(tool)) for tool in tools.TOOLS])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await anyio.to_thread.run_sync(_called, client, params.name, params.arguments or {})

    return Server(
        "enpire", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )  # fmt: skip


def http_app(client: LabClient, token: str) -> App:
    """The server as an ASGI app under /mcp. A request without the token is answered 401 before its body is read."""
    app = tool_server(client).streamable_http_app(max_request_body_size=LARGEST_REQUEST)
    return guarded(cast("App", app), token)


def serve_http(client: LabClient, host: str, port: int, token: str) -> None:
    """Serve over HTTP until interrupted."""
    app = http_app(client, token)
    uvicorn.run(app, host=host, port=port, loop="asyncio", http="h11", log_level="warning", ws="none")


def guarded(app: App, token: str) -> App:
    """The app, behind a bearer token."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _has_token(scope, token):
            body = json.dumps(REFUSAL).encode()
            headers = [(b"content-type", b"application/problem+json"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await app(scope, receive, send)

    return guard


def _has_token(scope: Scope, token: str) -> bool:
    given = dict(cast("list[tuple[bytes, bytes]]", scope["headers"])).get(b"authorization", b"")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def _called(client: LabClient, name: str, arguments: Mapping[str, object]) -> types.CallToolResult:
    answer = answered(partial(tools.call, client), name, arguments)
    return types.CallToolResult.model_validate({"content": answer.content, "isError": answer.is_error})
