"""`enpire policy connect`, and `enpire policy serve --openpi`: openpi's WebSocket policy protocol."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enpire.commands.options import AllowKind, Home, log, require_kinds
from enpire.errors import UsageError

if TYPE_CHECKING:
    from enpire.home import Home as HomeFolder
    from enpire.interfaces import ImportChoices


def connect(  # noqa: PLR0913 - the options of a subcommand are its parameters
    address: Annotated[str, typer.Argument(help="ws://HOST:PORT or wss://HOST:PORT.", metavar="ADDRESS")],
    task: Annotated[str, typer.Option(help="Task that the policy is for.")],
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=FIRST:END",
            help="Which state numbers a key of the server gets; repeatable. Default: observation/state gets all.",
        ),
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option(metavar="CAMERA=KEY", help="Key of the server for a camera; repeatable.")
    ] = None,
    prompt_key: Annotated[str, typer.Option(help="Key of the server for the task in words.")] = "prompt",
    image_px: Annotated[
        int, typer.Option(help="Height and width of the images that are sent; 0: as recorded.", min=0, max=2048)
    ] = 224,
    channels_first: Annotated[
        bool, typer.Option("--channels-first", help="Send images as (3, height, width).")
    ] = False,
    execute: Annotated[
        int, typer.Option(help="Actions sent before the next decision; 0: all of a chunk.", min=0, max=4096)
    ] = 0,
    deadline_s: Annotated[
        float, typer.Option(help="Longest time of one call, in seconds, at most 60.", min=0.001, max=60.0)
    ] = 2.0,
    home: Home = None,
) -> None:
    """Make the policy of an openpi server a version here; a campaign begins with it through `base: {policy: ID}`."""
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.service.openpi import OpenpiChoices, connect_policy

    choices = OpenpiChoices(
        address=address, states=slices(state or ()), images=_pairs(image or (), "--image CAMERA=KEY"),
        prompt_key=prompt_key, image_px=image_px, channels_first=channels_first, execute=execute, deadline_s=deadline_s,
    )  # fmt: skip
    policy_id, version = connect_policy(HomeFolder(find_home(home)), choices, task)
    log(f"The server returns {version.horizon} actions at a time; {version.execute} are sent before the next decision.")
    print(policy_id)


def connect_address(home: HomeFolder, address: str, task: str, choices: ImportChoices) -> str:
    """Make the policy of an openpi server a version, as `connect` does with its defaults; its id.

    Raises:
        UsageError: the task is missing, or the instruction, which the task gives, is chosen.
        EnpireError: as `connect_policy`.
    """
    from enpire.service.openpi import OpenpiChoices, connect_policy

    if not task or choices.instruction:
        raise UsageError("For the address of a server give --task and no --instruction (`enpire policy connect`).")
    wanted = OpenpiChoices(address=address, states=choices.columns, execute=choices.execute)
    return connect_policy(home, wanted, task)[0]


def serve_openpi(bind: str, policy: str, task: str, home: Path | None, kinds: AllowKind) -> None:
    """Serve one version until Ctrl-C.

    Raises:
        UsageError: --policy or --task is missing.
    """
    from enpire.home import Home as HomeFolder
    from enpire.home import find_home
    from enpire.service.offline import find_version
    from enpire.service.openpi import OpenpiOptions, open_openpi_server

    if not policy or not task:
        raise UsageError("--openpi serves one version of one task; give --policy ID and --task TASK, too.")
    place = HomeFolder(find_home(home))
    options = OpenpiOptions(bind=bind, folder=find_version(place, policy), task=task, kinds=require_kinds(kinds))
    server, key_file = open_openpi_server(place, options, log)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _, __: ended.set())
    log(f"openpi clients connect to {server.address}. Ctrl-C ends this process.")
    if key_file is not None:
        log(f"Clients must send the API key in {key_file}. The connection is not encrypted.")
    serving = threading.Thread(target=server.run, name="openpi")
    serving.start()
    try:
        ended.wait()
    finally:
        server.close()
        serving.join()
    log(f"Answered {server.answered} observations.")


def _pairs(given: Sequence[str], form: str) -> Mapping[str, str]:
    made: dict[str, str] = {}
    for item in given:
        name, separator, value = item.partition("=")
        if not separator or not name or not value:
            raise UsageError(f"{item[:80]!r} is not understood; write {form}.")
        made[name] = value
    return made


def slices(given: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    """Key -> (first, end) of options KEY=FIRST:END; UsageError for another text."""
    made: dict[str, tuple[int, ...]] = {}
    for key, numbers in _pairs(given, "--state KEY=FIRST:END").items():
        first, _, end = numbers.partition(":")
        if not all(part.isascii() and part.isdecimal() and len(part) < 7 for part in (first, end)):
            raise UsageError(
                f"--state {key[:80]}={numbers[:80]} is not understood; write KEY=FIRST:END, such as q=0:7."
            )
        made[key] = int(first), int(end)
    return made
