"""openpi's WebSocket policy protocol, written from its description and not with ENPIRE's own code.

Where `openpi-client` is installed, as `make setup` does, its own packer is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgpack
import numpy as np
from websockets.sync.server import ServerConnection, serve

msgpack_numpy: Any = import_module("openpi_client.msgpack_numpy") if find_spec("openpi_client") else None


def pack(content: Any) -> Any:
    if msgpack_numpy is not None:
        return msgpack_numpy.packb(content)

    def arrays(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}

    return msgpack.packb(content, default=arrays)


def unpack(data: Any) -> Any:
    if msgpack_numpy is not None:
        return msgpack_numpy.unpackb(data)

    def arrays(item: Any) -> Any:
        if b"__ndarray__" in item:
            return np.ndarray(buffer=item[b"data"], dtype=np.dtype(item[b"dtype"]), shape=item[b"shape"])
        return np.dtype(item[b"dtype"]).type(item[b"data"]) if b"__npgeneric__" in item else item

    return msgpack.unpackb(data, object_hook=arrays)


class OpenpiPeer:
    """A server as openpi's own: it answers each observation with what `infer` returns, an error with its text.

    Args:
        infer: observation -> answer.
        metadata: sent to each client first.
        port: 0 takes a free one.
    """

    def __init__(self, infer: Callable[[Any], Mapping[str, Any]], metadata: Mapping[str, Any], port: int = 0) -> None:
        self.infer, self.metadata = infer, metadata
        self.seen: list[Any] = []
        self.connections = 0
        self._server = serve(self._client, "127.0.0.1", port, compression=None, max_size=None)
        self.port = self._server.socket.getsockname()[1]
        self.address = f"ws://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _client(self, connection: ServerConnection) -> None:
        self.connections += 1
        connection.send(pack(dict(self.metadata)))
        for frame in connection:
            try:
                self.seen.append(unpack(frame))
                connection.send(pack(dict(self.infer(self.seen[-1]))))
            except ValueError as problem:
                connection.send(f"Traceback (most recent call last):\n  in infer\nValueError: {problem}")
                connection.close(1011, "Internal server error. Traceback included in previous frame.")

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


@contextmanager
def openpi_peer(
    infer: Callable[[Any], Mapping[str, Any]], metadata: Mapping[str, Any] | None = None, port: int = 0
) -> Iterator[OpenpiPeer]:
    peer = OpenpiPeer(infer, metadata or {}, port)
    try:
        yield peer
    finally:
        peer.close()
