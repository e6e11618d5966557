"""How a LeRobot robot is stopped and released without its cameras.

LeRobot's robots count as connected only while every camera is, and read motors and cameras in one call. Here the
cameras are set aside first, so that the robot's own code reads and commands its motors alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, cast

from enpire.errors import RobotProblem

if TYPE_CHECKING:
    from lerobot.robots import Robot as LeRobot

CameraFault = Literal["gone", "stale"]
LEROBOT_ERRORS = (OSError, RuntimeError, ValueError, KeyError, AttributeError, TypeError, StopIteration)
"""What the calls of a robot raise when its bus or a camera fails."""
TRIES = 3
"""How often a stop reads and commands the motors, because single packets of a bus get lost."""
_CAMERAS = ("cameras", "_cameras")
"""Attributes in which LeRobot's robots keep their cameras."""


def arms(robot: LeRobot) -> Sequence[tuple[str, LeRobot]]:
    """The robot's arms, each with the prefix of its names; a robot with one bus is its own arm, without a prefix."""
    sides = ((f"{side}_", getattr(robot, f"{side}_arm", None)) for side in ("left", "right"))
    found = [(prefix, cast("LeRobot", arm)) for prefix, arm in sides if callable(getattr(arm, "send_action", None))]
    return found or [("", robot)]


@contextmanager
def without_cameras(robot: LeRobot) -> Iterator[Sequence[Any]]:
    """Set the cameras of the robot and its arms aside for the length of the block; gives them."""
    with _replaced(robot, lambda _: {}) as cameras:
        yield cameras


@contextmanager
def broken_cameras(robot: LeRobot, fault: CameraFault) -> Iterator[None]:
    """Give a robot cameras that are gone, or whose images are old, for the length of the block."""
    with _replaced(robot, lambda cameras: {name: _BrokenCamera(one, fault) for name, one in cameras.items()}):
        yield


def hold_still(robot: LeRobot, holds: Mapping[str, float | None]) -> None:
    """Command every arm to hold still; an arm that fails does not keep the other one moving.

    Args:
        robot: connected once.
        holds: action name -> the last sensed value of a position, nan if there is none; None for any other action,
            which gets zero.

    Raises:
        RobotProblem: an arm could not be commanded; the text names why.
    """
    problems: list[str] = []
    with without_cameras(robot):
        for prefix, arm in arms(robot):
            part = {name.removeprefix(prefix): value for name, value in holds.items() if name.startswith(prefix)}
            try:
                problem = _hold_arm(arm, part)
            except LEROBOT_ERRORS as error:
                problem = str(error).rstrip(".") or type(error).__name__
            if problem:
                problems.append(problem)
    if problems:
        raise RobotProblem(f"{robot} could not stop: {'; '.join(problems)}. Check its bus and power.")


def release(robot: LeRobot) -> None:
    """Disconnect motors and cameras, each also when another is gone.

    Raises:
        RobotProblem: a motor bus could not be released.
    """
    problems: list[str] = []
    with without_cameras(robot) as cameras:
        for _, arm in arms(robot):
            try:
                if arm.is_connected:
                    arm.disconnect()
            except LEROBOT_ERRORS as problem:
                problems.append(str(problem).rstrip(".") or type(problem).__name__)
    for camera in cameras:
        with suppress(*LEROBOT_ERRORS):
            camera.disconnect()
    if problems:
        raise RobotProblem(f"{robot} could not disconnect: {'; '.join(problems)}. Check its bus and power.")


def _hold_arm(arm: LeRobot, holds: Mapping[str, float | None]) -> str:
    """Command one arm to hold; why it could not, empty when it did."""
    if not arm.is_connected:
        return f"the motor bus of {arm} is not connected"
    # A base has a stop of its own: its wheels stop also when the arm above them does not answer.
    if callable(stop_base := getattr(arm, "stop_base", None)):
        with suppress(*LEROBOT_ERRORS):
            stop_base()
    why = ""
    for _ in range(TRIES):
        try:
            arm.send_action(_holding(arm, holds))
            # The robots that have this method hide in `send_action` that a command failed.
            command = getattr(arm, "_send_command_to_sdk", None)
            if not callable(command) or command(0.0, 0.0):
                return ""
            why = "its SDK does not take the command"
        except (*LEROBOT_ERRORS, RobotProblem) as problem:
            why = str(problem).rstrip(".") or type(problem).__name__
    return why


def _holding(arm: LeRobot, holds: Mapping[str, float | None]) -> dict[str, float]:
    """The action that holds the arm: positions as the motors report them now, or else as they were sensed last.

    Raises:
        RobotProblem: a position cannot be read, and was never read before.
    """
    action = {name: 0.0 if value is None else value for name, value in holds.items()}
    positions = [name for name, value in holds.items() if value is not None]
    why = ""
    for _ in range(TRIES if positions else 0):
        try:
            present = arm.get_observation()
            return action | {name: float(present[name]) for name in positions}
        except LEROBOT_ERRORS as problem:
            why = str(problem).rstrip(".") or type(problem).__name__
    if unknown := sorted(name for name in positions if math.isnan(action[name])):
        raise RobotProblem(f"its {', '.join(unknown)} cannot be read: {why}")
    return action


@contextmanager
def _replaced(robot: LeRobot, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Iterator[Sequence[Any]]:
    """Replace the cameras of a robot and its arms for the length of the block; gives those that it had."""
    kept: list[tuple[LeRobot, str, dict[str, Any]]] = []
    parts = {id(part): part for part in (robot, *(arm for _, arm in arms(robot)))}
    for part in parts.values():
        for attribute in _CAMERAS:
            if isinstance(cameras := vars(part).get(attribute), dict):
                kept.append((part, attribute, cast("dict[str, Any]", cameras)))
                setattr(part, attribute, change(cast("dict[str, Any]", cameras)))
    try:
        # A robot with two arms repeats the cameras of its arms.
        yield list({id(camera): camera for _, _, cameras in kept for camera in cameras.values()}.values())
    finally:
        for part, attribute, cameras in kept:
            setattr(part, attribute, cameras)


class _BrokenCamera:
    """Stands for a camera that is gone, or whose newest image is old, as LeRobot's camera classes report it."""

    def __init__(self, camera: Any, fault: CameraFault) -> None:
        self._camera, self._gone = camera, fault == "gone"

    @property
    def is_connected(self) -> bool:
        return not self._gone

    def read_latest(self, *_: object, **__: object) -> Any:
        if self._gone:
            raise ConnectionError(f"{self._camera} is not connected.")
        raise TimeoutError(f"{self._camera} latest frame is too old.")

    read = async_read = read_latest_depth = read_latest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._camera, name)
