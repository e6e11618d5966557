"""The robot of a station file, opened without its station: for checks, and to serve it to another computer."""

from __future__ import annotations

from enpire.station.robot_session import open_robot
from enpire.station.station_file import read_station

__all__ = ["open_robot", "read_station"]
