"""The process of the model gateway: `python -m agent_loop.model_gateway.process HOME CAMPAIGN`.

One runs in each home. A second one waits until the first has ended, so that no two count the same budget.
"""

from __future__ import annotations

import asyncio
import fcntl
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from agent_loop.model_gateway.gateway import Gateway
from enpire.errors import EnpireError
from enpire.log_lines import print_line
from enpire.service.processes import die_with_parent, model_socket, remove_socket

WAITING = 128
"""Connections that may wait to be accepted."""


async def serve(home: Path, campaign_id: str) -> None:
    """Answer at the home's socket until this process is asked to end; then let the running calls end."""
    gateway = Gateway(home, print_line)
    gateway.open_campaign(campaign_id)
    address = model_socket(home)
    with socket.socket(socket.AF_UNIX) as listening:
        remove_socket(address)
        listening.bind(str(address))
        listening.listen(WAITING)
        config = uvicorn.Config(
            gateway.app(), http="h11", log_level="warning", ws="none", lifespan="off", access_log=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        await uvicorn.Server(config).serve(sockets=[listening])
    await gateway.close()


def main(arguments: list[str]) -> int:
    """Serve the gateway of a home."""
    home, campaign_id = Path(arguments[0]), arguments[1]
    if "--die-with-parent" in arguments:
        die_with_parent(signal.SIGTERM)
    try:
        lock = model_socket(home).with_suffix(".lock").open("a")
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            asyncio.run(serve(home, campaign_id))
    except EnpireError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
