"""An MCP server for one local client over stdin and stdout. It answers at once and loads the tools while it answers.

The messages are JSON-RPC 2.0, one in a line, as the Model Context Protocol defines them for stdio. Only what a server
of tools needs is here; the package `mcp` takes seconds to import, longer than some clients wait.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from enpire import __version__

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Protocol versions that it speaks, the newest first."""
INSTRUCTIONS = (
    "A robot laboratory improves a policy in a closed loop. Call get_brief first. You propose changes to the recipe. "
    "The lab trains the candidate and compares it with the champion on hidden start states."
)
LOADS_WITHIN_S = 60.0
LONGEST_LINE = 4 * 2**20
"""Most bytes of one message."""
NO_REQUEST, NO_METHOD, NO_PARAMETERS, FAILED = -32600, -32601, -32602, -32603
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a tool answers."""

    content: list[dict[str, object]]
    """Content blocks of the protocol: text and images."""
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """The tools of a server."""

    listing: list[dict[str, object]]
    """Their descriptions as the protocol has them."""
    call: Callable[[str, Mapping[str, object]], ToolAnswer]


class Refused(Exception):
    """A request that the server does not answer with a result: code and sentence."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def serve_lab(home: Path, campaign: str, lane: str) -> None:
    """Serve the tools of a lab to one client.

    Raises:
        EnpireError: there is no such campaign.
    """

    def open_tools() -> ToolSet:
        from agent_loop import tools
        from agent_loop.tool_documents import open_client, tool_set

        return tool_set(partial(tools.call, open_client(home, campaign, lane)))

    StdioServer(open_tools).serve()


@dataclass(slots=True)
class StdioServer:
    """One server. Each call of a tool runs in a thread, so a tool that waits delays no other message."""

    open_tools: Callable[[], ToolSet]
    """Loads the tools; called once, in a thread, while the client is greeted."""
    reading: BinaryIO = field(default_factory=lambda: sys.stdin.buffer)
    writing: BinaryIO = field(default_factory=lambda: sys.stdout.buffer)
    _tools: ToolSet | None = None
    _problem: Exception | None = None
    _loaded: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _one: threading.Lock = field(default_factory=threading.Lock)

    def serve(self) -> None:
        """Answer until the client closes its end.

        Raises:
            Exception: as `open_tools` raised it.
        """
        for work in (self._read, self._load):
            threading.Thread(target=work, daemon=True).start()
        self._over.wait()
        self._loaded.wait(LOADS_WITHIN_S)  # a client that left at once is told, too, that there is no such campaign
        if self._problem is not None:
            raise self._problem

    def _read(self) -> None:
        try:
            while (line := self.reading.readline(LONGEST_LINE + 1)) and len(line) <= LONGEST_LINE:
                self._take(line)
        except OSError:
            pass  # the client has closed its end
        self._over.set()

    def _load(self) -> None:
        try:
            self._tools = self.open_tools()
        except Exception as problem:  # noqa: BLE001 - raised in the thread that serves
            self._problem = problem
            self._over.set()
        self._loaded.set()

    def _take(self, line: bytes) -> None:
        try:
            message: object = json.loads(line)
        except (ValueError, RecursionError):
            self._send({"id": None, "error": {"code": -32700, "message": "The line is not JSON."}})
            return
        if not isinstance(message, dict):
            self._send({"id": None, "error": {"code": NO_REQUEST, "message": "The message is not an object."}})
            return
        request = cast("Json", message)
        if "id" not in request or "method" not in request:
            return  # a notification, or an answer to a request that this server never sends
        if request["method"] in ("tools/call", "tools/list"):
            threading.Thread(target=self._answer, args=(request,), daemon=True).start()
        else:
            self._answer(request)

    def _answer(self, request: Json) -> None:
        try:
            parameters = request.get("params") or {}
            if not isinstance(parameters, dict):
                raise Refused(NO_PARAMETERS, "`params` must be an object.")
            self._send({"id": request["id"], "result": self._result(str(request["method"]), cast("Json", parameters))})
        except Refused as refused:
            self._send({"id": request["id"], "error": {"code": refused.code, "message": str(refused)}})
        except Exception as problem:  # noqa: BLE001 - a tool's mistake must not end the server
            why = f"{type(problem).__name__}: {problem}"
            self._send({"id": request["id"], "error": {"code": FAILED, "message": why}})

    def _result(self, method: str, parameters: Json) -> Json:
        if method == "initialize":
            wanted = parameters.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "enpire", "version": __version__}, "instructions": INSTRUCTIONS,
            }  # fmt: skip
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": self._ready().listing}
        if method == "tools/call":
            name, arguments = parameters.get("name"), parameters.get("arguments") or {}
            if not isinstance(name, str) or not isinstance(arguments, dict):
                raise Refused(NO_PARAMETERS, "A call of a tool has a `name` and `arguments`.")
            answer = self._ready().call(name, cast("Json", arguments))
            return {"content": answer.content, "isError": answer.is_error}
        raise Refused(NO_METHOD, f"This server has no method {method[:80]!r}; it serves tools.")

    def _ready(self) -> ToolSet:
        self._loaded.wait()
        if self._tools is None:
            raise Refused(FAILED, f"The tools cannot be used: {self._problem}")
        return self._tools

    def _send(self, message: Json) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode(errors="replace")
        with self._one:
            self.writing.write(data + b"\n")
            self.writing.flush()
