"""Our MCP server over stdio, message by message; `test_mcp.py` has the official client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_loop.mcp_stdio import VERSIONS, StdioServer, ToolAnswer, ToolSet
from agent_loop.tool_socket import remote_tools, serve_tools
from enpire.errors import TransportProblem, UsageError
from tests.architecture.sources import ROOT
from tests.architecture.test_imports import HEAVY, SLOW


class Client:
    """The other end of a server in this process."""

    def __init__(self, server: StdioServer, reading: int, writing: int) -> None:
        self.reading, self.writing = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)
        self.server = server
        self.problem: Exception | None = None
        self.thread = threading.Thread(target=self._serve, args=(server,), daemon=True)
        self.thread.start()

    def _serve(self, server: StdioServer) -> None:
        try:
            server.serve()
        except Exception as problem:  # noqa: BLE001 - the test looks at it
            self.problem = problem

    def send(self, line: bytes) -> None:
        self.writing.write(line + b"\n")

    def ask(self, method: str, number: int = 1, **parameters: object) -> dict[str, Any]:
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}).encode())
        return self.read()

    def read(self) -> dict[str, Any]:
        return json.loads(self.reading.readline())

    def end(self) -> None:
        self.writing.close()
        self.thread.join(300)
        assert not self.thread.is_alive()


def connected(open_tools: Any) -> Client:
    """A client of a server; the ends that the server reads and writes stay open with it."""
    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    server = StdioServer(open_tools, reading=os.fdopen(to_server, "rb"), writing=os.fdopen(from_server, "wb"))
    return Client(server, to_client, from_client)


def tool_set(call: Any = None) -> ToolSet:
    def echo(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        return ToolAnswer(content=[{"type": "text", "text": f"{name} {dict(arguments)}"}])

    return ToolSet(listing=[{"name": "echo", "inputSchema": {"type": "object"}}], call=call or echo)


def finish(client: Client) -> None:
    client.end()
    for end in (client.reading, client.server.reading, client.server.writing):
        end.close()


def test_the_client_is_greeted_while_the_tools_load() -> None:
    loaded = threading.Event()

    def slow() -> ToolSet:
        loaded.wait(300)
        return tool_set()

    client = connected(slow)
    welcome = client.ask("initialize", protocolVersion=VERSIONS[1])["result"]
    assert (welcome["protocolVersion"], welcome["serverInfo"]["name"]) == (VERSIONS[1], "enpire")
    assert client.ask("initialize", protocolVersion="1999-01-01")["result"]["protocolVersion"] == VERSIONS[0]
    client.send(b'{"jsonrpc": "2.0", "id": 7, "method": "tools/list"}')
    assert client.ask("ping", number=8) == {"jsonrpc": "2.0", "id": 8, "result": {}}
    loaded.set()
    listed = client.read()
    assert (listed["id"], listed["result"]["tools"][0]["name"]) == (7, "echo")
    finish(client)


def test_a_tool_that_waits_delays_no_other_message() -> None:
    go = threading.Event()

    def call(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        if name == "wait":
            go.wait(300)
        return ToolAnswer(content=[], is_error=name == "wrong")

    client = connected(lambda: tool_set(call))
    client.send(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait"}}')
    assert client.ask("tools/call", number=2, name="wrong")["result"] == {"content": [], "isError": True}
    go.set()
    assert client.read()["id"] == 1
    finish(client)


def test_what_is_no_request_is_refused_or_passed_over() -> None:
    def broken(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        raise RuntimeError("a mistake of the tool")

    client = connected(lambda: tool_set(broken))
    client.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    client.send(b"not JSON")
    assert client.read()["error"]["code"] == -32700
    client.send(b"[1]")
    assert client.read()["error"]["code"] == -32600
    assert client.ask("server/discover")["error"]["code"] == -32601
    assert client.ask("tools/call", name=7)["error"]["code"] == -32602
    assert "RuntimeError: a mistake of the tool" in client.ask("tools/call", name="echo")["error"]["message"]
    finish(client)


def test_a_server_without_its_lab_ends_with_the_sentence() -> None:
    def refused() -> ToolSet:
        raise UsageError("There is no campaign 'x'.")

    client = connected(refused)
    client.thread.join(300)
    assert str(client.problem) == "There is no campaign 'x'."
    finish(client)


def test_the_first_answer_needs_no_heavy_import() -> None:
    code = (
        "import sys, json, agent_loop.mcp_stdio, agent_loop.mcp_bridge\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert not set(json.loads(done.stdout)) & {*HEAVY, *SLOW, "httpx", "uvicorn", "starlette"}


def test_the_tools_of_a_room_answer_at_its_socket(tmp_path: Path) -> None:
    def refuse(**arguments: object) -> dict[str, object]:
        raise UsageError("The lab refuses.")

    given: dict[str, Any] = {"get_brief": lambda **arguments: {"given": arguments}, "submit_candidate": refuse}
    with serve_tools(given) as path:
        assert path.parent.stat().st_mode & 0o077 == 0
        tools = remote_tools(path)
        assert "get_brief" in {tool["name"] for tool in tools.listing}
        answer = tools.call("get_brief", {"a": 1})
        assert json.loads(str(answer.content[0]["text"])) == {"given": {"a": 1}}
        refused = tools.call("submit_candidate", {})
        assert (refused.is_error, refused.content[0]["text"]) == (True, "The lab refuses.")
        assert "There is no tool 'fly'" in str(tools.call("fly", {}).content[0]["text"])
    assert tools.call("get_brief", {}).is_error
    with pytest.raises(TransportProblem, match="do not answer"):
        remote_tools(path)
