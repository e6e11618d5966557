"""Driver of any LeRobot robot (`lerobot.robots.Robot`): LeRobot's buses, cameras and calibration, ENPIRE's limits.

LeRobot gives names but no units and bounds. These come from the task's spec, which must use LeRobot's names
(`shoulder_pan.pos`), or from the spec in a driver file.
"""

from __future__ import annotations

import math
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from enpire import plugins
from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Task
from enpire.types import FloatArray, ImageArray, Observation, TaskSpec
from robot_drivers.guarded_rig import GuardedRig
from robot_drivers.lerobot_calibration import within_calibration
from robot_drivers.lerobot_packages import require_packages
from robot_drivers.lerobot_stop import CameraFault, broken_cameras, hold_still, release
from robot_drivers.mujoco_robot import envelope_limits
from robot_drivers.safety import Envelope
from robot_drivers.single_lane import SingleLane

if TYPE_CHECKING:
    from lerobot.robots import Robot as LeRobot

OPTIONS = frozenset({"envelope", "robot"})
BUS_S = 0.5
"""How long a stop waits for a call that uses the bus [s]."""


class LeRobotRobot:
    """One LeRobot robot as a `Robot`.

    `stop` commands zero velocity, and the positions that the motors report, so a robot with position servos holds
    still. It needs no camera: see `lerobot_stop`. LeRobot's buses allow one call at a time, so a stop waits for the
    present call, but not longer than `BUS_S`. Run the robot behind a guard, whose watchdog counts that time.
    """

    def __init__(self, robot: LeRobot, spec: TaskSpec) -> None:
        self.spec = spec
        self._robot = robot
        self._state_names = [item.name for item in spec.state]
        self._action_names = [item.name for item in spec.action]
        positions = {item.name for item, index in zip(spec.action, spec.measured, strict=True) if index >= 0}
        self._holds = {name: math.nan if name in positions else None for name in self._action_names}
        """What holds the robot: the last sensed value of a position, None for any other action."""
        self._connected = False
        self._bus = threading.Lock()
        self._stopping = threading.Lock()
        _check_features(robot, spec)

    def connect(self) -> None:
        """Connect without calibrating, because LeRobot calibrates in a dialogue.

        Raises:
            RobotProblem: the robot cannot be reached, or is not calibrated.
        """
        try:
            with self._bus_call("connect"):
                self._robot.connect(calibrate=False)
                calibrated = self._robot.is_calibrated
        except RobotProblem:
            with suppress(RobotProblem):
                release(self._robot)  # the motors are connected before the cameras
            raise
        self._connected = True
        if not calibrated:
            self.close()
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
        self._holds.update({name: _number(values, name) for name, held in self._holds.items() if held is not None})
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
        """Hold still: measured positions, and zero for every other action.

        Raises:
            RobotProblem: the motors do not take the command.
        """
        with self._stopping:
            if self._connected:
                with self._bus_or_late():
                    hold_still(self._robot, dict(self._holds))

    def close(self) -> None:
        """Disconnect the motors and every camera, also when one of them is gone."""
        with self._stopping:
            if self._connected:
                self._connected = False
                with self._bus_or_late():
                    release(self._robot)

    @contextmanager
    def with_cameras(self, fault: CameraFault) -> Iterator[None]:
        """Give the robot broken cameras for the length of the block, for conformance checks."""
        with broken_cameras(self._robot, fault):
            yield

    @contextmanager
    def _bus_or_late(self) -> Iterator[None]:
        """Hold the bus, or continue without it when a call hangs, such as one that waits for a camera."""
        held = self._bus.acquire(timeout=BUS_S)
        try:
            yield
        finally:
            if held:
                self._bus.release()

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
    made_here = make_lerobot(options.get("robot"))
    robot = LeRobotRobot(made_here, task.spec)
    return GuardedRig(SingleLane(robot), Envelope(within_calibration(made_here, task.spec), limits))


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
    """Make a LeRobot object from a configuration with a `type`.

    Raises:
        MissingExtra: a package that the type needs is not installed.
        UsageError: LeRobot cannot make it; the sentence names `what`.
    """
    import draccus
    from lerobot.utils.import_utils import register_third_party_plugins

    # LeRobot registers a type when its package is imported.
    for inner in pkgutil.iter_modules(package.__path__):
        if inner.ispkg:
            plugins.bring_in(f"{package.__name__}.{inner.name}")
    register_third_party_plugins()
    require_packages(config)
    try:
        return make(draccus.decode(base, dict(config)))
    except (draccus.utils.ParsingError, ValueError, TypeError, KeyError, ImportError) as problem:
        raise UsageError(f"LeRobot cannot make a {what} of {dict(config)}: {problem}") from problem


def _check_features(robot: LeRobot, spec: TaskSpec) -> None:
    """Refuse a spec with a name that LeRobot lacks, without an action that LeRobot has, or with degrees it has not."""
    groups = (
        ("state", {item.name for item in spec.state} | set(spec.cameras), set(robot.observation_features), False),
        ("action", {item.name for item in spec.action}, set(robot.action_features), True),
    )
    for what, wanted, known, whole in groups:
        if missing := sorted(wanted - known):
            raise UsageError(f"{robot} has no {what} {', '.join(missing)}; it has {', '.join(sorted(known))}.")
        if whole and (left := sorted(known - wanted)):
            raise UsageError(f"The spec of {spec.name} lacks the action {', '.join(left)} of {robot}; add it.")
    degrees = [item.name for item in (*spec.action, *spec.state) if item.unit == "deg" and item.name.endswith(".pos")]
    if degrees and getattr(getattr(robot, "config", None), "use_degrees", True) is False:
        raise UsageError(
            f"{robot} has use_degrees: false, so its joints are not in degrees, but {spec.name} has {degrees[0]} in "
            "deg; set use_degrees: true."
        )


def _number(values: Mapping[str, object], name: str) -> float:
    value = values[name]
    if not isinstance(value, int | float | np.number):
        raise RobotProblem(f"LeRobot gave {value!r} for {name}; a number was expected.")
    return float(value)


def _image(values: Mapping[str, object], camera: str) -> ImageArray:
    return cast("ImageArray", np.asarray(values[camera], np.uint8))
