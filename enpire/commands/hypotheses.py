"""`enpire hypothesis list | propose | reject | restore | pin | unpin`: what agents and operators believe."""

from __future__ import annotations

from typing import Annotated

import typer

from enpire.commands.options import AsJson, CampaignId, Home, answer, at_home, existing_home, send_command, table
from enpire.errors import UnknownName, UsageError

Which = Annotated[str, typer.Argument(help="Id of a hypothesis, or an unambiguous part of it.", metavar="ID")]
Reason = Annotated[str, typer.Option(help="Why, in one sentence; the ledger keeps it with your name.")]
Campaign = Annotated[str, typer.Option(help="Id or name of the campaign; default: the latest.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Hypotheses: list, propose, reject, restore, pin, unpin.", no_args_is_help=True)
    for name, function in (
        ("list", list_all), ("propose", propose), ("reject", reject), ("restore", restore), ("pin", pin),
        ("unpin", unpin),
    ):  # fmt: skip
        group.command(name)(function)
    app.add_typer(group, name="hypothesis")


def list_all(campaign: CampaignId = "", home: Home = None, as_json: AsJson = False) -> None:
    """List the hypotheses of a campaign, oldest first, with their newest experiment."""
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        past = reading.history(records, reading.find_campaign(records, campaign))
    newest = {one.hypothesis_id: one for one in past.proposals.experiments.values()}
    rows: list[tuple[str, ...]] = []
    for name, one in past.proposals.hypotheses.items():
        experiment = newest.get(name)
        state = (experiment.decision or experiment.phase) if experiment else "not tested"
        mark = f"{one.mark} by {one.marked_by}" if one.mark else "-"
        rows.append((name, one.hypothesis.lane, state, mark, one.hypothesis.statement))
    head = ("id", "session", "state", "mark", "statement")
    answer([dict(zip(head, row, strict=True)) for row in rows], as_json=as_json, text=table(head, rows))


def propose(
    changes: Annotated[
        list[str],
        typer.Argument(
            help="Changed settings, SETTING=VALUE; regime=NAME chooses a recipe of branches.",
            metavar="SETTING=VALUE...",
        ),
    ],
    statement: Annotated[str, typer.Option(help="What you believe, in one sentence.")],
    home: Home = None,
) -> None:
    """Propose a hypothesis and queue the experiment that tests it. It is trained and gated like one of an agent."""
    if not statement.strip():
        raise UsageError("--statement must say what you believe, such as 'more passes find more successes'.")
    send_command(
        existing_home(home), "hypothesis propose", "hypothesis propose", " ".join(changes), reason=statement.strip()
    )


def reject(which: Which, reason: Reason, campaign: Campaign = "", home: Home = None) -> None:
    """Reject a hypothesis: what waits is cancelled, and no experiment may test it until it is restored."""
    if not reason.strip():
        raise UsageError("--reason must say why, because agents read it.")
    _send("hypothesis reject", which, reason, campaign, home)


def restore(which: Which, reason: Reason = "", campaign: Campaign = "", home: Home = None) -> None:
    """Withdraw a rejection: the hypothesis may be tested again."""
    _send("hypothesis restore", which, reason, campaign, home)


def pin(which: Which, reason: Reason = "", campaign: Campaign = "", home: Home = None) -> None:
    """Pin a hypothesis: its experiments are tried before all others."""
    _send("hypothesis pin", which, reason, campaign, home)


def unpin(which: Which, reason: Reason = "", campaign: Campaign = "", home: Home = None) -> None:
    """Unpin a hypothesis: its experiments wait in the order of their submission."""
    _send("hypothesis unpin", which, reason, campaign, home)


def _send(kind: str, which: str, reason: str, campaign: str, home: Home) -> None:
    from enpire.service import reading

    folder = existing_home(home)
    with reading.open_records(folder) as records:
        past = reading.history(records, reading.find_campaign(records, campaign))
    known = list(past.proposals.hypotheses)
    found = [one for one in known if one == which] or [one for one in known if which in one]
    if len(found) != 1:
        some = f"{len(found)} hypotheses" if found else "no hypothesis"
        lists = f"`enpire hypothesis list{at_home(folder)}` lists the ids"
        raise UnknownName(f"{some} of this campaign match {which[:70]!r}; {lists}.")
    send_command(folder, kind, kind, found[0], reason=reason.strip())
