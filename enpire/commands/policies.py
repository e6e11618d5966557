"""`enpire policy list | show | promote | rollback | export | serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.options import AsJson, CampaignId, Home, answer, existing_home, order, table, tell

PolicyId = Annotated[str, typer.Argument(help="Id of a policy version, or its beginning.", metavar="ID")]
Campaign = Annotated[str, typer.Option(help="Id or name of a campaign; the latest when left out.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Policy versions: list, show, promote, rollback, export, serve.", no_args_is_help=True)
    verbs = (
        ("list", list_all), ("show", show), ("promote", promote), ("rollback", rollback), ("export", export),
        ("serve", serve),
    )  # fmt: skip
    for verb, function in verbs:
        group.command(verb)(function)
    app.add_typer(group, name="policy")


def list_all(campaign: CampaignId = "", home: Home = None, as_json: AsJson = False) -> None:
    """List the versions of a campaign, oldest first, with what the hidden starts said about each."""
    from enpire.queries import texts
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        versions = reading.versions(records, reading.find_campaign(records, campaign))
    rows = [
        (texts.short(item.id), item.state, str(item.round), texts.short(item.parent) or "-", texts.rate(item.hidden))
        for item in versions
    ]
    answer(versions, as_json=as_json, text=table(("id", "state", "round", "parent", "success on hidden starts"), rows))


def show(policy: PolicyId, campaign: Campaign = "", home: Home = None, as_json: AsJson = False) -> None:
    """Show one version: hashes, lineage and evidence."""
    from enpire.queries import texts
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        version = reading.find_version(records, reading.find_campaign(records, campaign), policy)
    answer(version, as_json=as_json, text=texts.version(version))


def promote(policy: PolicyId, campaign: Campaign = "", home: Home = None) -> None:
    """Ask the running campaign to make this version its champion, without a gate; recorded with your name."""
    from enpire.queries import texts
    from enpire.service import reading

    folder = existing_home(home)
    with reading.open_records(folder) as records:
        target = reading.find_version(records, reading.find_campaign(records, campaign), policy).id
    order(folder, f"policy promote {texts.short(target)}", "promote", target)


def rollback(home: Home = None) -> None:
    """Ask the running campaign to go back to the champion before this one; recorded with your name."""
    order(existing_home(home), "policy rollback", "rollback")


def export(
    policy: PolicyId,
    target: Annotated[Path, typer.Argument(help="New folder for the version's files.", metavar="DIR")],
    campaign: Campaign = "",
    home: Home = None,
) -> None:
    """Copy the files of a version to a new folder, checked against its hash; they are what stations run."""
    from enpire.service import reading
    from enpire.service.datasets import copy_version

    folder = existing_home(home)
    with reading.open_records(folder) as records:
        wanted = reading.find_version(records, reading.find_campaign(records, campaign), policy).id
    copy_version(folder, wanted, target)
    print(f"Version {wanted} is in {target}.")


def serve(
    bind: Annotated[
        str, typer.Option(help="Where stations ask, tcp://ADDRESS:PORT; encrypted unless it stays on this machine.")
    ] = "tcp://127.0.0.1:7100",
    home: Home = None,
    any_kind: Annotated[
        bool, typer.Option("--any-kind", help="Load versions of any kind: only where you trust whoever may ask.")
    ] = False,
    loaded: Annotated[
        int, typer.Option(help="Versions held in memory; the one asked for longest ago goes.", min=1)
    ] = 8,
) -> None:
    """Think for the policies of several stations: put this on the computer with the GPU (docs/fleet.md)."""
    import platform
    import signal
    import threading

    from enpire.home import open_home
    from enpire.service.processes import PolicyServerOptions, open_policy_server

    ended = threading.Event()
    options = PolicyServerOptions(bind=bind, any_kind=any_kind, loaded=loaded)
    server, public_key = open_policy_server(open_home(home), options, tell)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _, __: ended.set())
    address = server.address.replace("//0.0.0.0:", f"//{platform.node()}:")
    tell(f"Write `policy_server: {address}` into the files of the stations. Ctrl-C ends this process.")
    if public_key:
        tell(f"Only enrolled stations may connect; write `policy_server_key: {public_key}` into their files, too.")
    try:
        server.run(ended)
    finally:
        server.close()
    tell(f"Answered {server.answered} questions with {server.calls} calls of policies.")
