"""What an agent is made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

DONE = "done: "
"""A turn that says this first was the agent's last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """One lane, as its agent sees it beside the tools."""

    seed: int
    lane: str
    work: Path
    """Folder for its own notes."""
    spent: Callable[[Mapping[str, object]], object]
    """Tells the lab what a call of a language model cost: fresh, cached, output, model."""
