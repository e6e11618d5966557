"""Tools and their answers in the form of the Model Context Protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from agent_loop import tools
from agent_loop.lab_client import LabClient
from agent_loop.mcp_stdio import ToolAnswer, ToolSet
from enpire.errors import EnpireError, UsageError
from enpire.ids import file_name
from enpire.service import reading
from enpire.service.asking import Sender

CallTool = Callable[[str, Mapping[str, object]], dict[str, object]]
"""Calls a tool by name; raises EnpireError where it refuses."""


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


def load_code(client: LabClient, tool: str, arguments: Mapping[str, object]) -> tuple[str, Mapping[str, str]]:
    """Call `adopt` or `revert_code`; the commit and its files.

    Raises:
        UsageError: the adopted experiment holds no code.
    """
    done = tools.call(client, tool, arguments)
    if "commit" not in done:
        raise UsageError("That experiment changes settings of a recipe and holds no code; nothing was written.")
    return str(done["commit"]), cast("Mapping[str, str]", done["files"])


def tool_set(call: CallTool, listed: Sequence[tools.Tool] = tools.TOOLS) -> ToolSet:
    """The tools, called by a function."""
    return ToolSet(listing=[described(tool) for tool in listed], call=partial(answered, call))


def described(tool: tools.Tool) -> dict[str, object]:
    """One tool."""
    hints = {"readOnlyHint": not tool.writes, "destructiveHint": False}
    return {
        "name": tool.name, "description": tool.description, "inputSchema": tool.schema(), "annotations": hints,
    }  # fmt: skip


def answered(call: CallTool, name: str, arguments: Mapping[str, object]) -> ToolAnswer:
    """What a tool answers: a text with JSON, then its images in the order in which the text names them."""
    try:
        answer = dict(call(name, arguments))
    except EnpireError as problem:
        return ToolAnswer(content=[{"type": "text", "text": str(problem)}], is_error=True)
    pictures = cast("list[Mapping[str, str]]", answer.get("pictures", []))
    if pictures:
        answer["pictures"] = [item["name"] for item in pictures]
    content: list[dict[str, object]] = []
    content.append({"type": "text", "text": json.dumps(answer, ensure_ascii=False)})
    for item in pictures:
        content.append({"type": "image", "data": item["base64"], "mimeType": item["media_type"]})
    return ToolAnswer(content=content)
