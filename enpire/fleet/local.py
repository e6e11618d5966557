"""The stations that a campaign starts itself on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from enpire.campaign.campaign import Campaign
from enpire.campaign.recipe import read_recipe
from enpire.fleet.station_processes import Network, StationProcesses
from enpire.home import Home
from enpire.ids import quoted_name
from enpire.parts import PartGroup
from enpire.station.station_file import StationFile
from enpire.wire.hand_control import hand_address
from enpire.wire.listening_address import FleetAddress, station_key
from enpire.wire.private_socket import is_private

NETWORKS: PartGroup[[str, Callable[[str], None]], Network] = PartGroup("networks")
"""Called with the orchestrator's address and a function that prints one line."""


def station_files(campaign: Campaign, home: Home) -> list[StationFile]:
    """One file per station. Each station draws its friction, mass and offsets from its own seed."""
    wanted = campaign.stations

    def own_address(name: str) -> dict[str, str]:
        """Where the operator of the page reaches a station."""
        return {"address": hand_address(home.root, name)} if wanted.operator == "browser" else {}

    return [
        StationFile(
            name=f"sim-{number}",
            task=campaign.task,
            home=home.stations / f"sim-{number}",
            driver=wanted.driver,
            options=wanted.options,
            lanes=wanted.lanes,
            pace=wanted.pace,
            inference=wanted.inference,
            policy_server=wanted.policy_server,
            policy_server_key=wanted.policy_server_key,
            policy_kinds=wanted.policy_kinds,
            unsandboxed=campaign.code.unsandboxed,
            reset=wanted.reset,
            operator=wanted.operator,
            operator_options={**own_address(f"sim-{number}"), **wanted.operator_options},
            record=wanted.record,
            verifiers=campaign.verifiers,
            account=home.stations / f"{quoted_name(campaign.name)}.tokens",
            seed=campaign.seed * 1000 + number,
        )
        for number in range(1, wanted.count + 1)
    ]


def files_to_start(campaign: Campaign, home: Home, address: str) -> list[StationFile]:
    """The files of stations that connect to this address: with their keys, and with the kinds that they may load.

    A learner "module:Name" of the campaign's recipes may also make versions of kind "module:load": the lab runs the
    code of that module already.
    """
    learners = {read_recipe(name).learner for name in campaign.recipes}
    also = sorted(f"{learner.partition(':')[0]}:load" for learner in learners if ":" in learner)
    files = (with_key(file, address, home) for file in station_files(campaign, home))
    return [replace(file, policy_kinds=(*file.policy_kinds, *also)) for file in files]


def start_local(campaign: Campaign, home: Home, at: FleetAddress, say: Callable[[str], None]) -> StationProcesses:
    """Start the campaign's stations as processes of this machine; `stop()` ends them within two seconds."""
    files = files_to_start(campaign, home, at.private)
    stations = StationProcesses(files, at.private, home.stations / "logs", say)
    stations.start()
    return stations


def start_lossy(campaign: Campaign, home: Home, at: FleetAddress, say: Callable[[str], None]) -> StationProcesses:
    """Start the stations as `start_local` does, behind a network that is lost from time to time."""
    files = files_to_start(campaign, home, at.private)
    network = NETWORKS.make("lossy", at.private, say)
    stations = StationProcesses(files, network.address, home.stations / "logs", say, network)
    stations.start()
    return stations


def with_key(file: StationFile, address: str, home: Home) -> StationFile:
    """The file with the keys for the orchestrator at this address and for the policy server."""
    key_file, server_key = station_key(address, home.keys, file.name)
    policy_server, policy_server_key = file.policy_server, file.policy_server_key
    if policy_server and not is_private(policy_server):
        key_file, lab_key = station_key(policy_server, home.keys, file.name)
        policy_server_key = policy_server_key or lab_key
    return replace(file, key_file=key_file, server_key=server_key, policy_server_key=policy_server_key)
