"""`enpire ledger verify | tail | recompute`."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

import typer

from enpire.commands.options import AsJson, Home, answer, as_document, existing_home, table

DIFFERENT = 1


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="The ledger: verify, tail, recompute.", no_args_is_help=True)
    for name, function in (("verify", verify), ("tail", tail), ("recompute", recompute)):
        group.command(name)(function)
    app.add_typer(group, name="ledger")


def verify(home: Home = None, as_json: AsJson = False) -> None:
    """Check the hash chain over all events; the error names the first bad event."""
    from enpire.commands.progress_bar import Bar
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records, Bar("events") as bar:
        count = records.ledger.verify(partial(bar.show, "events"))
    document = {"events": count, "chain": "intact"}
    answer(document, as_json=as_json, text=f"The chain over {count} events is intact.")


def tail(
    home: Home = None,
    number: Annotated[int, typer.Option("-n", help="Number of events.", min=1, max=10**9)] = 20,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new events until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the last events, one per line (--json: one list; --json --follow: one document per line)."""
    from enpire.queries import texts
    from enpire.service import reading

    folder, seen = existing_home(home), 0
    with reading.open_records(folder) as records:
        events = reading.last_events(records, number)
    if not follow:
        documents = [entry.document() for entry in events]
        answer(documents, as_json=as_json, text="\n".join(map(texts.event, events)))
        return
    while True:
        for event in events:
            seen = event.seq
            print(as_document(event.document(), indent=None) if as_json else texts.event(event), flush=True)
        time.sleep(0.5)
        with reading.open_records(folder) as records:  # anew: an orchestrator may have died in a write since
            events = reading.events_after(records, seen)


def recompute(home: Home = None, as_json: AsJson = False) -> None:
    """Compute every decision again from the records; exit code 1 if one differs."""
    from enpire.commands.progress_bar import Bar
    from enpire.queries import texts
    from enpire.service import reading
    from enpire.service.auditing import recompute as again

    with reading.open_records(existing_home(home)) as records, Bar("events") as bar:
        last = reading.last_events(records, 1)
        checks = again(records.ledger, lambda seq: bar.show("events", seq, last[-1].seq))
    rows = [
        ("equal" if check.equal else "DIFFERENT", f"{check.kind} {texts.short(check.subject)}", check.sentence)
        for check in checks
    ]
    answer(checks, as_json=as_json, text=table(("decision", "of", "computed again"), rows))
    if not all(check.equal for check in checks):
        raise typer.Exit(DIFFERENT)
