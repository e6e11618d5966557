"""Event loops in tests. A browser of the same worker keeps one in the main thread, so others need their own thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import anyio


def run_async[T](talk: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run a coroutine function to its end in an event loop of its own thread, and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, partial(talk, *args)).result()
