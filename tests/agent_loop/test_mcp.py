"""The official MCP client against our server: in process, over HTTP with a token, over stdio."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from mcp import Client, StdioServerParameters

from agent_loop import tools
from agent_loop.lab_client import LabClient
from agent_loop.mcp_server import App, Receive, Scope, Send, guarded, http_app, tool_server
from agent_loop.tool_documents import open_client
from enpire.datasets.episode_images import replay_images
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.queries import campaigns
from enpire.queries.models import EpisodeLine
from enpire.requests import operator_commands
from enpire.requests.agent_requests import Sender
from enpire.store.ledger import open_to_read
from enpire.store.pictures import NAME, keep
from enpire.store.reading import Page
from tests.agent_loop.mcp_clients import Known, answered, check_answers, every_tool, over_http
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.simulated_campaign import running
from tests.agent_loop.test_proposal_lifecycle import submit
from tests.agent_loop.test_tools import WRITING
from tests.fakes.event_loops import run_async
from tests.fakes.fake_fleet import delivered
from tests.fakes.free_port import free_port
from tests.fakes.sample_campaign import record_campaign
from tests.fakes.sample_events import write

TOKEN = "a secret"
CODE_TOOLS = {"get_code", "submit_code", "revert_code", "take_skill", "submit_task"}
"""They need a campaign with branches, or a sandbox: `test_code_candidates.py`, `test_authored_tasks.py`."""
WORDS = "cold gripper"
NOTE = "The gripper of station 3 slips when it is cold.\n"


@contextmanager
def served(app: App) -> Iterator[str]:
    """An app on a free port of the loopback; its address."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, loop="asyncio", http="h11", log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 300
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(300)
        bound.close()


def command_line(home: Path, *more: str) -> StdioServerParameters:
    """`enpire mcp` as a child of the client."""
    return StdioServerParameters(
        command=sys.executable, args=["-m", "enpire.cli", "mcp", "--home", str(home), *more]
    )  # fmt: skip


def keep_note(home: Path) -> None:
    (home / "notes").mkdir()
    (home / "notes" / "grip.md").write_text(NOTE)


@pytest.mark.parametrize("transport", ["in process", "http", "stdio"])
def test_the_official_client_gets_an_answer_from_every_tool(tmp_path: Path, transport: str) -> None:
    home = open_home(tmp_path / "home")
    keep_note(home.root)

    async def talk(known: Known) -> dict[str, Mapping[str, Any]]:
        async with AsyncExitStack() as stack:
            if transport == "http":
                url = stack.enter_context(served(http_app(lab.client("mcp"), TOKEN)))
                client = await stack.enter_async_context(over_http(url, TOKEN))
            else:
                server = command_line(home.root) if transport == "stdio" else tool_server(lab.client("mcp"))
                client = await stack.enter_async_context(Client(server))
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == [tool.name for tool in tools.TOOLS]
            huge = {"hypothesis_id": "x", "changes": {"skill": 10**400}}
            refused = answered(await client.call_tool("submit_candidate", huge))["problem"]
            assert "not a whole number of 1329 bits" in refused
            return await every_tool(client, known)

    with Running(home) as lab:
        known = begin(lab)
        said = lab.beside(lambda: run_async(talk, known))
        check_answers(said, known, FRAMES)
        assert set(said) == set(tools.BY_NAME) - CODE_TOOLS
        mine = said["submit_candidate"]["experiment_id"]
        assert lab.lab.state.proposals.experiments[mine].phase == "cancelled"
        assert set(lab.lab.state.proposals.finished) == {"mcp"}


FRAMES = 120


def begin(lab: Running) -> Known:
    """Let the campaign collect its first episodes and pause it; one of them gets pictures, and a peer proposes."""
    lab.lab.fleet.ending = lambda order: delivered(order, "failure", FRAMES, "")  # pyright: ignore[reportAttributeAccessIssue]
    lab.until(lambda lab: any(order.purpose == "collect" for order in recorded(lab)))
    write(lab.lab, ("campaign paused", {"by": "the test", "why": ""}))
    episode = next(order for order in recorded(lab.lab) if order.purpose == "collect")
    folder = lab.home.episodes / episode.campaign_id / episode.order_id
    image = np.full((10, 16, 3), 128, np.uint8)
    keep(folder / NAME, {tick: {"front": image} for tick in range(0, FRAMES, 15)}, "jpg")
    peer = lab.beside(lambda: submit(lab.client("peer"), skill=0.5))
    return Known(episode_id=episode.order_id, peer=peer, words=WORDS, changes={"skill": 0.9})


def recorded(lab: Lab) -> list[EpisodeLine]:
    with campaigns.open_records(lab.home.root) as records:
        return list(campaigns.episodes(records, Page(campaign_id=lab.state.campaign_id, outcome="failure")).rows)


def test_what_cannot_be_answered_is_said_in_a_sentence(tmp_path: Path) -> None:
    record_campaign(tmp_path).flush()

    async def talk() -> list[str]:
        async with Client(tool_server(open_client(tmp_path))) as client:
            asked = (
                ("get_episode", {"episode_id": "none"}),
                ("search_notes", {"words": "x"}),
                ("post_finding", {"text": "x"}),
            )
            return [answered(await client.call_tool(name, said))["problem"] for name, said in asked]

    no_episode, no_notes, nobody = run_async(talk)
    assert "There is no episode 'none'" in no_episode
    assert "This lab has no notes" in no_notes
    assert "No campaign runs" in nobody


def test_the_client_is_told_which_tools_write(tmp_path: Path) -> None:
    record_campaign(tmp_path).flush()

    async def talk() -> dict[str, bool | None]:
        async with Client(tool_server(open_client(tmp_path))) as client:
            listed = (await client.list_tools()).tools
            return {tool.name: tool.annotations and tool.annotations.read_only_hint for tool in listed}

    assert {name for name, reads in run_async(talk).items() if reads is False} == WRITING
    assert {name for name, reads in run_async(talk).items() if reads is True} == set(tools.BY_NAME) - WRITING


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/", "/anything"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_no_http_method_and_no_path_passes_without_the_token(method: str, path: str) -> None:
    reached: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["method"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def status(headers: dict[str, str]) -> int:
        transport = httpx.ASGITransport(app=guarded(app, TOKEN))  # pyright: ignore[reportArgumentType]
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.request(method, path, headers=headers)).status_code

    for wrong in ({}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": f"Basic {TOKEN}"}, {"cookie": TOKEN}):
        assert run_async(status, wrong) == 401
    assert reached == []
    assert run_async(status, {"authorization": f"Bearer {TOKEN}"}) == 204
    assert reached == [method]


def test_http_needs_the_token(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    with served(http_app(open_client(tmp_path), TOKEN)) as url:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            refused = httpx.post(url, json={}, headers=headers)
            assert refused.status_code == 401
            assert refused.headers["content-type"] == "application/problem+json"
            assert (refused.json()["type"], refused.json()["status"]) == ("about:blank", 401)
            assert "bearer token is missing or wrong: send" in refused.json()["detail"]
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        ask = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/json, text/event-stream"}
        welcome = httpx.post(url, json=ask, headers=headers)
        assert welcome.status_code == 200
        assert "enpire" in welcome.text
        headers["content-type"] = "application/json"
        whole = json.dumps(ask).encode().ljust(262_144)
        assert httpx.post(url, content=whole, headers=headers).status_code == 200
        assert httpx.post(url, content=whole + b" ", headers=headers).status_code == 413


@pytest.mark.slow
def test_every_tool_answers_beside_simulated_robots(tmp_path: Path) -> None:
    """A campaign of pin_insertion in another process; both servers as the command line starts them."""
    home = open_home(tmp_path / "home")
    keep_note(home.root)
    with running(tmp_path, home.root) as campaign_id:
        episode_id, frames = filmed(home, campaign_id)
        changes = {"learning_rate": 0.0005}
        peer = submit(LabClient(home.root, Sender(campaign_id=campaign_id, author="test", lane="peer")), passes=14.0)
        known = Known(episode_id=episode_id, peer=peer, words=WORDS, changes=changes)

        async def talk() -> list[dict[str, Mapping[str, Any]]]:
            async with Client(command_line(home.root)) as client:
                local = await every_tool(client, known)
            with listening(home.root) as url:
                async with over_http(url, TOKEN) as client:
                    return [local, await every_tool(client, known)]

        for said in run_async(talk):
            check_answers(said, known, frames)


def filmed(home: Home, campaign_id: str) -> tuple[str, int]:
    """Wait for a demonstration, pause the campaign, and take the episode's pictures; its id and number of frames."""
    page, deadline = Page(campaign_id=campaign_id, purpose="demonstrate", outcome="success"), time.monotonic() + 300
    rows: list[EpisodeLine] = []
    while not rows and time.monotonic() < deadline:
        time.sleep(0.5)
        with campaigns.open_records(home.root) as records:
            rows = list(campaigns.episodes(records, page).rows)
    operator_commands.leave(home.inbox, "pause campaign", campaign_id=campaign_id)
    ledger = open_to_read(home.ledger)
    made = replay_images(home, ledger, rows[0].order_id)
    ledger.close()
    assert made.count > 4, made.why
    return rows[0].order_id, rows[0].ticks


@contextmanager
def listening(home: Path) -> Iterator[str]:
    """`enpire mcp --http` as a process; its address."""
    port = free_port()
    parameters = command_line(home, "--http", f"127.0.0.1:{port}", "--lane", "web")
    environment = {**os.environ, "ENPIRE_MCP_TOKEN": TOKEN}
    server = subprocess.Popen([parameters.command, *parameters.args], env=environment)
    try:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        server.wait(600)
