"""How a robot on ROS 2 is stopped and allowed to move again: by a service, a topic, or a switch of controllers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from enpire.errors import RobotProblem
from robot_drivers.ros2_link import Content, Node, Publisher, Ros2Settings

ANSWER_S = 5.0
"""How long a stop waits for the answer of the robot [s]."""
ACK_S = 1.0
"""How long a stop by a message waits until its subscribers have it [s]."""
BEST_EFFORT = 1
"""Strictness of a switch of controllers: one that is inactive already does not keep the others active."""
STOP_HINT = "use its own emergency stop"


class Stop(Protocol):
    """Stops a robot. `stop` and `resume` are allowed from any thread, in any state, twice.

    `resume` ends only a stop that was requested here: an operator or another node may have stopped the robot, too.
    """

    def missing(self) -> str:
        """What the robot lacks for a stop; empty when nothing is missing."""
        ...

    def stop(self, hold: Callable[[], Content]) -> None:
        """Stop the robot.

        Args:
            hold: gives the action that holds it still, as a message.

        Raises:
            RobotProblem: the robot did not get the stop, did not answer, or refused.
        """

    def resume(self) -> None:
        """Allow motion again; RobotProblem when the robot refuses."""


def stop_of(node: Node, settings: Ros2Settings, commands: Publisher) -> Stop:
    """The stop that the settings name."""
    if settings.stop_by == "service":
        return _ByService(node, settings)
    if settings.stop_by == "controllers":
        return _ByControllers(node, settings)
    return _ByTopic(node, settings) if settings.stop_by == "topic" else _ByCommand(commands)


class _ByService:
    def __init__(self, node: Node, settings: Ros2Settings) -> None:
        self._client = node.client("std_srvs/Trigger", settings.stop)

    def missing(self) -> str:
        return "" if self._client.ready() else "no node serves its stop"

    def stop(self, hold: Callable[[], Content]) -> None:
        answer = self._client.call({}, ANSWER_S)
        if answer is None:
            raise RobotProblem(f"The robot did not answer a stop within {ANSWER_S:.1f} s; {STOP_HINT}.")
        if not answer.success:
            raise RobotProblem(f"The robot refused to stop: {answer.message}")

    def resume(self) -> None:
        """The node that serves the stop decides itself when the robot may move."""


class _ByTopic:
    def __init__(self, node: Node, settings: Ros2Settings) -> None:
        self._topic, self._is_bool, self._stopped = settings.stop, settings.stop_message == "Bool", False
        self._publisher = node.publisher(f"std_msgs/{settings.stop_message}", settings.stop)

    def missing(self) -> str:
        return "" if self._publisher.matched() else f"no node subscribes to its stop {self._topic}"

    def stop(self, hold: Callable[[], Content]) -> None:
        self._stopped = self._is_bool
        _send(self._publisher, {"data": True} if self._is_bool else {}, f"stop topic {self._topic}")

    def resume(self) -> None:
        if self._stopped:
            _send(self._publisher, {"data": False}, f"stop topic {self._topic}")
            self._stopped = False


class _ByCommand:
    def __init__(self, commands: Publisher) -> None:
        self._commands = commands

    def missing(self) -> str:
        return ""  # the driver looks for the subscriber of its actions itself

    def stop(self, hold: Callable[[], Content]) -> None:
        _send(self._commands, hold(), "actions")

    def resume(self) -> None:
        """The next action moves it."""


class _ByControllers:
    def __init__(self, node: Node, settings: Ros2Settings) -> None:
        self._moving, self._holding = list(settings.controllers), list(settings.holding)
        self._service = f"{settings.controller_manager}/switch_controller"
        self._client = node.client("controller_manager_msgs/SwitchController", self._service)
        self._switching = threading.Lock()
        self._stopped = False

    def missing(self) -> str:
        return "" if self._client.ready() else f"no node serves {self._service}"

    def stop(self, hold: Callable[[], Content]) -> None:
        until_s = time.monotonic() + ANSWER_S
        with self._switching:
            self._stopped = True
            self._switch(self._holding, self._moving, until_s)
            for name in self._moving if len(self._moving) > 1 else ():
                # A switch succeeds when one of several controllers was switched; alone, each one answers for itself.
                self._switch([], [name], until_s)

    def resume(self) -> None:
        with self._switching:
            if self._stopped:
                self._switch(self._moving, self._holding, time.monotonic() + ANSWER_S)
                self._stopped = False

    def _switch(self, activate: list[str], deactivate: list[str], until_s: float) -> None:
        request = {
            "activate_controllers": activate, "deactivate_controllers": deactivate, "strictness": BEST_EFFORT,
            "timeout": {"sec": int(ANSWER_S)},
        }  # fmt: skip
        answer = self._client.call(request, max(0.1, until_s - time.monotonic()))
        if answer is not None and answer.ok:
            return
        refused = getattr(answer, "message", "") or "it refused"  # ROS 2 Iron and earlier give no message
        why = f"no answer came within {ANSWER_S:.1f} s" if answer is None else refused
        raise RobotProblem(
            f"The controller manager did not deactivate {', '.join(deactivate) or 'any controller'} and activate"
            f" {', '.join(activate) or 'none'}: {why}; {STOP_HINT}."
        )


def _send(publisher: Publisher, content: Content, what: str) -> None:
    """Publish a message of a stop; RobotProblem unless a node has it."""
    if not publisher.matched():
        raise RobotProblem(f"No node subscribes to the {what} of the robot; {STOP_HINT}.")
    publisher.publish(content)
    if not publisher.acknowledged(ACK_S):
        raise RobotProblem(f"The {what} of the robot did not take a stop within {ACK_S:.1f} s; {STOP_HINT}.")
