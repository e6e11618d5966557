"""The official MCP client, and one walk over every tool that gets an answer of substance from each."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.agent_loop.test_proposal_lifecycle import CLAIM


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What there is to ask about."""

    episode_id: str
    """Of the train split, with a recording and pictures."""
    peer: str
    """A queued experiment of another lane."""
    words: str
    """They stand in the lab's notes."""
    changes: Mapping[str, object]
    """A candidate that nobody has tried."""


def answered(result: types.CallToolResult) -> Mapping[str, Any]:
    """The document of an answer, with its pictures by name; `problem` where the tool refused."""
    block, *rest = result.content
    assert isinstance(block, types.TextContent)
    if result.is_error:
        return {"problem": block.text}
    said = json.loads(block.text)
    data = [base64.b64decode(item.data) for item in rest if isinstance(item, types.ImageContent)]
    return {**said, "pictures": dict(zip(said["pictures"], data, strict=True))} if data else said


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Client]:
    """A client of a server that wants a bearer token."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=600) as line,
        Client(streamable_http_client(url, http_client=line)) as client,
    ):
        yield client


async def every_tool(client: Client, known: Known) -> dict[str, Mapping[str, Any]]:
    """Use every tool once, in an order that makes sense; what each answered."""
    said: dict[str, Mapping[str, Any]] = {}

    async def use(name: str, **arguments: object) -> Mapping[str, Any]:
        said[name] = answered(await client.call_tool(name, arguments))
        assert "problem" not in said[name], (name, said[name])
        return said[name]

    await use("get_brief")
    await use("search_notes", words=known.words)
    await use("get_episode", episode_id=known.episode_id)
    after = (await use("wait", seconds=0.0))["after"]
    adopted = await use("adopt", experiment_id=known.peer)
    edge = {"kind": "adopts", "to": adopted["hypothesis_id"]}
    made = await use("propose_hypothesis", **CLAIM, edges=[edge])
    mine = await use("submit_candidate", hypothesis_id=made["hypothesis_id"], changes=dict(known.changes))
    await use("get_experiment", experiment_id=mine["experiment_id"])
    await use("get_diff", experiment_id=mine["experiment_id"], against=known.peer)
    await use("post_finding", text="it waits", about=mine["experiment_id"])
    await use("query_findings", words="waiting")
    await use("wait", seconds=20.0, after=after)
    await use("list_experiments")
    await use("give_up", reason="the end of the test", about=mine["experiment_id"])
    await use("finish", summary="one proposal, taken back")
    return said


def check_answers(said: Mapping[str, Mapping[str, Any]], known: Known, frames: int) -> None:
    """That every answer holds what it should; `frames` were recorded of the episode."""
    assert said["get_brief"]["recorded"] is True
    assert set(known.changes) <= set(said["get_brief"]["space"])
    assert said["search_notes"]["passages"][0]["file"] == "grip.md"
    check_episode(said["get_episode"], known, frames)
    mine, proposed = said["submit_candidate"]["experiment_id"], said["propose_hypothesis"]["hypothesis_id"]
    listed = {item["experiment_id"]: item for item in said["list_experiments"]["experiments"]}
    assert said["adopt"]["changes"] == listed[known.peer]["changes"] != {}
    assert said["adopt"]["hypothesis_id"] == listed[known.peer]["hypothesis_id"]
    ideas = {item["hypothesis"]["hypothesis_id"]: item for item in said["list_experiments"]["hypotheses"]}
    assert said["adopt"]["hypothesis_id"] in str(ideas[proposed]["edges"])
    assert said["get_experiment"]["lane"] in listed[known.peer]["adopted_by"]
    assert (said["get_experiment"]["phase"], said["get_experiment"]["hypothesis_id"]) == ("queued", proposed)
    assert said["get_experiment"]["changes"] == dict(known.changes)
    assert len(said["submit_candidate"]["recipe_hash"]) == 64
    to = {name: change["to"] for name, change in said["get_diff"]["settings"].items()}
    assert known.changes.items() <= to.items()
    found = [(item["finding_id"], item["about"]) for item in said["query_findings"]["findings"]]
    assert (said["post_finding"]["finding_id"], mine) in found
    assert said["wait"]["something_happened"] is True
    assert said["wait"]["your_experiments"][-1]["experiment_id"] == mine
    assert said["give_up"] == {"noted": True, "scored": "neutral"}
    assert said["finish"] == {"noted": True, "over": True}


def check_episode(told: Mapping[str, Any], known: Known, frames: int) -> None:
    """Key frames that are pictures, and series that were thinned to the same moments."""
    assert told["episode_id"] == known.episode_id
    assert told["ticks"] == frames > 48
    assert len(told["frames"]) == 48
    assert told["frames"] == sorted(set(told["frames"]))
    assert (told["frames"][0], told["frames"][-1]) == (0, frames - 1)
    assert {len(column) for series in ("state", "action") for column in told[series]} == {48}
    assert len(told["source"]) == 48
    assert len(told["pictures"]) == 4
    assert all(picture.startswith(b"\xff\xd8") for picture in told["pictures"].values())
    assert all(name.endswith(".jpg") for name in told["pictures"])
