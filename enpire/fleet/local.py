"""The stations that a campaign starts itself, on this machine."""

from __future__ import annotations

from collections.abc import Callable

from enpire.campaign import Campaign
from enpire.fleet.door import from_here, own_key
from enpire.fleet.processes import LocalStations
from enpire.fleet.station_file import StationFile
from enpire.home import Home


def station_files(campaign: Campaign, home: Home, address: str) -> list[StationFile]:
    """One file per station; each draws its own friction, mass and offsets from the campaign's seed."""
    wanted = campaign.stations
    files: list[StationFile] = []
    for number in range(1, wanted.count + 1):
        name = f"sim-{number}"
        key_file, server_key = own_key(address, home.keys, name)
        files.append(
            StationFile(
                name=name,
                task=campaign.task,
                home=home.stations / name,
                driver=wanted.driver,
                options=wanted.options,
                lanes=wanted.lanes,
                pace=wanted.pace,
                reset=wanted.reset,
                seed=campaign.seed * 1000 + number,
                key_file=key_file,
                server_key=server_key,
            )
        )
    return files


def start_local(campaign: Campaign, home: Home, address: str, say: Callable[[str], None]) -> LocalStations:
    """Start the campaign's stations as processes of this machine; `stop()` ends them within two seconds."""
    files = station_files(campaign, home, address)
    stations = LocalStations(files, from_here(address), home.stations / "logs", say)
    stations.start()
    return stations
