"""Search in conclusions of agents, of this campaign and earlier ones, and in the lab's folder of notes.

Results are ranked by BM25 (`enpire.store.text_search`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_loop.lab_client import LabClient
from enpire.campaign.agent_events import ConclusionPosted
from enpire.campaign.events import kinds_of
from enpire.errors import UsageError
from enpire.home import Home
from enpire.service import reading
from enpire.service.reading import ranked

SUFFIXES = (".md", ".txt")
LARGEST_FILE, LARGEST_FOLDER = 2 * 2**20, 64 * 2**20
"""Most bytes that are read of one file, and of all files."""
LONGEST = 1500
"""Most characters of one passage."""
MOST = 20
"""Most passages or conclusions of one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One paragraph of the lab's notes."""

    file: str
    line: int
    """Line of its beginning, from 1."""
    text: str


def document(conclusion: ConclusionPosted) -> dict[str, object]:
    """A conclusion as agents read it."""
    return {
        "finding_id": conclusion.conclusion_id, "author": conclusion.author, "lane": conclusion.lane,
        "about": conclusion.about, "text": conclusion.text,
    }  # fmt: skip


def conclusions(client: LabClient, words: str, about: str, lane: str) -> list[dict[str, object]]:
    """Conclusions of this home's campaigns of the same task, newest campaign first, at most MOST.

    Of the present campaign, they are those that the session may see. Empty arguments filter nothing: `words` to search
    for, `about` an experiment or hypothesis, `lane` an agent session.
    """
    plan, present = client.plan(), client.sender
    with reading.open_records(client.home) as records:
        lines = reading.campaigns(records)
        task = next(line.task for line in lines if line.id == present.campaign_id)
        posted = [
            (line.id, entry.event)
            for line in lines if line.task == task
            for entry in reversed(records.reading.events(0, line.id, kinds_of(ConclusionPosted)))
        ]  # fmt: skip
    found: list[dict[str, object]] = [
        {"campaign": campaign_id, **document(event)}
        for campaign_id, event in posted
        if isinstance(event, ConclusionPosted)
        and about in ("", event.about)
        and lane in ("", event.lane)
        and (campaign_id != present.campaign_id or plan.between(present.lane, event.lane) == "adopt")
    ]
    if not words.strip():
        return found[:MOST]
    return [found[index] for index in ranked([str(item["text"]) for item in found], words, MOST)]


def passages(home: Home, words: str) -> list[Passage]:
    """Paragraphs of the notes folder that contain any of the words, best match first, at most MOST.

    Raises:
        UsageError: the home has no folder of notes.
    """
    if not home.notes.is_dir():
        raise UsageError(f"This lab has no notes; operators may put {' and '.join(SUFFIXES)} files into {home.notes}.")
    found = list(_paragraphs(home.notes))
    return [found[index] for index in ranked([item.text for item in found], words, MOST)]


def _paragraphs(folder: Path) -> Iterator[Passage]:
    left = LARGEST_FOLDER
    for path in sorted(folder.rglob("*")):
        inside = path.resolve().is_relative_to(folder.resolve())
        if path.suffix.lower() not in SUFFIXES or not (inside and path.is_file()) or left <= 0:
            continue
        with path.open("rb") as file:
            data = file.read(min(LARGEST_FILE, left))
        left -= len(data)
        text = data.decode("utf-8", errors="replace")
        for match in re.finditer(r"\S(?:.|\n(?!\s*\n))*", text):
            line = text.count("\n", 0, match.start()) + 1
            yield Passage(file=str(path.relative_to(folder)), line=line, text=match.group().strip()[:LONGEST])
