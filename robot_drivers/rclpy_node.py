"""A ROS 2 node over rclpy with a context and a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_CLOSING_S = 5.0
"""How long a thread may take to end [s]."""


class RclpyNode:
    """One node. Create topics and services on `node`, then call `spin`.

    Args:
        name: name of the node.
        domain: ROS 2 domain id, usually 0 to 101.
        loopback: find only nodes of this computer.
    """

    def __init__(self, name: str, domain: int, *, loopback: bool) -> None:
        import rclpy  # pyright: ignore[reportMissingImports]
        from rclpy.executors import SingleThreadedExecutor  # pyright: ignore[reportMissingImports]

        self._context: Any = rclpy.Context()
        with _range(loopback=loopback):
            rclpy.init(context=self._context, domain_id=domain)
            self.node: Any = rclpy.create_node(name, context=self._context)
        self._executor: Any = SingleThreadedExecutor(context=self._context)
        self._thread = threading.Thread(target=self._executor.spin, name=f"rclpy {name}", daemon=True)

    def spin(self) -> None:
        """Serve the topics and services of the node, in a thread of its own."""
        self._executor.add_node(self.node)
        self._thread.start()

    def close(self) -> None:
        """Leave the domain."""
        self._executor.shutdown(_CLOSING_S)
        if self._thread.ident is not None:
            self._thread.join(_CLOSING_S)
        self.node.destroy_node()
        self._context.try_shutdown()


@contextmanager
def _range(*, loopback: bool) -> Generator[None]:
    """Set the discovery range of a node that is created inside; ROS 2 reads it only from the environment, at start.

    Nodes that were started without any setting are found in this range, too.
    """
    mine = loopback and _RANGE not in os.environ
    if mine:
        os.environ[_RANGE] = "LOCALHOST"
    try:
        yield
    finally:
        if mine:
            del os.environ[_RANGE]
