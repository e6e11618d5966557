"""`enpire ledger verify | head | tail | recompute | restore`."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import AsJson, Home, answer, as_document, existing_home, table
from enpire.errors import UsageError

if TYPE_CHECKING:
    from enpire.service.reading import Records

DIFFERENT = 1


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="The ledger: verify, head, tail, recompute, restore.", no_args_is_help=True)
    for name, function in (
        ("verify", verify), ("head", head), ("tail", tail), ("recompute", recompute), ("restore", restore),
    ):  # fmt: skip
        group.command(name)(function)
    app.add_typer(group, name="ledger")


Evidence = Annotated[
    Path | None, typer.Argument(help="A file of `enpire campaign export`; without one, the home's ledger.")
]


@contextmanager
def _records(evidence: Path | None, home: Path | None) -> Generator[tuple[Records, str]]:
    """(records of an evidence file or of a home, the head that the evidence file names)."""
    from enpire.service import reading
    from enpire.service.auditing import opened_evidence

    with ExitStack() as stack:
        if evidence is None:
            yield stack.enter_context(reading.open_records(existing_home(home))), ""
        elif home is not None:
            raise UsageError("Give an evidence file or --home, not both.")
        else:
            folder, manifest = stack.enter_context(opened_evidence(evidence))
            yield stack.enter_context(reading.open_records(folder)), manifest.head


def verify(
    evidence: Evidence = None,
    home: Home = None,
    expect: Annotated[
        str, typer.Option(help="A head noted earlier, SEQUENCE:HASH; the ledger must contain it.", metavar="HEAD")
    ] = "",
    ledger_only: Annotated[bool, typer.Option("--ledger-only", help="Do not read the files of the episodes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the ledger, the orders table and the files of all episodes; exit code 1 if a file differs."""
    from enpire.commands.progress_bar import Bar
    from enpire.service.auditing import audit_records

    with _records(evidence, home) as (records, filed), Bar("events") as bar:
        files = evidence is None and not ledger_only
        found = audit_records(records, expect=expect or filed, files=files, progress=bar.show)
    answer(found, as_json=as_json, text="\n".join(found.sentences()))
    if not found.sound:
        raise typer.Exit(DIFFERENT)


def head(
    home: Home = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write it to this new file, for a notary outside of this computer.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show number and hash of the last event, SEQUENCE:HASH. Noted elsewhere, it makes a rewritten history show."""
    from enpire.service import reading
    from enpire.service.auditing import write_head

    with reading.open_records(existing_home(home)) as records:
        found = records.ledger.examine().head
    if out is not None:
        write_head(found, out)
    answer({"head": str(found)}, as_json=as_json, text=str(found))


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


def recompute(evidence: Evidence = None, home: Home = None, as_json: AsJson = False) -> None:
    """Verify the ledger, then compute every decision again from the records; exit code 1 if one differs."""
    from enpire.commands.progress_bar import Bar
    from enpire.queries import texts
    from enpire.service.decisions import recompute as again

    with _records(evidence, home) as (records, _), Bar("events") as bar:
        events = records.ledger.verify(partial(bar.show, "verified events"))
        checks = again(records.ledger, lambda seq: bar.show("events", seq, events))
    rows = [
        ("equal" if check.equal else "DIFFERENT", f"{check.kind} {texts.short(check.subject)}", check.sentence)
        for check in checks
    ]
    answer(checks, as_json=as_json, text=table(("decision", "of", "computed again"), rows))
    if not all(check.equal for check in checks):
        raise typer.Exit(DIFFERENT)


def restore(
    copy: Annotated[
        Path | None, typer.Argument(help="Copy of the ledger to put in place; without one, the copies are listed.")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Put a verified copy in place of a damaged ledger; events after the copy are lost. Without COPY: list them."""
    import getpass

    from enpire.errors import EnpireError
    from enpire.home import Home as Folder
    from enpire.home import find_home
    from enpire.service.auditing import copies, verify_copy
    from enpire.service.running import restore_ledger

    folder = Folder(find_home(home))
    if copy is not None:
        done = restore_ledger(folder, copy, getpass.getuser())
        lost = f"; the replaced ledger ended with {done.lost}" if done.lost is not None else ""
        text = (
            f"The ledger is now {copy.name}, which ends with {done.head}{lost}. The replaced file is {done.replaced}."
        )
        return answer(done, as_json=as_json, text=text)
    if not (folder.ledger.is_file() or (folder.root / "copies").is_dir()):
        raise UsageError(f"{folder.root} has no ledger and no copy of one; name another folder with --home.")
    rows: list[tuple[str, ...]] = []
    for path in copies(folder.ledger):
        try:
            found = verify_copy(path, folder.root)
            rows.append((str(path), str(found.head.seq), str(found.orders), "verified"))
        except EnpireError as problem:
            rows.append((str(path), "", "", str(problem)))
    names = ("copy", "events", "orders", "state")
    shown = table(names, rows) if rows else f"There is no copy of the ledger in {folder.root / 'copies'}."
    answer([dict(zip(names, row, strict=True)) for row in rows], as_json=as_json, text=shown)
