"""The agents' tools as an MCP server: over stdio for one local client, or over HTTP with a bearer token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from agent_loop import tools
from agent_loop.lab_client import LabClient
from enpire import __version__
from enpire.errors import EnpireError
from enpire.ids import file_name
from enpire.service import reading
from enpire.service.asking import Sender

LARGEST_REQUEST = 256 * 1024
"""Most bytes of one request."""
INSTRUCTIONS = (
    "A robot laboratory improves a policy in a closed loop. Call get_brief first. You propose changes to the recipe. "
    "The lab trains the candidate and compares it with the champion on hidden start states."
)
REFUSAL = {
    "type": "about:blank", "title": "Sign in first", "status": 401,
    "detail": "The bearer token is missing or wrong: send the one in ENPIRE_MCP_TOKEN, or in the home's mcp_token.",
}  # fmt: skip
"""Answer to a request without the token (RFC 9457)."""
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def open_client(home: Path, campaign: str = "", lane: str = "mcp", author: str = "mcp") -> LabClient:
    """A client for an agent session in a campaign of this home; the latest campaign when none is named.

    Raises:
        UnknownName: there is no such campaign.
        FileProblem: no folder can have the name of the session.
    """
    file_name(lane, "an agent session")
    with reading.open_records(home) as records:
        campaign_id = reading.find_campaign(records, campaign)
    return LabClient(home, Sender(campaign_id=campaign_id, author=author, lane=lane))


def tool_server(client: LabClient) -> Server[Any]:
    """The MCP server of one agent session."""

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in tools.TOOLS])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await anyio.to_thread.run_sync(_called, client, params.name, params.arguments or {})

    return Server(
        "enpire", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )  # fmt: skip


def serve_stdio(client: LabClient) -> None:
    """Serve one client on stdin and stdout until it disconnects."""

    async def run() -> None:
        server = tool_server(client)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(run)


def http_app(client: LabClient, token: str) -> App:
    """The server as an ASGI app under /mcp. A request without the token is answered 401 before its body is read."""
    app = tool_server(client).streamable_http_app(max_request_body_size=LARGEST_REQUEST)
    return guarded(cast("App", app), token)


def serve_http(client: LabClient, host: str, port: int, token: str) -> None:
    """Serve over HTTP until interrupted."""
    uvicorn.run(http_app(client, token), host=host, port=port, log_level="warning", ws="none")


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


def _described(tool: tools.Tool) -> types.Tool:
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.schema(),
        annotations=types.ToolAnnotations(read_only_hint=not tool.writes, destructive_hint=False),
    )  # fmt: skip


def _called(client: LabClient, name: str, arguments: Mapping[str, object]) -> types.CallToolResult:
    try:
        answer = tools.call(client, name, arguments)
    except EnpireError as problem:
        return types.CallToolResult(content=[types.TextContent(text=str(problem))], is_error=True)
    pictures = cast("list[Mapping[str, str]]", answer.get("pictures", []))
    if pictures:  # the images follow as image content, in this order
        answer["pictures"] = [item["name"] for item in pictures]
    content: list[types.ContentBlock] = [types.TextContent(text=json.dumps(answer, ensure_ascii=False))]
    content += [types.ImageContent(data=item["base64"], mime_type=item["media_type"]) for item in pictures]
    return types.CallToolResult(content=content)
