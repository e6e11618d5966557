"""The tools of a room at a Unix socket, for programs in the room that speak MCP over `agent_loop.mcp_bridge`."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agent_loop.channel import LARGEST_ANSWER, LARGEST_CALL, Channel
from agent_loop.mcp_stdio import ToolAnswer, ToolSet
from enpire.errors import EnpireError, TransportProblem, UnknownName

if TYPE_CHECKING:
    from agent_loop.tools import Tool

Tools = Mapping[str, Callable[..., object]]


@contextmanager
def serve_tools(tools: Tools, listed: Sequence[Tool] = ()) -> Generator[Path]:
    """A socket at which the tools answer, for the time of the block.

    Args:
        tools: by name.
        listed: how clients see them; empty: as the lab describes its tools.
    """
    from agent_loop.tool_documents import tool_set
    from agent_loop.tools import TOOLS

    def call(name: str, arguments: Mapping[str, object]) -> dict[str, object]:
        if name not in tools:
            raise UnknownName(f"There is no tool {name!r}; there are: {', '.join(tools)}.")
        return dict(cast("Mapping[str, object]", tools[name](**arguments)))

    served = tool_set(call, listed or TOOLS)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / "tools"
        listening.bind(str(path))
        listening.listen()
        threading.Thread(target=_accept, args=(listening, served), daemon=True).start()
        yield path
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, served: ToolSet) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:  # the block has ended
            return
        threading.Thread(target=_answer, args=(connection, served), daemon=True).start()


def _answer(connection: socket.socket, served: ToolSet) -> None:
    """Answer the requests of one connection, one after the other."""
    with connection, contextlib.suppress(TransportProblem, TypeError):
        channel = Channel(connection, LARGEST_CALL)
        while (message := channel.receive()) is not None:
            if "call" not in message:
                channel.send({"listing": served.listing})
                continue
            answer = served.call(str(message["call"]), cast("Mapping[str, object]", message.get("arguments") or {}))
            channel.send({"content": answer.content, "is_error": answer.is_error})


def remote_tools(path: Path) -> ToolSet:
    """The tools at a socket, as `serve_tools` gives them.

    Raises:
        TransportProblem: no process answers there.
    """

    def ask(message: Mapping[str, object]) -> Mapping[str, object]:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(path))
            except OSError as problem:
                raise TransportProblem(f"The tools of the room do not answer ({problem.strerror}).") from problem
            channel = Channel(connection, LARGEST_ANSWER)
            channel.send(message)
            if (answer := channel.receive()) is None:
                raise TransportProblem("The room's tools ended before they answered.")
            return answer

    def call(name: str, arguments: Mapping[str, object]) -> ToolAnswer:
        try:
            answer = ask({"call": name, "arguments": dict(arguments)})
        except EnpireError as problem:
            return ToolAnswer(content=[{"type": "text", "text": str(problem)}], is_error=True)
        content = cast("list[dict[str, object]]", answer["content"])
        return ToolAnswer(content=content, is_error=bool(answer["is_error"]))

    return ToolSet(listing=cast("list[dict[str, object]]", ask({})["listing"]), call=call)
