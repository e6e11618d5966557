"""Operators who take over a robot during a supervised episode, with a LeRobot teleoperator or the keyboard.

The operator moves the robot from the first use of the device until it has been at rest for a while. LeRobot devices
with `get_teleop_events` (game pads, `keyboard_ee`) report their use; another, such as a leader arm, is in use while it
moves. The station blends the change between policy and operator, and records for each frame who moved the robot.
"""

from __future__ import annotations

import inspect
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from enpire.errors import RobotProblem, UsageError
from enpire.files import parse
from enpire.interfaces import Rig, Task
from enpire.policy_calls import LoadedPolicy
from enpire.types import FloatArray, IntArray, MaskArray, Observation, Order, TaskSpec
from robot_drivers.lerobot_robot import made

if TYPE_CHECKING:
    from lerobot.teleoperators import Teleoperator


_REPEAT_S = 0.1
"""Longest time between two repeats of a key that is held, after its first pause [s]."""


class InputDevice(Protocol):
    """A device with which an operator moves a robot."""

    def begin(self) -> None:
        """Begin a rollout: the present position of the device counts as rest."""

    def read(self, state: FloatArray) -> tuple[bool, FloatArray]:
        """Read the device once.

        Args:
            state: (state_dim,), the robot's state in the units of the spec.

        Returns:
            Whether the device is in use, and its action (action_dim,) float32 in the units of the spec.
        """
        ...

    def close(self) -> None:
        """Release the device. Allowed twice."""


class Teleoperation:
    """An `enpire.interventions.Intervener`: one operator at one robot.

    Args:
        device: it is read once per period of a supervised episode.
        rests_s: the device must be at rest for this time before the policy moves the robot again [s].
        clock: gives monotonic seconds.
    """

    def __init__(self, device: InputDevice, rests_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._device, self._rests_s, self._clock = device, rests_s, clock
        self._used_s = -np.inf
        self._begun = False
        """Whether the device was read in this episode; its use before that, during the reset, does not count."""
        self._action = np.zeros(0, np.float32)

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """Begin an episode; the policy moves the robot first."""
        self._used_s, self._begun = -np.inf, False

    def watch(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> MaskArray:
        """Whether the operator moves the robot in this period: (n,) bool, see `Intervener.watch`."""
        if not self._begun:
            self._begun = True
            self._device.begin()
        in_use, self._action = self._device.read(observation.state[int(lanes[0])])
        if in_use:
            self._used_s = self._clock()
        return np.full(len(lanes), self._clock() - self._used_s < self._rests_s, np.bool_)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The operator's action: (n, action_dim) float32, in the units of the spec."""
        return np.repeat(self._action[None], len(lanes), axis=0)

    def close(self) -> None:
        """Release the device."""
        self._device.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LerobotOptions:
    """The `operator_options` of `operator: lerobot`."""

    teleoperator: Mapping[str, object]
    """LeRobot's configuration with its type, such as {type: so101_leader, port: /dev/ttyACM1, id: left}."""
    actions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Action of the task -> LeRobot's name of the teleoperator's action; equal names need no entry."""
    scale: Mapping[str, float] = field(default_factory=dict[str, float])
    """Action of the task -> factor of the teleoperator's value; 1 if left out."""
    zero: Mapping[str, float] = field(default_factory=dict[str, float])
    """Action of the task -> value of the teleoperator that means 0, subtracted before the factor; 0 if left out. The
    gripper of game pads and of keyboard_ee is 0, 1 or 2 for close, stay or open, so it has zero 1."""
    wakes: float = 0.02
    """A device that does not report its use is in use when an action changes by this share of its range."""
    rests_s: float = 1.0
    """The device must be at rest for this time before the policy moves the robot again [s]."""


class LerobotDevice:
    """A LeRobot teleoperator."""

    def __init__(self, device: Teleoperator, spec: TaskSpec, options: LerobotOptions) -> None:
        """Connect.

        Raises:
            UsageError: the device lacks an action of the task, or the options name an action that the task lacks.
            RobotProblem: the device cannot be reached, or is not calibrated.
        """
        self._device, self._wakes = device, options.wakes
        self._names = [options.actions.get(item.name, item.name) for item in spec.action]
        self._scale = np.array([options.scale.get(item.name, 1.0) for item in spec.action])
        self._zero = np.array([options.zero.get(item.name, 0.0) for item in spec.action])
        self._low = np.array([item.low for item in spec.action])
        self._high = np.array([item.high for item in spec.action])
        self._rested: FloatArray | None = None
        unknown = sorted({*options.actions, *options.scale, *options.zero} - {item.name for item in spec.action})
        if unknown:
            raise UsageError(f"The task has no action {', '.join(unknown)}, which operator_options names.")
        self._call("connect", lambda: _connect(device))
        if device.is_calibrated is False:  # keyboards give None, game pads a method
            device.disconnect()
            raise RobotProblem(f"{device} is not calibrated; run lerobot-calibrate for it, then start again.")
        known = _features(device)
        if missing := sorted(set(self._names) - known):
            raise UsageError(
                f"{device} has no action {', '.join(missing)}; it has {', '.join(sorted(known))}. "
                "Map them in operator_options: actions: {ACTION OF THE TASK: ITS NAME}."
            )

    def begin(self) -> None:
        """Take the next reading as the rest position."""
        self._rested = None

    def read(self, state: FloatArray) -> tuple[bool, FloatArray]:
        """Whether the device is in use, and its action (action_dim,) float32 within the bounds of the task."""
        values = self._call("be read", self._device.get_action)
        numbers = np.array([float(cast(float, values[name])) for name in self._names])
        if not np.isfinite(numbers).all():
            raise RobotProblem(f"{self._device} gave {values}; finite numbers were expected. Check its sensors.")
        action = np.clip(self._scale * (numbers - self._zero), self._low, self._high).astype(np.float32)
        return self._in_use(action), action

    def close(self) -> None:
        """Disconnect."""
        if self._device.is_connected:
            self._call("disconnect", self._device.disconnect)

    def _in_use(self, action: FloatArray) -> bool:
        events = getattr(self._device, "get_teleop_events", None)
        if events is not None:
            from lerobot.teleoperators.utils import TeleopEvents

            held = dict(getattr(self._device, "current_pressed", {}))
            in_use = bool(self._call("be read", events)[TeleopEvents.IS_INTERVENTION])
            if held:
                # LeRobot's keyboard_ee forgets held keys here, and a held key would act for one period only.
                vars(self._device)["current_pressed"].update(held)
            return in_use
        before = action if self._rested is None else self._rested
        moved = bool((np.abs(action - before) > self._wakes * (self._high - self._low)).any())
        self._rested = action if moved or self._rested is None else before
        return moved

    def _call[T](self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except (OSError, RuntimeError, ValueError, KeyError) as problem:
            raise RobotProblem(
                f"The teleoperator {self._device} could not {what}: {problem}. Check its cable and power."
            ) from problem


def _connect(device: Teleoperator) -> None:
    """Connect without calibration, which would ask questions in the terminal.

    LeRobot's keyboards and game pads take no `calibrate`. Without a display or a pad they only log an error.

    Raises:
        RuntimeError: it has no display or no pad.
    """
    if "calibrate" in inspect.signature(device.connect).parameters:
        device.connect(calibrate=False)
    else:
        device.connect()  # pyright: ignore[reportCallIssue]
    if not device.is_connected:
        raise RuntimeError(
            "it captures no keys here: LeRobot's keyboards need an X11 session, no Wayland and no remote shell. Use "
            "`operator: keyboard`, which reads the terminal, or the page"
        )
    if getattr(getattr(device, "gamepad", None), "running", True) is False:
        device.disconnect()
        raise RuntimeError("no game pad is connected to this computer")


def _features(device: Teleoperator) -> set[str]:
    """The names of a device's actions; LeRobot has two forms for them.

    UsageError for LeRobot's `keyboard`, which has keys and no actions.
    """
    if device.name == "keyboard":
        raise UsageError(
            "LeRobot's teleoperator keyboard gives keys and no actions; use `operator: keyboard`, or its types "
            "keyboard_ee and keyboard_rover."
        )
    features = cast("Mapping[str, object]", device.action_features)
    return set(cast("Mapping[str, object]", features["names"]) if "names" in features else features)


def make_teleoperator(config: Mapping[str, object]) -> Teleoperator:
    """Make a teleoperator from LeRobot's configuration; UsageError when LeRobot cannot."""
    from lerobot import teleoperators

    make = teleoperators.make_teleoperator_from_config
    return made("teleoperator", teleoperators, teleoperators.TeleoperatorConfig, make, config)


def open_lerobot(task: Task, rig: Rig, seed: int, options: Mapping[str, object]) -> Teleoperation:
    """The operator `lerobot`; options: `LerobotOptions`."""
    _one_robot(rig)
    found = parse(LerobotOptions, options, "operator_options")
    return Teleoperation(LerobotDevice(make_teleoperator(found.teleoperator), task.spec, found), found.rests_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyboardOptions:
    """The `operator_options` of `operator: keyboard`."""

    keys: Mapping[str, Mapping[str, float]]
    """Key -> action of the task -> number in the unit of the action. It is the action itself for a speed; a step from
    the measured value for an action that is also a state number, such as the position of a joint."""
    rests_s: float = 0.6
    """Time without a key before the policy moves the robot again [s]; it is longer than the pause before a terminal
    repeats a key that is held."""


class KeyboardDevice:
    """The keyboard of the terminal in which the station runs."""

    def __init__(self, spec: TaskSpec, keys: Mapping[str, Mapping[str, float]], terminal: int) -> None:
        """Let the terminal give single keys.

        Args:
            spec: of the task.
            keys: key -> action -> number (`KeyboardOptions.keys`).
            terminal: file descriptor of the terminal.

        Raises:
            UsageError: a key is not one character, an action is unknown, or there is no terminal.
        """
        actions = [item.name for item in spec.action]
        if bad := sorted(key for key in keys if len(key) != 1 or not key.isprintable()):
            raise UsageError(f"operator_options, keys: {bad[0]!r} is not one key; write single letters or digits.")
        for key, steps in keys.items():
            if unknown := sorted(set(steps) - set(actions)):
                raise UsageError(f"The key {key!r} moves {unknown[0]}; the task's actions are {', '.join(actions)}.")
        if not keys:
            raise UsageError(
                "operator_options needs keys: {KEY: {ACTION: NUMBER}}; without keys the operator cannot move the robot."
            )
        if not os.isatty(terminal):
            raise UsageError(
                "operator: keyboard reads the terminal of the station, and it has none: "
                "start the station in a terminal (enpire station FILE)."
            )
        self._steps = {key: np.array([steps.get(name, 0.0) for name in actions]) for key, steps in keys.items()}
        self._sensed = np.array(spec.measured)
        self._requested, self._pressed_s = np.zeros(len(actions)), -np.inf
        self._low = np.array([item.low for item in spec.action])
        self._high = np.array([item.high for item in spec.action])
        self._terminal = terminal
        self._before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)

    def begin(self) -> None:
        """Discard the keys that were typed before."""
        termios.tcflush(self._terminal, termios.TCIFLUSH)

    def read(self, state: FloatArray) -> tuple[bool, FloatArray]:
        """Whether keys were pressed since the last call, and the sum of their actions (action_dim,) float32.

        Speeds return to zero when no key was pressed for `_REPEAT_S`.
        """
        pressed = [key for key in self._typed() if key in self._steps]
        if pressed:
            here = np.where(self._sensed >= 0, state[self._sensed], 0.0)
            requested = here + np.sum([self._steps[key] for key in dict.fromkeys(pressed)], axis=0)
            self._requested, self._pressed_s = np.clip(requested, self._low, self._high), time.monotonic()
        elif time.monotonic() - self._pressed_s > _REPEAT_S:
            self._requested = np.where(self._sensed >= 0, self._requested, 0.0)
        return bool(pressed), self._requested.astype(np.float32)

    def close(self) -> None:
        """Restore the terminal."""
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)

    def _typed(self) -> str:
        if not select.select([self._terminal], [], [], 0.0)[0]:
            return ""
        return os.read(self._terminal, 1024).decode(errors="replace")


def open_keyboard(task: Task, rig: Rig, seed: int, options: Mapping[str, object]) -> Teleoperation:
    """The operator `keyboard`; options: `KeyboardOptions`. The terminal is restored when the process ends."""
    import atexit

    _one_robot(rig)
    found = parse(KeyboardOptions, options, "operator_options")
    device = KeyboardDevice(task.spec, found.keys, sys.stdin.fileno())
    atexit.register(device.close)
    return Teleoperation(device, found.rests_s)


def _one_robot(rig: Rig) -> None:
    if rig.lanes != 1:
        raise UsageError(
            f"An operator moves one robot, but this station has {rig.lanes} lanes; write lanes: 1 in its file."
        )
