"""The processes besides the loop: enroll a station, serve policies, run one training job, tie a child to its parent."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from enpire.errors import UsageError
from enpire.home import Home
from enpire.ids import file_name
from enpire.parts import AGENTS, RunsPrograms, key_variables, providers_of, server_urls
from enpire.processes.child_process import die_with_parent
from enpire.processes.model_gateway import start_model_gateway
from enpire.processes.model_providers import PROVIDERS, Provider, require_ready
from enpire.processes.relay import MODELS, server_of
from enpire.processes.relay import enter as enter_relay
from enpire.processes.room import Room, RoomPlan, open_room
from enpire.processes.room_limits import RoomLimits, limit_this_process
from enpire.processes.version_check import VersionCheck
from enpire.processes.version_check_process import CheckRequest, check_in_process
from enpire.store import durable, removal
from enpire.wire.private_socket import private_address, socket_path

if TYPE_CHECKING:
    from enpire.policy_server.policy_server import PolicyServer

__all__ = [
    "MODELS",
    "PROVIDERS",
    "AgentRoom",
    "CheckRequest",
    "PolicyServerOptions",
    "Provider",
    "Room",
    "RoomLimits",
    "VersionCheck",
    "agent_providers",
    "check_in_process",
    "die_with_parent",
    "enroll_station",
    "enter_relay",
    "gateway_listens",
    "limit_this_process",
    "model_socket",
    "open_agent_room",
    "open_policy_server",
    "remove_socket",
    "require_ready",
    "run_training_job",
    "start_model_gateway",
    "write_agent_job",
]


Options = Mapping[str, bool | int | float | str]
"""Options of an agent, as a campaign file has them."""
PROGRAM_LIMITS = RoomLimits(address_bytes=-1, processes=256, files=1024)
"""Limits of a room that runs programs of the system, such as coding CLIs. Their runtimes reserve many addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyServerOptions:
    """How a policy server is started."""

    bind: str
    """tcp://ADDRESS:PORT with keys, or ipc:///FOLDER/NAME, which only this user reaches."""
    kinds: Sequence[str]
    """Kinds "module:name" of versions that are loaded besides the installed kinds."""
    loaded: int
    """Most versions in memory."""


def write_agent_job(folder: Path, job: Mapping[str, object]) -> None:
    """Write what the process of an agent session reads: who it is, and where it works."""
    durable.make_folder(folder / "work")
    durable.write(folder / "session.json", json.dumps(job).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRoom:
    """Whose room is opened, and where."""

    agent: str
    """Plug-in name of the agent."""
    options: Options
    home: Path
    """Of the lab; hidden in the room."""
    work: Path
    """Folder for the agent's own files where there is no sandbox."""


def open_agent_room(wanted: AgentRoom, show: Callable[[str], None]) -> AbstractContextManager[Room]:
    """The room of an agent session, in which the agent's code runs; it ends with the block.

    Args:
        wanted: whose room.
        show: is called with the lines that the room prints.

    Raises:
        EnpireError: there is no such agent, or a variable with the address of its server holds none.
    """
    part = AGENTS.load(wanted.agent)
    urls = server_urls(part)
    try:
        servers = frozenset(server_of(os.environ.get(name) or url) for name, url in urls.items())
    except ValueError as problem:
        raise UsageError(f"A variable among {', '.join(urls)} must hold an address: {problem}") from problem
    runs_programs = isinstance(part, RunsPrograms)
    plan = RoomPlan(
        module="agent_loop.room", work=wanted.work, variables=(*key_variables(part), *urls), servers=servers,
        models=model_socket(wanted.home) if providers_of(part, wanted.options) else None,
        reads=tuple(part.program_files(wanted.options)) if runs_programs else (),
        hidden=(wanted.home.resolve(),), limits=PROGRAM_LIMITS if runs_programs else RoomLimits(),
    )  # fmt: skip
    return open_room(plan, show)


def agent_providers(agent: str, options: Options) -> tuple[str, ...]:
    """Names of the providers of language models that an agent calls, through the model gateway.

    Raises:
        EnpireError: there is no such agent, or its options are wrong.
    """
    return providers_of(AGENTS.load(agent), options)


def model_socket(home: Path) -> Path:
    """The private socket at which the gateway of a home listens.

    Raises:
        TransportProblem: other users can enter its folder.
    """
    path = socket_path(private_address(home, "models"))
    assert path is not None
    return path


def remove_socket(path: Path) -> None:
    """Remove a socket that a killed process left behind."""
    removal.remove(path, path.parent)


def gateway_listens(home: Path) -> bool:
    """Whether a gateway answers in this home."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(model_socket(home)))
        except OSError:
            return False
    return True


def enroll_station(home: Home, name: str, task: str, connect: str) -> tuple[Path, Path]:
    """Make a key for a station on another computer; its (key file, station file), to be copied there.

    Args:
        home: of the orchestrator.
        name: of the station.
        task: of the station.
        connect: address of the orchestrator; empty where the operator fills it in later.

    Raises:
        EnpireError: the name is taken, or not allowed.
    """
    from enpire.station.station_file import StationFile, write_station
    from enpire.wire.curve_keys import enroll, server_keys

    key_file, server = enroll(home.keys, name), server_keys(home.keys).public.decode("ascii")
    file = StationFile(
        name=name, task=task, home=Path(f"{name}.enpire"), connect=connect, key_file=Path(key_file.name),
        server_key=server,
    )  # fmt: skip
    path = home.keys / f"{file_name(name, 'a station')}.yaml"
    write_station(file, path)
    return key_file, path


def open_policy_server(
    home: Home, options: PolicyServerOptions, log: Callable[[str], None]
) -> tuple[PolicyServer, str]:
    """A policy server that listens; with its public key, empty where the connection is not encrypted.

    Raises:
        EnpireError: it cannot listen there.
    """
    from enpire.policy_server.policy_server import PolicyServer
    from enpire.wire.curve_keys import server_keys
    from enpire.wire.listening_address import stays_here
    from enpire.wire.private_socket import is_private

    stays_here(options.bind)  # refuses what is no address
    keys = None if is_private(options.bind) else home.keys
    server = PolicyServer(home.root / "served", options.bind, keys, log, kinds=options.kinds, loaded=options.loaded)
    return server, server_keys(keys).public.decode("ascii") if keys is not None else ""


def run_training_job(folder: Path) -> int:
    """Run one training job in this process; its exit code. Progress and result are written into the folder."""
    from enpire.processes.learner_process import main

    return main([str(folder)])
