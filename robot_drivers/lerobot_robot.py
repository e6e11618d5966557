"""Driver of any LeRobot robot (`lerobot.robots.Robot`): LeRobot's buses, cameras and calibration, ENPIRE's limits.

LeRobot gives names but no units and bounds. These come from the task's spec, which must use LeRobot's names
(`shoulder_pan.pos`), or from the spec in a driver file.
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

    `stop` commands the measured positions, so a robot with position servos holds still. LeRobot's buses allow one call
    at a time, so a stop waits for the present call. Run the robot behind a guard, whose watchdog counts that time.
    """

    def __init__(self, robot: LeRobot, spec: TaskSpec) -> None:
        self.spec = spec
        self._robot = robot
        self._state_names = [item.name for item in spec.state]
        self._action_names = [item.name for item in spec.action]
        self._bus = threading.Lock()
        _check_features(robot, spec)

    def connect(self) -> None:
        """Connect without calibrating, because LeRobot calibrates in a dialogue.

        Raises:
            RobotProblem: the robot cannot be reached, or is not calibrated.
        """
        with self._bus_call("connect"):
            self._robot.connect(calibrate=False)
            if self._robot.is_calibrated:
                return
            self._robot.disconnect()
        raise RobotProblem(f"{self._robot} is not calibrated; run lerobot-calibrate for it, then start again.")

    def observe(self) -> Observation:
        """Sense once: state (1, state_dim) float32, in the units of the spec.

        LeRobot gives no time stamps; the stamp is the middle of the call [ns].
        """
        with self._bus_call("read"):
            began_ns = time.monotonic_ns()
            values = self._robot.get_observation()
            ended_ns = time.monotonic_ns()
        row = np.array([[_number(values, name) for name in self._state_names]], np.float32)
        images = {camera: _image(values, camera)[None] for camera in self.spec.cameras}
        return Observation(stamp_ns=(began_ns + ended_ns) // 2, state=row, images=images)

    def act(self, action: FloatArray) -> FloatArray:
        """Send one action (action_dim,), in the units of the spec.

        Returns what LeRobot sent after its own `max_relative_target`, (action_dim,) float32.
        """
        action_out = {name: float(value) for name, value in zip(self._action_names, action, strict=True)}
        with self._bus_call("act"):
            sent = self._robot.send_action(action_out)
        return np.array([_number(sent, name) for name in self._action_names], np.float32)

    def stop(self) -> None:
        """Command the measured positions; actions that are no measured position get zero."""
        if not self._robot.is_connected:
            return
        with self._bus_call("stop"):
            values = self._robot.get_observation()
            self._robot.send_action(
                {name: _number(values, name) if name in values else 0.0 for name in self._action_names}
            )

    def close(self) -> None:
        """Disconnect."""
        if self._robot.is_connected:
            with self._bus_call("disconnect"):
                self._robot.disconnect()

    @contextmanager
    def _bus_call(self, what: str) -> Iterator[None]:
        """Hold the bus for one call; an error of LeRobot becomes a RobotProblem."""
        with self._bus:
            try:
                yield
            except (OSError, RuntimeError, ValueError, KeyError) as problem:
                raise RobotProblem(f"{self._robot} could not {what}: {problem}. Check its bus and power.") from problem


def open_rig(task: Task, lanes: int, seed: int, options: Mapping[str, object]) -> GuardedRig:
    """The driver `lerobot`: a LeRobot robot for a task whose spec has LeRobot's names.

    Options: `robot`, LeRobot's configuration with its `type`; `envelope`, the limits (see `safety.Limits`).
    """
    limits = envelope_limits(options, OPTIONS)
    if lanes != 1:
        raise UsageError(f"A LeRobot robot has 1 lane, not {lanes}; write one station file per robot.")
    robot = LeRobotRobot(make_lerobot(options.get("robot")), task.spec)
    return GuardedRig(SingleLane(robot), Envelope(task.spec, limits))


def make_lerobot(config: object) -> LeRobot:
    """Make a robot from LeRobot's configuration, such as `{type: so101_follower, port: /dev/ttyACM0, id: left}`.

    Raises:
        UsageError: the configuration has no `type`, or LeRobot cannot make a robot from it.
    """
    if not isinstance(config, Mapping) or "type" not in config:
        raise UsageError("A LeRobot robot needs the option `robot`: its `type`, and LeRobot's settings of that type.")
    from lerobot import robots

    return made("robot", robots, robots.RobotConfig, robots.make_robot_from_config, config)


def made[T](what: str, package: ModuleType, base: type, make: Callable[[Any], T], config: Mapping[str, object]) -> T:
    """Make a LeRobot object from a configuration with a `type`; UsageError, which names `what`, if it cannot."""
    import draccus
    from lerobot.utils.import_utils import register_third_party_plugins

    # LeRobot registers a type when its package is imported.
    for inner in pkgutil.iter_modules(package.__path__):
        if inner.ispkg:
            plugins.bring_in(f"{package.__name__}.{inner.name}")
    register_third_party_plugins()
    try:
        return make(draccus.decode(base, dict(config)))
    except (draccus.utils.ParsingError, ValueError, TypeError, KeyError, ImportError) as problem:
        raise UsageError(f"LeRobot cannot make a {what} of {dict(config)}: {problem}") from problem


def _check_features(robot: LeRobot, spec: TaskSpec) -> None:
    """Refuse a spec with a name that LeRobot lacks, or without an action that LeRobot has."""
    groups = (
        ("state", {item.name for item in spec.state} | set(spec.cameras), set(robot.observation_features), False),
        ("action", {item.name for item in spec.action}, set(robot.action_features), True),
    )
    for what, wanted, known, whole in groups:
        if missing := sorted(wanted - known):
            raise UsageError(f"{robot} has no {what} {', '.join(missing)}; it has {', '.join(sorted(known))}.")
        if whole and (left := sorted(known - wanted)):
            raise UsageError(f"The spec of {spec.name} lacks the action {', '.join(left)} of {robot}; add it.")


def _number(values: Mapping[str, object], name: str) -> float:
    value = values[name]
    if not isinstance(value, int | float | np.number):
        raise RobotProblem(f"LeRobot gave {value!r} for {name}; a number was expected.")
    return float(value)


def _image(values: Mapping[str, object], camera: str) -> ImageArray:
    return cast("ImageArray", np.asarray(values[camera], np.uint8))
