"""A person who takes the robot over during a supervised episode: with a teleoperator of LeRobot, or with the keyboard.

The person holds the robot from the first sign that a hand is at work until it has rested for a while. LeRobot's devices
that say so themselves (`get_teleop_events`: game pads, `keyboard_ee`) are believed; a leader arm is at work while it
moves. Hand-overs are blended (enpire/station/command_blending.py); every frame is recorded under who held the robot.
"""

from __future__ import annotations

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
"""A key that is held repeats sooner, after its first pause."""


class Hand(Protocol):
    """Where a person's commands come from."""

    def begin(self) -> None:
        """A rollout begins: where the hand is now, it rests."""

    def read(self, state: FloatArray) -> tuple[bool, FloatArray]:
        """(whether the hand is at work, its command (action_dim,)) where the robot is in this state (state_dim,)."""
        ...

    def close(self) -> None:
        """Let go of the device. Allowed twice."""


class Person:
    """An `enpire.interventions.Intervener`: one person at one robot.

    Args:
        hand: is read once a period of a supervised episode.
        rests_s: the hand must rest for so long before the policy has the robot back.
        clock: monotonic seconds.
    """

    def __init__(self, hand: Hand, rests_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._hand, self._rests_s, self._clock = hand, rests_s, clock
        self._moved_s = -np.inf
        self._looked = False
        """Whether the hand was looked at in this episode: what it did before, during the reset, is no wish of it."""
        self._command = np.zeros(0, np.float32)

    def begin(self, lane: int, order: Order, policy: LoadedPolicy) -> None:
        """An episode begins in the hands of the policy, whatever the person did before."""
        self._moved_s, self._looked = -np.inf, False

    def watch(self, observation: Observation, lanes: IntArray, ticks: IntArray) -> MaskArray:
        """Whether the person holds the robot in this period."""
        if not self._looked:
            self._looked = True
            self._hand.begin()
        at_work, self._command = self._hand.read(observation.state[int(lanes[0])])
        if at_work:
            self._moved_s = self._clock()
        return np.full(len(lanes), self._clock() - self._moved_s < self._rests_s, np.bool_)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The person's command."""
        return np.repeat(self._command[None], len(lanes), axis=0)

    def close(self) -> None:
        """Let go of the device."""
        self._hand.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LerobotOptions:
    """What `operator_options` says for `operator: lerobot`."""

    teleoperator: Mapping[str, object]
    """LeRobot's own configuration with its type, such as {type: so101_leader, port: /dev/ttyACM1, id: left}."""
    actions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Action of the task -> LeRobot's name of the teleoperator's; those that are called the same need no line."""
    scale: Mapping[str, float] = field(default_factory=dict[str, float])
    """Action of the task -> what the teleoperator's number is multiplied with; 1 otherwise."""
    wakes: float = 0.02
    """A device that says nothing of interventions is at work when a command moves by this share of its range."""
    rests_s: float = 1.0
    """The hand must rest for so long before the policy has the robot back."""


class LerobotHand:
    """A teleoperator of LeRobot."""

    def __init__(self, device: Teleoperator, spec: TaskSpec, options: LerobotOptions) -> None:
        """Connect. UsageError where the device lacks an action of the task, RobotProblem where it cannot be reached."""
        self._device, self._wakes = device, options.wakes
        self._names = [options.actions.get(item.name, item.name) for item in spec.action]
        self._scale = np.array([options.scale.get(item.name, 1.0) for item in spec.action])
        self._low = np.array([item.low for item in spec.action])
        self._high = np.array([item.high for item in spec.action])
        self._rested: FloatArray | None = None
        unknown = sorted({*options.actions, *options.scale} - {item.name for item in spec.action})
        if unknown:
            raise UsageError(f"The task has no action {', '.join(unknown)}, which operator_options names.")
        self._ask("connect", lambda: device.connect(calibrate=False))
        if device.is_calibrated is False:  # keyboards say neither
            device.disconnect()
            raise RobotProblem(f"{device} is not calibrated; run lerobot-calibrate for it, then start again.")
        known = _features(device)
        if missing := sorted(set(self._names) - known):
            raise UsageError(
                f"{device} has no action {', '.join(missing)}; it has {', '.join(sorted(known))}. "
                "Say in operator_options which of them is which: actions: {ACTION OF THE TASK: ITS NAME}."
            )

    def begin(self) -> None:
        """Forget where the device rested."""
        self._rested = None

    def read(self, state: FloatArray) -> tuple[bool, FloatArray]:
        """Whether the device is at work, and its command within the task's bounds."""
        said = self._ask("be read", self._device.get_action)
        numbers = np.array([float(cast(float, said[name])) for name in self._names])
        if not np.isfinite(numbers).all():
            raise RobotProblem(f"{self._device} gave {said}; finite numbers were expected.")
        command = np.clip(self._scale * numbers, self._low, self._high).astype(np.float32)
        return self._at_work(command), command

    def close(self) -> None:
        """Disconnect."""
        if self._device.is_connected:
            self._ask("disconnect", self._device.disconnect)

    def _at_work(self, command: FloatArray) -> bool:
        events = getattr(self._device, "get_teleop_events", None)
        if events is not None:
            from lerobot.teleoperators.utils import TeleopEvents

            return bool(self._ask("be read", events)[TeleopEvents.IS_INTERVENTION])
        before = command if self._rested is None else self._rested
        moved = bool((np.abs(command - before) > self._wakes * (self._high - self._low)).any())
        self._rested = command if moved or self._rested is None else before
        return moved

    def _ask[T](self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except (OSError, RuntimeError, ValueError, KeyError) as problem:
            raise RobotProblem(f"The teleoperator {self._device} could not {what}: {problem}.") from problem


def _features(device: Teleoperator) -> set[str]:
    """The names of a device's actions; LeRobot writes them in two ways."""
    features = cast("Mapping[str, object]", device.action_features)
    return set(cast("Mapping[str, object]", features["names"]) if "names" in features else features)


def make_teleoperator(config: Mapping[str, object]) -> Teleoperator:
    """A teleoperator from LeRobot's configuration; UsageError where LeRobot cannot make one of it."""
    from lerobot import teleoperators

    make = teleoperators.make_teleoperator_from_config
    return made("teleoperator", teleoperators, teleoperators.TeleoperatorConfig, make, config)


def open_lerobot(task: Task, rig: Rig, seed: int, options: Mapping[str, object]) -> Person:
    """The plug-in `lerobot`; options: `LerobotOptions`."""
    _one_robot(rig)
    found = parse(LerobotOptions, options, "operator_options")
    return Person(LerobotHand(make_teleoperator(found.teleoperator), task.spec, found), found.rests_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyboardOptions:
    """What `operator_options` says for `operator: keyboard`."""

    keys: Mapping[str, Mapping[str, float]]
    """Key -> action of the task -> number: a command where the action is a speed, a step from where the robot is where
    the action is one of the sensed numbers, too (a joint's position)."""
    rests_s: float = 0.6
    """Longer than a terminal waits before a key that is held repeats."""


class KeyboardHand:
    """The keys of the terminal in which the station was started."""

    def __init__(self, spec: TaskSpec, keys: Mapping[str, Mapping[str, float]], terminal: int) -> None:
        """Read single keys from now on. UsageError where keys or actions are none, or there is no terminal."""
        actions = [item.name for item in spec.action]
        if bad := sorted(key for key in keys if len(key) != 1 or not key.isprintable()):
            raise UsageError(f"operator_options, keys: {bad[0]!r} is not one key; write single letters or digits.")
        for key, steps in keys.items():
            if unknown := sorted(set(steps) - set(actions)):
                raise UsageError(f"The key {key!r} moves {unknown[0]}; the task's actions are {', '.join(actions)}.")
        if not keys:
            raise UsageError("operator_options needs keys: {KEY: {ACTION: NUMBER}}, or nobody can move the robot.")
        if not os.isatty(terminal):
            raise UsageError(
                "operator: keyboard reads the terminal of the station, and it has none: start the station by hand in "
                "one (enpire station FILE)."
            )
        self._steps = {key: np.array([steps.get(name, 0.0) for name in actions]) for key, steps in keys.items()}
        self._sensed = np.array(spec.measured)
        self._wish, self._pressed_s = np.zeros(len(actions)), -np.inf
        self._low = np.array([item.low for item in spec.action])
        self._high = np.array([item.high for item in spec.action])
        self._terminal = terminal
        self._before = termios.tcgetattr(terminal)
        tty.setcbreak(terminal)

    def begin(self) -> None:
        """Drop the keys that wait in the terminal."""
        termios.tcflush(self._terminal, termios.TCIFLUSH)

    def read(self, state: FloatArray) -> tuple[bool, FloatArray]:
        """Whether keys were pressed since the last look, and their sum; soon after the last one, no speed is left."""
        pressed = [key for key in self._typed() if key in self._steps]
        if pressed:
            here = np.where(self._sensed >= 0, state[self._sensed], 0.0)
            wish = here + np.sum([self._steps[key] for key in dict.fromkeys(pressed)], axis=0)
            self._wish, self._pressed_s = np.clip(wish, self._low, self._high), time.monotonic()
        elif time.monotonic() - self._pressed_s > _REPEAT_S:
            self._wish = np.where(self._sensed >= 0, self._wish, 0.0)
        return bool(pressed), self._wish.astype(np.float32)

    def close(self) -> None:
        """Give the terminal back as it was."""
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)

    def _typed(self) -> str:
        if not select.select([self._terminal], [], [], 0.0)[0]:
            return ""
        return os.read(self._terminal, 1024).decode(errors="replace")


def open_keyboard(task: Task, rig: Rig, seed: int, options: Mapping[str, object]) -> Person:
    """The plug-in `keyboard`; options: `KeyboardOptions`. The terminal is given back when the process ends."""
    import atexit

    _one_robot(rig)
    found = parse(KeyboardOptions, options, "operator_options")
    hand = KeyboardHand(task.spec, found.keys, sys.stdin.fileno())
    atexit.register(hand.close)
    return Person(hand, found.rests_s)


def _one_robot(rig: Rig) -> None:
    if rig.lanes != 1:
        raise UsageError(f"A person holds one robot, and this station has {rig.lanes} lanes: give it lanes: 1.")
