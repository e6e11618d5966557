"""`enpire robot serve`: the robot of this computer, behind its guard, for a station on another computer."""

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
from enpire.ids import file_name
from enpire.interfaces import RobotSettings, Task
from enpire.wire.curve_keys import server_keys
from enpire.wire.listening_address import stays_here
from enpire.wire.private_socket import is_private
from robot_drivers.guard_client import GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.served_robot import RigServer

SIMULATED = ("mujoco", "fake")
"""Drivers of simulated robots: no operator needs to look at them before they move again."""
_FAST_S = 10.0
"""Watchdog time of the guard of a simulation that runs as fast as it can [s]."""


def serve(robot: Path | RobotSettings, bind: str, home: Home, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then stop the robot and release it.

    Args:
        robot: path of a driver file, or the settings of a station.
        bind: tcp://ADDRESS:PORT, for stations with keys, or ipc:///FOLDER/NAME, which only this user reaches.
        home: contains the keys of the stations that may connect, and the guard's folder if the settings name none.
        say: gets one line about each event.

    Raises:
        EnpireError: the robot, its guard or the address is not available, or the guard ended.
    """
    stays_here(bind)  # refuses what is no address, before the robot is opened
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _, __: ended.set())
    keys = None if is_private(bind) else home.keys
    rig = open_served(robot, home.stations)
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


def open_served(robot: Path | RobotSettings, folder: Path) -> GuardedClient:
    """The robot behind its guard; the guard's folder is below `folder` unless the settings name one."""
    if isinstance(robot, Path):
        path = robot.resolve()
        return open_guarded(GuardSettings(driver=str(path), folder=folder / f"{path.stem}.guard"))
    if "guard" not in robot.options:
        settings = GuardSettings(
            driver=robot.driver, folder=folder / f"{file_name(robot.name, 'a station')}.guard", task=robot.task,
            lanes=robot.lanes, seed=robot.seed, options=robot.options, pace=robot.pace,
            person_to_resume=robot.driver not in SIMULATED,
            watchdog_s=_FAST_S if robot.pace == "fast" else 0.0,
        )  # fmt: skip
        return open_guarded(settings)
    task = cast("Task", plugins.make("tasks", robot.task))
    rig = plugins.make("drivers", robot.driver, task, robot.lanes, robot.seed, robot.options)
    if not isinstance(rig, GuardedClient):
        raise UsageError(
            f"The options of station {robot.name} name a guard, but its driver {robot.driver} opens none; use the"
            " driver robot_drivers.guard_client:open_rig, or remove `guard`."
        )
    return rig
