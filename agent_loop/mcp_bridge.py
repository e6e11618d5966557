"""The MCP server of a room's tools: `python -m agent_loop.mcp_bridge SOCKET`, started by a coding CLI in the room."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from agent_loop.mcp_stdio import StdioServer, ToolSet
from enpire.errors import EnpireError


def open_tools(path: Path) -> ToolSet:
    """The tools at the room's socket."""
    from agent_loop.tool_socket import remote_tools

    return remote_tools(path)


if __name__ == "__main__":
    try:
        StdioServer(partial(open_tools, Path(sys.argv[1]))).serve()
    except EnpireError as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(1)
