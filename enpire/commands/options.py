"""Shared by the subcommands: their common options, how they print, how they send a command to the campaign."""

from __future__ import annotations

import getpass
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from enpire.errors import UsageError
from enpire.log_lines import print_line

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Home folder of the lab; default: $ENPIRE_HOME, else ./.enpire.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
ANSWERED_S = 2.0
"""How long a subcommand waits for the effect of its command, in seconds."""
AllowKind = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-kind",
        metavar="MODULE:NAME",
        help="Also load versions of this kind, which can be any code; the option may be repeated.",
    ),
]
LARGEST_SEED = 2**63 - 1
"""The largest number that a ledger stores."""
CampaignId = Annotated[
    str, typer.Argument(help="Id (or its beginning) or name of a campaign; default: the latest.", metavar="[ID]")
]


def existing_home(given: Path | None) -> Path:
    """The home folder of a subcommand that reads.

    Raises:
        UsageError: it has no ledger.
    """
    from enpire.home import find_home

    home = find_home(given)
    if not (home / "ledger.db").is_file():
        raise UsageError(
            f"{home} has no ledger.db, so nothing can be read: start a campaign with `enpire demo` or `enpire run`, "
            "or name another folder with --home."
        )
    return home


def at_home(home: Path) -> str:
    """` --home FOLDER` for a printed command; empty where the command finds this home without it."""
    from enpire.home import find_home

    return "" if home.resolve() == find_home() else f" --home {shlex.quote(str(home))}"


def require_kinds(given: list[str] | None) -> tuple[str, ...]:
    """The kinds that `--allow-kind` names; UsageError for one that is no module:name."""
    from enpire.plugins import require_addresses

    try:
        require_addresses(given or ())
    except ValueError as problem:
        raise UsageError(f"--allow-kind: {problem}") from problem
    return tuple(given or ())


def answer(document: object, *, as_json: bool, text: str) -> None:
    """Print a document: as JSON for programs, as text for people."""
    print(as_document(document) if as_json else text)


def as_document(document: object, indent: int | None = 2) -> str:
    """A dataclass, or a sequence of them, as JSON; ValueError for a number that is not finite."""
    from enpire.files import plain

    return json.dumps(plain(document), indent=indent, ensure_ascii=False, allow_nan=False)


def log(line: str) -> None:
    """Print one line on stderr; stdout is for the result."""
    print_line(line, sys.stderr)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table of text, columns aligned with spaces."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def send_command(  # noqa: PLR0913 - a command's own fields
    home: Path, typed: str, kind: str, target: str = "", reason: str = "", seen: int = 0
) -> None:  # fmt: skip
    """Send a command to the running campaign under the login name of the user; print its state after two seconds.

    Args:
        home: of the campaign.
        typed: the subcommand, as the user typed it.
        kind: of the command: stop, pause, resume, ...
        target: a station, a policy version, an experiment or an episode; empty for none.
        reason: in the words of the user; the ledger keeps it.
        seen: number of the newest event that the user saw; 0: the newest now.

    Raises:
        UsageError: the campaign refused the command, or none runs. (A later campaign must not get it.)
    """
    from enpire.campaign.command_events import CommandEvent, CommandRefused, CommandRequested
    from enpire.service.asking import leave_command
    from enpire.service.reading import events_after, is_driven, last_events, latest_begun, open_records
    from enpire.service.watching import state_after

    if not is_driven(home):
        raise UsageError(
            f"No campaign runs in {home}, so `enpire {typed}` has no effect; `enpire run{at_home(home)}` starts one."
        )
    state, deadline = "", time.monotonic() + ANSWERED_S
    with open_records(home) as records:
        seq = max((entry.seq for entry in last_events(records, 1)), default=0)
        campaign_id = latest_begun(records)
        command_id = leave_command(
            home / "inbox", kind, target, getpass.getuser(), reason=reason, campaign_id=campaign_id, seen=seen or seq
        )
        while state != "effective" and time.monotonic() < deadline:
            time.sleep(0.05)
            for entry in events_after(records, seq):
                seq, event = entry.seq, entry.event
                if isinstance(event, CommandEvent) and event.command_id == command_id:
                    if isinstance(event, CommandRefused):
                        raise UsageError(f"`enpire {typed}` was refused: {event.why}.")
                    state = "" if isinstance(event, CommandRequested) else state_after(event)
    result = state or f"requested; no answer within {ANSWERED_S:.0f} s"
    more = "" if state == "effective" else f"; `enpire ledger tail{at_home(home)}` shows its later state"
    log(f"{typed}: {result} (command {command_id}){more}.")
