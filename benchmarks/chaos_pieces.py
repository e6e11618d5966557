"""What runs of `benchmarks.chaos` found: each is a piece, kept as one line of a file, and pieces add up."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos_stops import Stops
from enpire.commands.runs import GOAL_MISSED
from enpire.errors import UsageError
from tests.chaos.harness import Audit


@dataclass(frozen=True, kw_only=True)
class Piece:
    """The result of one run."""

    seed: int
    wall_s: float
    events: dict[str, int]
    """Failure -> how often it was caused."""
    in_commit: dict[str, int]
    """Kills inside a commit: `hot` left a journal that only a writer can undo, `whole` did not."""
    restarted: dict[str, int]
    """Station -> how often it ended by itself and was started again."""
    verdicts: int
    """Episodes with a verdict that the witness saw in spools."""
    found: Audit | None
    """None: there was no audit."""
    stops: Stops
    code: int | None
    """Exit code of the campaign's last process; None: it did not end."""
    error: str
    """Why the run broke off; empty if it did not."""
    commit: str
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    """Load of the machine in the last minute of the run."""

    def problems(self) -> list[str]:
        """What went wrong, without the times of the stops."""
        named = [f"the run broke off: {self.error}"] if self.error else []
        if self.code != GOAL_MISSED and not self.error:
            named.append(f"the orchestrator ended with {self.code}")
        found = [*named, *(self.found.problems() if self.found else ()), *self.stops.problems]
        return [f"seed {self.seed}: {problem}" for problem in found]


def read(file: Path) -> list[Piece]:
    """All pieces of a file; none if there is no file.

    Raises:
        UsageError: it is damaged.
    """
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if text and not text.endswith("\n"):
        raise UsageError(f"The last line of {file} is not whole: remove it.")
    try:
        return [_piece(json.loads(line)) for line in text.splitlines()]
    except (ValueError, TypeError, LookupError) as problem:
        raise UsageError(f"{file} holds a line that is no result of this benchmark: {problem}.") from problem


def check(file: Path, seed: int, at: str) -> None:
    """Check that the result of a run at a commit can be added to a file.

    Raises:
        UsageError: the file is damaged, of another commit, or holds a run with this seed.
    """
    pieces = read(file)
    if others := {piece.commit for piece in pieces} - {at}:
        raise UsageError(f"{file} holds runs of the commit {', '.join(sorted(others))}, and this is {at}.")
    if any(piece.seed == seed for piece in pieces):
        raise UsageError(f"{file} holds a run with the seed {seed}: choose another seed.")


def keep(file: Path, piece: Piece) -> list[Piece]:
    """Add a piece to a file; returns all pieces of the file."""
    with file.open("a", encoding="utf-8") as written:
        written.write(json.dumps(piece, default=vars) + "\n")
    return read(file)


def _piece(kept: dict[str, Any]) -> Piece:
    found = Audit(**kept["found"]) if kept["found"] is not None else None
    return Piece(**{**kept, "stops": Stops(**kept["stops"]), "found": found})


def stops_of(pieces: Sequence[Piece]) -> Stops:
    """The stops of all pieces."""
    return Stops(
        from_accepted_ms=[ms for piece in pieces for ms in piece.stops.from_accepted_ms],
        from_request_ms=[ms for piece in pieces for ms in piece.stops.from_request_ms],
        problems=[problem for piece in pieces for problem in piece.stops.problems],
        trials=sum(piece.stops.trials for piece in pieces),
        sent=sum(piece.stops.sent for piece in pieces),
    )


def summary(pieces: Sequence[Piece]) -> str:
    """The result of all pieces as text."""

    def added(name: str) -> Counter[str]:
        return sum((Counter(getattr(piece, name)) for piece in pieces), Counter[str]())

    found = [piece.found for piece in pieces if piece.found]
    audited = [piece for piece in pieces if piece.found]
    ended = sum(piece.code == GOAL_MISSED and not piece.error for piece in pieces)
    events, in_commit = added("events"), added("in_commit")
    kills = sum(number for name, number in events.items() if name.startswith("kill -9"))
    orchestrator = sum(
        number for name, number in events.items() if name.startswith(("kill -9 orchestrator", "kill -9 everything"))
    )
    ends = sum((Counter(one.outcomes) for one in found), Counter[str]())
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in sorted(ends.items()))
    caused = sum(sum(piece.events.values()) for piece in audited)
    orders, seen = sum(one.orders for one in found), sum(piece.verdicts for piece in audited)
    lost, doubled = sum(len(one.lost) for one in found), sum(len(one.doubled) for one in found)
    loads = [piece.load for piece in pieces]
    return "\n".join(
        [
            *(f"{number:5d}  {name}" for name, number in sorted(events.items())),
            f"{events.total():5d}  events in {sum(piece.wall_s for piece in pieces):.0f} s, {len(pieces)} campaigns, "
            f"load {min(loads):.1f} to {max(loads):.1f}",
            f"kills     {kills}, {orchestrator} of them of the orchestrator; inside a commit {in_commit.total()}, of "
            f"which {in_commit['hot']} left a write that only a writer can undo",
            f"ended     {ended} of {len(pieces)} campaigns by their operator, {len(audited)} were audited",
            f"restarts  of stations that ended by themselves: {dict(added('restarted')) or 'none'}",
            f"orders    {orders}: {outcomes}, {sum(one.open for one in found)} open",
            f"witnessed {sum(one.witnessed for one in found)} episodes in spools, {seen} of them with a verdict",
            f"lost      {lost} of {seen}: below {bound(lost, seen)} at 95 %",
            f"doubled   {doubled} of {orders}: below {bound(doubled, orders)} at 95 %",
            f"per event {bound(lost + doubled, caused)} at 95 % that one loses or doubles any",
            f"ledger    {sum(one.events for one in found)} events, "
            f"the chain verifies in {len(audited)} of {len(pieces)} campaigns; "
            f"{sum(len(one.different) for one in found)} decisions recompute differently; files: "
            f"{'; '.join(one.store for one in found if one.store) or 'agree with the ledger'}; "
            f"{sum(one.refused for one in found)} deliveries refused",
            *stops_of(pieces).lines(),
        ]
    )


def bound(bad: int, n: int) -> str:
    """The rule of three for 0 in n; otherwise the measured rate."""
    if not n:
        return "unknown"
    return f"3/{n} = {3 / n:.2g}" if not bad else f"(seen) {bad / n:.2g}"
