"""The settings of a guard process, and the places of its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from enpire import plugins
from enpire.errors import UsageError
from enpire.files import parse, plain, read_json
from enpire.interfaces import RobotSettings, Task
from enpire.wire.rpc import SCHEMA
from robot_drivers.driver_file import load_robot
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.safety import Envelope
from robot_drivers.sensor_faults import SensorFault
from robot_drivers.single_lane import SingleLane

CALLERS_PATH = "ENPIRE_CALLERS_PYTHONPATH"
"""Environment variable with the PYTHONPATH of the process that started the guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """Settings of the guard of one robot."""

    driver: str
    """Name of a driver plug-in, or the path of a driver file ending in .py."""
    folder: Path
    """Folder of this robot alone, for its latch, lock and socket."""
    task: str = ""
    """Name of the task plug-in that a driver plug-in needs; a driver file has a spec of its own."""
    lanes: int = 1
    seed: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    """Options of the driver. `envelope` narrows the limits of any driver."""
    pace: Literal["realtime", "fast"] = "realtime"
    """realtime: one action per period. fast: actions as fast as they can be carried out (simulation only)."""
    person_to_resume: bool = True
    """True for every real robot: after a start, a stop or a lost runner, an operator must allow motion."""
    watchdog_periods: float = 3.0
    """Periods without a new action after which the guard stops the robot."""
    watchdog_s: float = 0.0
    """The same in seconds, for a simulation at pace fast; 0 uses the periods."""
    linger_s: float = 0.0
    """How long the guard keeps the robot after its runner is gone [s]. 0: until a new runner or `quit` if an operator
    must resume the robot, otherwise not at all."""
    group: str = ""
    """Unix group whose members may connect to a guard that runs as a user of its own; empty: only that user."""
    rehearse: SensorFault = ""
    """Sensor fault in every stop, for conformance checks only."""
    realtime_priority: bool = False
    """Run with the scheduling policy SCHED_FIFO; the process needs the permission."""

    def __post_init__(self) -> None:
        """Refuse values that no guard can use."""
        least = {"lanes": 1, "seed": 0, "watchdog_periods": 1, "watchdog_s": 0, "linger_s": 0}
        for name, at_least in least.items():
            if not getattr(self, name) >= at_least:
                raise ValueError(f"{name} must be at least {at_least}, not {getattr(self, name)}.")

    @property
    def latch(self) -> Path:
        """The latch file."""
        return self.folder / "latch.json"

    @property
    def card(self) -> Path:
        """The file in which a running guard writes how to reach it."""
        return self.folder / "guard.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """How to reach a running guard."""

    pid: int
    socket: str
    """Path of its socket."""
    schema: int = SCHEMA
    """Schema number of its messages."""


def read_card(path: Path) -> Card:
    """The card of a running guard; FileProblem when there is none, or it is damaged."""
    return parse(Card, read_json(path), str(path))


def service_settings(robot: RobotSettings, relative_to: Path, group: str) -> tuple[str, Path, bool]:
    """What a guard needs that the system starts: (its settings file, its folder, whether a person must resume it).

    Args:
        robot: whose options name a guard, as in a station file.
        relative_to: folder of a relative `folder`.
        group: Unix group whose members may connect.

    Raises:
        FileProblem: a setting is wrong.
    """
    guard = cast("Mapping[str, object]", robot.options.get("guard"))
    given = {"lanes": robot.lanes, "seed": robot.seed, "options": robot.options.get("options", {}), **guard}
    settings = parse(GuardSettings, {"task": robot.task, **given}, "The guard of a station file")
    settings = replace(settings, folder=relative_to / settings.folder, group=group)
    return json.dumps(plain(settings), indent=1) + "\n", settings.folder, settings.person_to_resume


def open_guarded_rig(settings: GuardSettings) -> GuardedRig:
    """The connected rig of a guard, inside its envelope.

    Raises:
        UsageError: the driver plug-in is no function, or returns a rig without an envelope, or cannot rehearse the
            sensor fault.
    """
    rig = _open_rig(settings)
    if settings.rehearse:
        try:
            rig.rehearse(settings.rehearse)
        except UsageError:
            rig.close()
            raise
    return rig


def _open_rig(settings: GuardSettings) -> GuardedRig:
    if not settings.driver.endswith(".py"):
        task = cast("type[Task]", plugins.load("tasks", settings.task))() if settings.task else None
        opener = plugins.load("drivers", settings.driver)
        if not callable(opener):
            raise UsageError(f"The driver {settings.driver} is no function open_rig(task, lanes, seed, options).")
        rig = opener(task, settings.lanes, settings.seed, settings.options)
        if not isinstance(rig, GuardedRig):
            raise UsageError(f"The driver {settings.driver} gives a rig without an envelope; wrap it in GuardedRig.")
        rig.set_teleport(False)
        return rig
    options = {key: value for key, value in settings.options.items() if key != "envelope"}
    robot = load_robot(Path(settings.driver), options)
    limits = envelope_limits(
        {key: value for key, value in settings.options.items() if key == "envelope"}, frozenset({"envelope"})
    )
    return GuardedRig(SingleLane(robot), Envelope(robot.spec, limits))
