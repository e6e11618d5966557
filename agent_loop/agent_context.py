"""What an agent receives when it is created."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DONE = "done: "
"""A turn that returns text with this prefix was the agent's last turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """The agent session, as its agent sees it. The tools are given with each turn."""

    seed: int
    lane: str
    """Name of the agent session."""
    work: Path
    """Folder for the agent's own files. In a sandbox it lies in memory and is empty after each start."""
    spent: Callable[[Mapping[str, object]], object]
    """Reports the tokens of one call of a language model: fresh, cached, output, model."""
    models: str = ""
    """Address of the model gateway inside the room; empty for an agent that calls no models."""
    lease: str = ""
    """The token for the model gateway, in the place of a provider's key."""
    programs: tuple[Path, ...] = ()
    """Programs of the system, and their files, that the agent named (`program_files`)."""
    log: Callable[[str], object] = lambda line: None
    """Appends a line to conversation.jsonl of the session, for operators to read."""
    kept: Sequence[str] = ()
    """What an earlier process of this session kept."""
    keep: Callable[[str, bool], object] = lambda line, anew: True
    """Keeps a line durably before it returns True; `anew` drops the earlier lines. False: too much is kept already."""
