"""The official MCP client against our server: in process, over HTTP with a token, over stdio."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx
import mcp_types as types
import pytest
import uvicorn
from mcp import Client, StdioServerParameters

from agent_loop import tools
from agent_loop.mcp_server import http_app, open_desk, tool_server
from enpire.home import open_home
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_road import CLAIM
from tests.enpire.recorded_campaign import record_campaign


def answered(result: types.CallToolResult) -> Mapping[str, Any]:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return {"problem": block.text} if result.is_error else json.loads(block.text)


def test_the_official_client_round_trips_every_tool(tmp_path: Path) -> None:
    async def talk() -> dict[str, Mapping[str, Any]]:
        said: dict[str, Mapping[str, Any]] = {}
        async with Client(tool_server(lab.desk("mcp"))) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == [tool.name for tool in tools.TOOLS]

            async def use(name: str, **arguments: object) -> Mapping[str, Any]:
                said[name] = answered(await client.call_tool(name, arguments))
                return said[name]

            await use("get_brief")
            made = await use("propose_hypothesis", **CLAIM)
            sent = await use("submit_candidate", hypothesis_id=made["hypothesis_id"], changes={"skill": 0.9})
            huge = {"hypothesis_id": made["hypothesis_id"], "changes": {"skill": 10**400}}
            refused = answered(await client.call_tool("submit_candidate", huge))
            assert "a whole number of 401 digits is too large" in refused["problem"]
            await use("get_experiment", experiment_id=sent["experiment_id"])
            await use("get_diff", experiment_id=sent["experiment_id"], against="in_force")
            await use("list_experiments")
            await use("post_finding", text="it waits", about=sent["experiment_id"])
            await use("query_findings", words="waiting")
            await use("search_notes", words="friction")
            await use("get_episode", episode_id="none")
            await use("adopt", experiment_id=sent["experiment_id"])
            await use("wait", seconds=0.1)
            await use("give_up", reason="the end of the test", about=sent["experiment_id"])
            await use("finish", summary="one proposal, taken back")
        return said

    with Running(open_home(tmp_path / "home"), paused=True) as lab:
        lab.until(lambda lab: lab.state.ideas.declared)
        said = lab.beside(lambda: anyio.run(talk))
        assert set(said) == set(tools.BY_NAME)
        problems = {name for name, answer in said.items() if "problem" in answer}
        assert problems == {"get_episode", "adopt", "search_notes"}
        assert said["get_diff"]["settings"] == {"skill": {"from": 0.3, "to": 0.9}}
        assert [item["text"] for item in said["query_findings"]["findings"]] == ["it waits"]
        assert said["get_experiment"]["phase"] == "queued"
        assert next(iter(lab.lab.state.ideas.experiments.values())).phase == "cancelled"


def test_http_needs_the_token(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = uvicorn.Config(http_app(open_desk(tmp_path), "a secret"), port=port, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.02)
        url = f"http://127.0.0.1:{port}/mcp"
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "a secret"}):
            refused = httpx.post(url, json={}, headers=headers)
            assert refused.status_code == 401
            assert refused.headers["content-type"] == "application/problem+json"
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        headers = {"authorization": "Bearer a secret", "accept": "application/json, text/event-stream"}
        welcome = httpx.post(url, json=ask, headers=headers)
        assert welcome.status_code == 200
        assert "enpire" in welcome.text
        large = httpx.post(url, content=b"x" * 400_000, headers=headers)
        assert 400 <= large.status_code < 500
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.mark.slow
def test_stdio_serves_the_command_line(tmp_path: Path) -> None:
    record_campaign(tmp_path)

    async def talk() -> Mapping[str, Any]:
        arguments = ["-m", "enpire.cli", "mcp", "--home", str(tmp_path)]
        async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
            return answered(await client.call_tool("list_experiments", {}))

    assert anyio.run(talk)["experiments"] == []
