"""`enpire policy list | show | check | promote | rollback | import | connect | export | push | pull | serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from enpire.commands.openpi import connect, connect_address, serve_openpi, slices
from enpire.commands.options import (
    AllowKind,
    AsJson,
    CampaignId,
    Home,
    answer,
    existing_home,
    log,
    require_kinds,
    send_command,
    table,
)
from enpire.commands.remote import pull_policy, push_policy
from enpire.errors import UsageError

CANNOT_ACT = 3
"""Exit code of a check that fails."""
EPISODES = 16
"""Recorded episodes that a check uses."""
PolicyId = Annotated[str, typer.Argument(help="Id of a policy version, or its beginning.", metavar="ID")]
Campaign = Annotated[str, typer.Option(help="Id or name of a campaign; default: the latest.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(
        help="Policy versions: list, show, check, promote, rollback, import, connect, export, push, pull, serve.",
        no_args_is_help=True,
    )
    subcommands = (
        ("list", list_all), ("show", show), ("check", check), ("promote", promote), ("rollback", rollback),
        ("import", import_checkpoint), ("connect", connect), ("export", export),
        ("push", push_policy), ("pull", pull_policy), ("serve", serve),
    )  # fmt: skip
    for name, function in subcommands:
        group.command(name)(function)
    app.add_typer(group, name="policy")


def list_all(campaign: CampaignId = "", home: Home = None, as_json: AsJson = False) -> None:
    """List the policy versions of a campaign, oldest first, with their success on hidden starts."""
    from enpire.queries import texts
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        campaign_id = reading.find_campaign(records, campaign)
        versions = reading.versions(records, campaign_id)
        task = next(one.task for one in reading.campaigns(records) if one.id == campaign_id)
    rows = [
        (texts.short(item.id), item.state, str(item.round), texts.short(item.parent) or "-", texts.rate(item.hidden))
        for item in versions
    ]
    success = "success on hidden starts" + texts.truth(task)
    answer(versions, as_json=as_json, text=table(("id", "state", "round", "parent", success), rows))


def show(policy: PolicyId, campaign: Campaign = "", home: Home = None, as_json: AsJson = False) -> None:
    """Show one policy version: hashes, lineage and evidence."""
    from enpire.queries import texts
    from enpire.service import reading

    with reading.open_records(existing_home(home)) as records:
        version = reading.find_version(records, reading.find_campaign(records, campaign), policy)
    answer(version, as_json=as_json, text=texts.version(version))


def check(  # noqa: PLR0913 - the options of a subcommand are its parameters
    folder: Annotated[str, typer.Argument(help="Version: a folder, or an id (or its beginning).", metavar="FOLDER")],
    task: Annotated[str, typer.Option(help="Task that the version is for.")],
    campaign: Annotated[
        str, typer.Option(help="Campaign whose recorded episodes are used; default: the latest of the task.")
    ] = "",
    allow_kind: AllowKind = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Let a version act on recorded observations, in a sandbox where there is one; exit code 3 if it cannot."""
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.service.authored_tasks import approved_files
    from enpire.service.offline import find_version, sample_episodes
    from enpire.service.processes import CheckRequest, check_in_process

    place = HomeFolder(existing_home(home) if campaign else find_home(home))
    episodes = sample_episodes(place, task, campaign, EPISODES) if place.ledger.is_file() else ()
    request = CheckRequest(
        folder=find_version(place, folder).absolute(), task=task, episodes=tuple(one.absolute() for one in episodes),
        kinds=require_kinds(allow_kind), approved=approved_files(task),
    )  # fmt: skip
    found = check_in_process(request)
    answer(found, as_json=as_json, text=found.sentence)
    if found.why:
        raise typer.Exit(CANNOT_ACT)


def promote(policy: PolicyId, campaign: Campaign = "", home: Home = None) -> None:
    """Make this version the champion of the running campaign, without a gate; recorded with your name."""
    from enpire.queries import texts
    from enpire.service import reading

    folder = existing_home(home)
    with reading.open_records(folder) as records:
        target = reading.find_version(records, reading.find_campaign(records, campaign), policy).id
    send_command(folder, f"policy promote {texts.short(target)}", "promote", target)


def rollback(home: Home = None) -> None:
    """Roll the running campaign back to its previous champion; recorded with your name."""
    send_command(existing_home(home), "policy rollback", "rollback")


def import_checkpoint(  # noqa: PLR0913 - the options of a subcommand are its parameters
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="LeRobot checkpoint (its folder, a folder of `lerobot-train` above it, or its weights), a folder with "
            "model.onnx and onnx.json, a policy version, or the ws:// address of an openpi server.",
            metavar="CHECKPOINT",
        ),
    ],
    task: Annotated[str, typer.Option(help="Task that the policy is for; a policy version needs none.")] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=FIRST:END", help="Which state numbers an input gets; repeatable. Default: all of them."
        ),
    ] = None,
    execute: Annotated[
        int, typer.Option(help="Actions sent before the next decision; 0: as the checkpoint says.", min=0, max=4096)
    ] = 0,
    instruction: Annotated[str, typer.Option(help="Instruction for the policy; default: the task's.")] = "",
    home: Home = None,
) -> None:
    """Make a checkpoint a policy version of the home; a campaign begins with it through `base: {policy: ID}`."""
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.interfaces import ImportChoices
    from enpire.service.datasets import import_checkpoint as import_it

    place = HomeFolder(find_home(home))
    choices = ImportChoices(columns=slices(state or ()), execute=execute, instruction=instruction)
    if checkpoint.startswith(("ws://", "wss://")):
        policy_id = connect_address(place, checkpoint, task, choices)
    else:
        policy_id = import_it(place, Path(checkpoint), task, choices)
    print(policy_id)
    if task:
        log(f"Let it act on recorded observations: enpire policy check {policy_id[:12]} --task {task}.")


def export(
    policy: PolicyId,
    target: Annotated[Path, typer.Argument(help="New folder for the version's files.", metavar="DIR")],
    campaign: Campaign = "",
    home: Home = None,
) -> None:
    """Copy the files of a version, as stations run them, to a new folder and check their hash."""
    from enpire.service import reading
    from enpire.service.datasets import copy_version

    folder = existing_home(home)
    with reading.open_records(folder) as records:
        wanted = reading.find_version(records, reading.find_campaign(records, campaign), policy).id
    copy_version(folder, wanted, target)
    print(f"Version {wanted} is in {target}.")


def serve(  # noqa: PLR0913 - the options of a subcommand are its parameters
    bind: Annotated[
        str, typer.Option(help="Where stations connect: tcp://ADDRESS:PORT with keys, or ipc:///FOLDER/NAME.")
    ] = "tcp://127.0.0.1:7100",
    home: Home = None,
    allow_kind: AllowKind = None,
    loaded: Annotated[
        int, typer.Option(help="Most versions in memory; the least recently used is dropped.", min=1, max=1024)
    ] = 8,
    openpi: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Serve one version (--policy, --task) to openpi's clients (docs/other-tools.md)."
        ),
    ] = "",
    policy: Annotated[str, typer.Option(help="With --openpi: the version, a folder or an id.", metavar="ID")] = "",
    task: Annotated[str, typer.Option(help="With --openpi: the task of the version.")] = "",
) -> None:
    """Run the inference of several stations on this computer, such as one with a GPU (docs/fleet.md)."""
    if openpi:
        return serve_openpi(openpi, policy, task, home, allow_kind)
    if policy or task:
        raise UsageError("--policy and --task say what is served with --openpi HOST:PORT; give it, too.")
    import platform
    import signal
    import threading

    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.service.processes import PolicyServerOptions, open_policy_server

    ended = threading.Event()
    options = PolicyServerOptions(bind=bind, kinds=require_kinds(allow_kind), loaded=loaded)
    server, public_key = open_policy_server(HomeFolder(find_home(home)), options, log)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _, __: ended.set())
    address = server.address.replace("//0.0.0.0:", f"//{platform.node()}:")
    log(f"Write `policy_server: {address}` into the files of the stations. Ctrl-C ends this process.")
    if public_key:
        log(f"Only enrolled stations may connect; write `policy_server_key: {public_key}` into their files, too.")
    try:
        server.run(ended)
    finally:
        server.close()
    log(f"Answered {server.answered} requests with {server.calls} policy calls.")
