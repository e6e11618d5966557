"""A task that has nothing but its contract: names, units and rate for the viewer."""

from __future__ import annotations

from enpire.types import Bounds, TaskSpec

SPEC = TaskSpec(
    name="tiny",
    instruction="Put the pin into the hole.",
    state=tuple(Bounds(name=name, unit="m", low=-0.1, high=0.1) for name in ("x", "y", "z")),
    action=tuple(Bounds(name=name, unit="m/s", low=-0.2, high=0.2) for name in ("vx", "vy", "vz")),
    rate_hz=20.0,
    limit_ticks=200,
)


class TinyTask:
    """Only `spec` is asked for here."""

    spec = SPEC


ADDRESS = "tests.web_ui.tiny_task:TinyTask"
