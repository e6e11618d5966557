"""What the verbs share: where the home is, how an answer is printed."""

from __future__ import annotations

import getpass
import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from enpire.errors import UsageError

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder with the lab's state; else $ENPIRE_HOME, else ./.enpire.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
ANSWERED_S = 2.0
"""So long a verb waits for what becomes of its command."""
CampaignId = Annotated[
    str, typer.Argument(help="Id (or its beginning) or name of a campaign; the latest when left out.", metavar="[ID]")
]


def existing_home(given: Path | None) -> Path:
    """The home of a reading verb; UsageError when nothing was ever recorded there."""
    from enpire.home import find_home

    home = find_home(given)
    if not (home / "ledger.db").is_file():
        raise UsageError(
            f"There is no lab in {home} (no ledger.db); start one with `enpire demo` or `enpire run`, "
            "or name another folder with --home."
        )
    return home


def answer(document: object, *, as_json: bool, text: str) -> None:
    """Print a view: as one JSON document for programs, as text for people."""
    print(as_document(document) if as_json else text)


def as_document(document: object, indent: int | None = 2) -> str:
    """A dataclass, or a sequence of them, as JSON; numbers that are not finite are refused."""
    from enpire.files import plain

    return json.dumps(plain(document), indent=indent, ensure_ascii=False, allow_nan=False)


def tell(line: str) -> None:
    """One line for a person, on stderr, so that stdout stays the answer."""
    print(line, file=sys.stderr, flush=True)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Columns of text aligned with spaces, as a person reads and `awk` splits them."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def order(home: Path, said: str, verb: str, target: str = "") -> None:
    """Leave a command for the running campaign, in the name of whoever is logged in, and tell what becomes of it.

    `said` is how a person types it. UsageError when the campaign refuses it, or when none runs: left lying, the command
    would hit the next one.
    """
    from enpire.service.asking import leave_command
    from enpire.service.reading import events_after, is_driven, last_events, latest_begun, open_records
    from enpire.service.watching import STATE_OF_EVENT

    if not is_driven(home):
        raise UsageError(
            f"No campaign runs in {home}, so nobody would carry out `enpire {said}`; `enpire run` starts one."
        )
    fate, deadline = "", time.monotonic() + ANSWERED_S
    with open_records(home) as records:
        seq = max((event.seq for event in last_events(records, 1)), default=0)
        campaign_id = latest_begun(records)
        command_id = leave_command(home / "inbox", verb, target, getpass.getuser(), campaign_id=campaign_id)
        while fate != "effective" and time.monotonic() < deadline:
            time.sleep(0.05)
            for event in events_after(records, seq):
                seq = event.seq
                if event.body.get("command_id") == command_id and event.kind in STATE_OF_EVENT:
                    fate = STATE_OF_EVENT[event.kind]
                    if fate == "refused":
                        raise UsageError(f"`enpire {said}` was refused: {event.body['why']}.")
    told = fate or f"requested; no answer within {ANSWERED_S:.0f} s"
    more = "" if fate == "effective" else "; `enpire ledger tail` shows what becomes of it"
    tell(f"{said}: {told} (command {command_id}){more}.")
