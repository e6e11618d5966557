"""What a guard process is told when it starts, and where its files lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from enpire import plugins
from enpire.errors import UsageError
from enpire.files import parse, read_json
from enpire.interfaces import Task
from enpire.wire.rpc import SCHEMA
from robot_drivers.driver_file import load_robot
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

CALLERS_PATH = "ENPIRE_CALLERS_PYTHONPATH"
"""Variable in which a guard is told the PYTHONPATH that was in force where it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """One robot and its guard."""

    driver: str
    """Name of a driver plug-in, or the path of a driver file ending in .py."""
    folder: Path
    """Belongs to this robot alone: latch, lock, socket."""
    task: str = ""
    """Name of the task plug-in that a driver plug-in needs; a driver file brings its own spec."""
    lanes: int = 1
    seed: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    """Of the driver; `envelope` narrows the limits, whatever the driver."""
    pace: Literal["realtime", "fast"] = "realtime"
    """fast: commands may come as quickly as they can be carried out (simulation only)."""
    person_to_resume: bool = True
    """True for every real robot: after a start, a stop or a lost runner, a person must allow motion."""
    watchdog_periods: float = 3.0
    """Periods without a fresh command after which the robot is stopped."""
    watchdog_s: float = 0.0
    """Seconds instead of periods, for a simulation at pace fast; 0 uses the periods."""
    linger_s: float = 0.0
    """How long the guard goes on holding the robot after its runner is gone; 0 means until a new runner or `quit` where
    a person must resume, and not at all otherwise."""
    group: str = ""
    """Unix group whose members may speak to a guard that runs as a user of its own; empty: only that user may."""
    realtime_priority: bool = False
    """Ask the system for SCHED_FIFO; needs the right to do so."""

    def __post_init__(self) -> None:
        """Refuse what no guard could keep."""
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
        """Where the guard that runs says how to reach it."""
        return self.folder / "guard.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """How to reach a guard that runs."""

    pid: int
    socket: str
    """Path of its socket."""
    schema: int = SCHEMA
    """Of what is said over it."""


def read_card(path: Path) -> Card:
    """The card of a guard that runs; FileProblem when there is none, or it is damaged."""
    return parse(Card, read_json(path), str(path))


def open_guarded_rig(settings: GuardSettings) -> GuardedRig:
    """The rig that a guard owns, connected and inside its envelope."""
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
