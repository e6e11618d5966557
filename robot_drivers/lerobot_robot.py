"""Any robot of LeRobot (`lerobot.robots.Robot`) as a driver: its own buses, cameras and calibration, our limits.

LeRobot says names, not units or bounds: those come from the task's spec, whose names must be LeRobot's
(`shoulder_pan.pos`), or from the spec that a driver file writes down.
"""

from __future__ import annotations

import pkgutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from enpire import plugins
from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Task
from enpire.types import FloatArray, ImageArray, Observation, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

if TYPE_CHECKING:
    from lerobot.robots import Robot as LeRobot

OPTIONS = frozenset({"envelope", "robot"})


class LeRobotRobot:
    """One LeRobot robot as a `Robot`.

    `stop` commands the measured positions: so a robot with position servos holds still. LeRobot's buses bear one call
    at a time, so a stop waits for the call that is on the bus; run it behind a guard, which counts that wait.
    """

    def __init__(self, robot: LeRobot, spec: TaskSpec) -> None:
        self.spec = spec
        self._robot = robot
        self._state_names = [item.name for item in spec.state]
        self._action_names = [item.name for item in spec.action]
        self._bus = threading.Lock()
        _check_features(robot, spec)

    def connect(self) -> None:
        """Connect, without calibrating: LeRobot's calibration asks questions at the terminal."""
        with self._turn("connect"):
            self._robot.connect(calibrate=False)
            if self._robot.is_calibrated:
                return
            self._robot.disconnect()
        raise RobotProblem(f"{self._robot} is not calibrated; run lerobot-calibrate for it, then start again.")

    def observe(self) -> Observation:
        """Sense once. LeRobot gives no stamps, so the stamp is the middle of the reading."""
        with self._turn("read"):
            began_ns = time.monotonic_ns()
            seen = self._robot.get_observation()
            ended_ns = time.monotonic_ns()
        row = np.array([[_number(seen, name) for name in self._state_names]], np.float32)
        images = {camera: _picture(seen, camera)[None] for camera in self.spec.cameras}
        return Observation(stamp_ns=(began_ns + ended_ns) // 2, state=row, images=images)

    def act(self, action: FloatArray) -> FloatArray:
        """Command one period; returns what LeRobot says that it sent, after its own `max_relative_target`."""
        wish = {name: float(value) for name, value in zip(self._action_names, action, strict=True)}
        with self._turn("command"):
            sent = self._robot.send_action(wish)
        return np.array([_number(sent, name) for name in self._action_names], np.float32)

    def stop(self) -> None:
        """Command where the robot is. Numbers that are no measured positions get zero."""
        if not self._robot.is_connected:
            return
        with self._turn("stop"):
            seen = self._robot.get_observation()
            self._robot.send_action({name: _number(seen, name) if name in seen else 0.0 for name in self._action_names})

    def close(self) -> None:
        """Disconnect."""
        if self._robot.is_connected:
            with self._turn("disconnect"):
                self._robot.disconnect()

    @contextmanager
    def _turn(self, what: str) -> Iterator[None]:
        """The bus, for one call; what its drivers raise becomes a sentence."""
        with self._bus:
            try:
                yield
            except (OSError, RuntimeError, ValueError, KeyError) as problem:
                raise RobotProblem(f"{self._robot} could not {what}: {problem}. Look at its bus.") from problem


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """A LeRobot robot for a task whose spec has LeRobot's names.

    Options: `robot`, LeRobot's own configuration with its `type`; `envelope`, our limits (see `safety.Limits`).
    """
    limits = envelope_limits(options, OPTIONS)
    if lanes != 1:
        raise UsageError(f"A LeRobot robot is one lane, not {lanes}; give every robot its own station.")
    robot = LeRobotRobot(make_lerobot(options.get("robot")), task.spec)
    return GuardedRig(SingleLane(robot), Envelope(task.spec, limits))


def make_lerobot(config: object) -> LeRobot:
    """A robot from LeRobot's configuration, such as `{"type": "so101_follower", "port": "/dev/ttyACM0", "id": "a"}`."""
    if not isinstance(config, Mapping) or "type" not in config:
        raise UsageError("A LeRobot robot needs `robot` with its type, and what LeRobot wants of that type.")
    from lerobot import robots

    return made("robot", robots, robots.RobotConfig, robots.make_robot_from_config, config)


def made[T](what: str, package: ModuleType, base: type, make: Callable[[Any], T], config: Mapping[str, object]) -> T:
    """What LeRobot makes of a configuration with a `type`; UsageError, which says `what`, where it cannot."""
    import draccus
    from lerobot.utils.import_utils import register_third_party_plugins

    # LeRobot knows a type only after its package was imported.
    for inner in pkgutil.iter_modules(package.__path__):
        if inner.ispkg:
            plugins.bring_in(f"{package.__name__}.{inner.name}")
    register_third_party_plugins()
    try:
        return make(draccus.decode(base, dict(config)))
    except (draccus.utils.ParsingError, ValueError, TypeError, KeyError, ImportError) as problem:
        raise UsageError(f"LeRobot cannot make a {what} of {dict(config)}: {problem}") from problem


def _check_features(robot: LeRobot, spec: TaskSpec) -> None:
    """Every name of the spec must be one of LeRobot's, and every action of LeRobot's must be commanded."""
    groups = (
        ("state", {item.name for item in spec.state} | set(spec.cameras), set(robot.observation_features), False),
        ("action", {item.name for item in spec.action}, set(robot.action_features), True),
    )
    for what, wanted, known, whole in groups:
        if missing := sorted(wanted - known):
            raise UsageError(f"{robot} has no {what} {', '.join(missing)}; it has {', '.join(sorted(known))}.")
        if whole and (left := sorted(known - wanted)):
            raise UsageError(f"The spec of {spec.name} leaves the action {', '.join(left)} of {robot} out; add it.")


def _number(values: Mapping[str, object], name: str) -> float:
    value = values[name]
    if not isinstance(value, int | float | np.number):
        raise RobotProblem(f"LeRobot gave {value!r} for {name}; a number was expected.")
    return float(value)


def _picture(values: Mapping[str, object], camera: str) -> ImageArray:
    return cast("ImageArray", np.asarray(values[camera], np.uint8))
