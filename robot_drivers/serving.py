"""`enpire robot serve`: the robot of this computer, behind its guard, for a station at another computer."""

from __future__ import annotations

import platform
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

from enpire import plugins
from enpire.errors import UsageError
from enpire.home import Home
from enpire.interfaces import Task
from enpire.station.station_file import read_station
from enpire.wire.curve_keys import server_keys
from enpire.wire.zmq_link import stays_here
from robot_drivers.guard_client import GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.served_robot import RigServer

SIMULATED = ("mujoco", "fake")
"""Drivers of robots that nobody has to look at before they move again."""
_FAST_S = 10.0
"""Patience of the guard of a simulation that waits for nobody."""


def serve(named: str, bind: str, home: Home, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then the robot is stopped and let go.

    Args:
        named: station file or its name, or driver file ending in .py.
        bind: tcp://ADDRESS:PORT; encrypted unless it stays on this machine.
        home: has the keys of the stations that may come, and the guard's folder where the station file names none.
        say: where one line about what happened goes.

    Raises:
        EnpireError: the robot, its guard or the address cannot be had, or the guard is gone.
    """
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _, __: ended.set())
    keys = None if stays_here(bind) else home.keys
    rig = open_served(named, home.stations)
    try:
        server = RigServer(rig, bind, keys, say, person_to_resume=rig.settings.person_to_resume)
        reached = server.address.replace("//0.0.0.0:", f"//{platform.node()}:")
        say(f"A station moves this robot with `driver: remote` and `options: {{address: {reached}}}`. Ctrl-C ends it.")
        if keys is not None:
            server_key = server_keys(keys).public.decode("ascii")
            say(f"Enrolled stations only: further options are `key_file` and `server_key: '{server_key}'`.")
        card = rig.settings.card
        say(f"Its guard is reached with `enpire robot status {card}`; stop and resume it in the same way.")
        server.run(ended)
    finally:
        rig.close()


def open_served(named: str, folder: Path) -> GuardedClient:
    """The robot of a station file or a driver file behind its guard, in a folder below `folder` unless it names one."""
    if named.endswith(".py"):
        path = Path(named).resolve()
        return open_guarded(GuardSettings(driver=str(path), folder=folder / f"{path.stem}.guard"))
    file = read_station(named)
    if "guard" not in file.options:
        simulated = file.driver in SIMULATED
        settings = GuardSettings(
            driver=file.driver, folder=folder / f"{file.name}.guard", task=file.task, lanes=file.lanes, seed=file.seed,
            options=file.options, pace=file.pace, person_to_resume=not simulated,
            watchdog_s=_FAST_S if file.pace == "fast" else 0.0,
        )  # fmt: skip
        return open_guarded(settings)
    task = cast("Task", plugins.make("tasks", file.task))
    rig = plugins.make("drivers", file.driver, task, file.lanes, file.seed, file.driver_options)
    if not isinstance(rig, GuardedClient):
        raise UsageError(f"The driver {file.driver} of {named} is no guard, though its options name one.")
    return rig
