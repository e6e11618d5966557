"""`enpire experiment list | rerun | approve | reject | quarantine | clear`: experiments, approvals, the quarantine."""

from __future__ import annotations

from typing import Annotated

import typer

from enpire.commands.options import AsJson, CampaignId, Home, answer, at_home, existing_home, send_command, table
from enpire.errors import UnknownName, UsageError

Subject = Annotated[
    str,
    typer.Argument(help="Id of an experiment, or of a policy version, or an unambiguous part of it.", metavar="ID"),
]
Reason = Annotated[str, typer.Option(help="Why, in one sentence; the ledger keeps it with your name.")]
Seen = Annotated[
    int,
    typer.Option(
        min=0, metavar="EVENT",
        help="Newest event that you saw (`enpire ledger tail`); what came later still holds it. Default: the newest.",
    ),
]  # fmt: skip
Campaign = Annotated[str, typer.Option(help="Id or name of the campaign; default: the latest.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Experiments: list, rerun, approve, reject, quarantine, clear.", no_args_is_help=True)
    group.command("list")(list_all)
    group.command("rerun")(rerun)
    group.command("approve")(approve)
    group.command("reject")(reject)
    group.command("quarantine")(quarantine)
    group.command("clear")(clear)
    app.add_typer(group, name="experiment")


def list_all(campaign: CampaignId = "", home: Home = None, as_json: AsJson = False) -> None:
    """List the experiments of a campaign, oldest first, and which of them are in quarantine."""
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        past = reading.history(records, reading.find_campaign(records, campaign))
    found = list(past.proposals.experiments.values())
    rows = [
        (one.experiment_id, one.lane, one.phase, one.decision or "-", one.quarantined or "no") for one in found
    ]  # fmt: skip
    head = ("id", "session", "phase", "decision", "quarantine")
    answer([dict(zip(head, row, strict=True)) for row in rows], as_json=as_json, text=table(head, rows))


def rerun(subject: Subject, reason: Reason, campaign: Campaign = "", home: Home = None) -> None:
    """Try a decided experiment again: its recipe is trained anew and gated on other hidden starts."""
    _send("experiment rerun", subject, reason, campaign, home)


def approve(subject: Subject, reason: Reason, campaign: Campaign = "", home: Home = None, seen: Seen = 0) -> None:
    """Approve an experiment or a candidate that waits for an approval, and that no tripwire holds."""
    _send("experiment clear", subject, reason, campaign, home, seen, approves=True)


def reject(subject: Subject, reason: Reason, campaign: Campaign = "", home: Home = None) -> None:
    """Reject what waits for an approval: the experiment ends, and its version stays in quarantine by your name."""
    _send("experiment quarantine", subject, reason, campaign, home)


def quarantine(subject: Subject, reason: Reason, campaign: Campaign = "", home: Home = None) -> None:
    """Keep an experiment, or a version, from gates and promotion until a person clears it."""
    _send("experiment quarantine", subject, reason, campaign, home)


def clear(subject: Subject, reason: Reason, campaign: Campaign = "", home: Home = None, seen: Seen = 0) -> None:
    """Clear an experiment that is in quarantine: its versions may enter gates again."""
    _send("experiment clear", subject, reason, campaign, home, seen)


def _send(  # noqa: PLR0913 - what the user typed
    kind: str, subject: str, reason: str, campaign: str, home: Home, seen: int = 0, *, approves: bool = False
) -> None:  # fmt: skip
    from enpire.service import reading
    from enpire.service.watching import APPROVALS

    if not reason.strip():
        raise UsageError("--reason must say why, because the ledger keeps it.")
    folder = existing_home(home)
    with reading.open_records(folder) as records:
        newest = max((entry.seq for entry in reading.last_events(records, 1)), default=0)
        past = reading.history(records, reading.find_campaign(records, campaign))
    known = [*past.proposals.experiments, *past.versions]
    found = [one for one in known if one == subject] or [one for one in known if subject in one]
    if len(found) != 1:
        some = f"{len(found)} experiments and versions" if found else "no experiment and no version"
        lists = f"`enpire experiment list{at_home(folder)}` lists the ids"
        raise UnknownName(f"{some} of this campaign match {subject[:70]!r}; {lists}.")
    held = [one for one in past.quarantines.views() if one.held and one.subject == found[0]]
    if approves and (suspected := [one for one in held if one.tripwire not in APPROVALS]):
        why = "; ".join(f"{one.tripwire}: {one.why.rstrip('.')}" for one in suspected)
        raise UsageError(
            f"{found[0]} is in quarantine ({why}). Look at that; `enpire experiment clear{at_home(folder)}` ends it."
        )
    send_command(folder, kind, kind, found[0], reason=reason.strip(), seen=seen or newest)
