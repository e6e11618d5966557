"""Waiting in tests: for something that must come, and for something that must not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 300.0
"""No criterion: a test that waits this long has failed anyway."""


def until(
    condition: Callable[[], object],
    what: str = "the condition",
    patience_s: float = PATIENCE_S,
    turn: Callable[[], object] = lambda: None,
) -> None:
    """Call `turn` until the condition holds; AssertionError with `what` when it does not in time."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {patience_s:g} s in vain for {what}"
        turn()
        time.sleep(0.01)


def never(
    condition: Callable[[], object],
    seconds: float,
    control: Callable[[], object],
    turn: Callable[[], object] = lambda: None,
) -> None:
    """Assert that the condition does not hold for a while, and that it does with `control`: this check can see it.

    `control` is called before each further `turn`, so it may ask for something that is granted for a short time only.
    """
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        turn()
        found = condition()
        assert not found, f"this must not come: {found}"
        time.sleep(0.01)

    def controlled_turn() -> None:
        control()
        turn()

    until(condition, "what must not have come before, and must now", turn=controlled_turn)


def has_ended(pid: int) -> bool:
    """Whether a process runs no more, from /proc; it may end, or be removed by its parent, while this looks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
