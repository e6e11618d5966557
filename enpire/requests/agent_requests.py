"""Wishes of agents to the loop: one durable file each, read once, answered by an event of the ledger.

An agent cannot write the ledger. It leaves a wish in the home's inbox; the loop checks it, appends an event that
carries the wish's id, and puts the file away. Nothing that is left here can stop the loop.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from enpire.errors import FileProblem, UsageError
from enpire.files import LARGEST_WHOLE, canonical, parse, plain
from enpire.ids import mint
from enpire.store import durable

Verb = Literal["hypothesis", "experiment", "adopt", "finding", "give up", "finish", "brief", "tokens", "turn"]
LARGEST = 16 * 1024
"""Bytes of one wish."""
LONGEST_WHOLE = 20
"""Characters of a whole number, with its sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One thing that an agent asks for."""

    wish_id: str
    campaign_id: str
    verb: Verb
    author: str
    """Which kind of agent: search, anthropic, mcp."""
    lane: str
    said: Mapping[str, object] = field(default_factory=dict[str, object])


def folder_of(inbox: Path) -> Path:
    """Where wishes lie, below the inbox of a home."""
    return inbox / "agents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who wishes; an agent cannot choose it, its tools are bound to it."""

    campaign_id: str
    author: str
    lane: str


def leave(inbox: Path, sender: Sender, verb: Verb, said: Mapping[str, object]) -> str:
    """Leave a wish; returns its id. UsageError when it is too large, or holds what the ledger cannot."""
    wish = Wish(
        wish_id=mint(), campaign_id=sender.campaign_id, verb=verb, author=sender.author, lane=sender.lane, said=said
    )  # fmt: skip
    try:
        data = json.dumps(plain(wish), allow_nan=False).encode()
        if len(data) > LARGEST:
            raise UsageError(f"What you say has {len(data)} bytes; at most {LARGEST} are taken: shorten it.")
        _decoded(data)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"What you say cannot be kept: {problem}.") from problem
    folder = folder_of(inbox)
    durable.make_folder(folder)
    durable.write(folder / f"{wish.wish_id}.json", data)
    return wish.wish_id


def waiting(inbox: Path, most: int = 20) -> Iterator[Wish | FileProblem]:
    """The oldest wishes; for a file that is none, its problem, and the file is set aside."""
    for path in sorted(folder_of(inbox).glob("*.json"))[:most]:
        try:
            yield _read(path)
        except FileProblem as problem:
            _away(path, "bad")
            yield FileProblem(str(problem).encode(errors="replace").decode())


def done(inbox: Path, wish: Wish) -> None:
    """Put a wish away."""
    _away(folder_of(inbox) / f"{wish.wish_id}.json", "done")


def _read(path: Path) -> Wish:
    try:
        # Neither a link nor a pipe that somebody planted: one leads elsewhere, the other keeps its reader waiting.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileProblem(f"The wish {path.name} is no plain file.")
            data = file.read(LARGEST + 1)
        content = _decoded(data) if len(data) <= LARGEST else None
    except (OSError, ValueError, RecursionError) as problem:
        if durable.is_spent():
            raise durable.spent(path) from problem
        raise FileProblem(f"The wish {path.name} cannot be read: {problem}.") from problem
    wish = parse(Wish, content, f"The wish {path.name}")
    if wish.wish_id != path.stem:
        raise FileProblem(f"The wish {path.name} says that its id is {wish.wish_id!r}.")
    return wish


def _decoded(data: bytes) -> object:
    """JSON that the ledger can hold: finite numbers, whole ones of 64 bits, whole characters; else ValueError."""
    content = json.loads(data, parse_int=_whole)
    canonical(content).encode()
    return content


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_WHOLE or not -LARGEST_WHOLE <= int(digits) <= LARGEST_WHOLE:
        raise ValueError(f"a whole number of {len(digits)} digits is too large")
    return int(digits)


def _away(path: Path, where: str) -> None:
    """Move it, whatever it is, to a place and a name that its author cannot have prepared."""
    target = path.parent.with_name(f"agents-{where}")
    target.mkdir(exist_ok=True)
    try:
        path.rename(target / f"{mint()}.json")
    except FileNotFoundError:
        return  # its author took it back
