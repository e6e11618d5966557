"""A `Robot`, such as that of a driver file, as a rig of one lane for a station."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from enpire.errors import RobotProblem, UsageError
from enpire.interfaces import Robot
from enpire.types import FloatArray, ImageArray, MaskArray, Observation, Start
from enpire.wire.live_images import RenderImages, no_live_images
from robot_drivers.sensor_faults import SensorFault, broken_sensors, check_possible

LIVE_S = 1.0
"""Oldest observation that is shown as a live image, in seconds: a robot that moves is observed more often."""


@runtime_checkable
class Resumes(Protocol):
    """A robot whose own stop must be ended before it moves again; called only when it may move."""

    def resume(self) -> None:
        """End the stop; RobotProblem if the robot does not."""


class SingleLane:
    """A connected `Robot` as a `Rig` with one lane. `place` moves nothing: the robot resets the scene afterwards."""

    lanes = 1

    def __init__(self, robot: Robot, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.spec = robot.spec
        self._robot = robot
        self._clock_s = clock_s
        self._seen: Observation | None = None
        self._seen_s = 0.0
        self._sent: FloatArray = np.zeros((1, robot.spec.action_dim), np.float32)
        self._moves = self._held = False
        self._fault: SensorFault = ""
        robot.connect()

    def place(self, lane: int, start: Start) -> None:
        """Prepare a reset by the robot: clear the last observation."""
        if lane != 0:
            raise UsageError(f"A real robot has one lane, number 0; there is no lane {lane}.")
        if len(start.values) != len(self.spec.start_names):
            raise UsageError(
                f"A start of {self.spec.name} has the values {', '.join(self.spec.start_names)}, not"
                f" {len(start.values)} numbers."
            )
        self._resume()
        self._seen = None

    def observe(self) -> Observation:
        """Sense once: state (1, state_dim) float32, in the units of the spec; RobotProblem when the shape is wrong."""
        seen = self._robot.observe()
        if seen.state.shape != (1, self.spec.state_dim):
            raise RobotProblem(
                f"The driver of {self.spec.name} returned a state of shape {seen.state.shape}; its spec says"
                f" (1, {self.spec.state_dim}). Correct the driver."
            )
        self._seen, self._seen_s = seen, self._clock_s()
        return seen

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        """Send an action (1, action_dim) if the lane moves, in the units of the spec.

        Returns:
            What the driver sent, (1, action_dim) float32; the last sent action if the lane does not move. A lane that
            moved until now holds still.

        Raises:
            RobotProblem: the driver returned a wrong shape.
        """
        if not moving[0]:
            if self._moves:
                self.hold()
        else:
            if self._held:
                self._resume()
            self._moves = True
            sent = np.asarray(self._robot.act(action[0]), np.float32)
            if sent.shape != (self.spec.action_dim,):
                raise RobotProblem(
                    f"The `act` of the driver of {self.spec.name} returned shape {sent.shape}; its spec says"
                    f" ({self.spec.action_dim},). Correct the driver."
                )
            self._sent = sent[None]
        return self._sent

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        """camera -> image (height, width, 3) uint8 of the newest observation; empty when the driver gives none."""
        seen = self._seen if self._seen is not None else self.observe()
        return {camera: image[lane] for camera, image in seen.images.items()}

    def capture_live(self, lane: int) -> RenderImages:
        """The live images: those of the newest observation. A robot that is idle, or stopped, is observed for them.

        Raises:
            RobotProblem: the driver failed.
        """
        seen = self._seen
        if seen is None or self._clock_s() - self._seen_s > LIVE_S:
            seen = self._robot.observe()  # not kept: `look` has the images of the last period
        images = seen.images
        if not images:
            return no_live_images
        return lambda cameras: {camera: images[camera][lane] for camera in cameras if camera in images}

    def stop(self) -> None:
        """Hold still."""
        self._moves = False
        with broken_sensors(self._robot, self._fault):
            self._robot.stop()

    def hold(self) -> None:
        """Hold still until the next action: a robot that gets no action may still carry out its last one."""
        self.stop()
        self._held = True

    def _resume(self) -> None:
        """Let a robot that needs it end its stop."""
        self._held = False
        if isinstance(self._robot, Resumes):
            self._robot.resume()

    def rehearse(self, fault: SensorFault) -> None:
        """Break the sensors in every stop from now on, for conformance checks; UsageError if that is not possible."""
        check_possible(self._robot, fault)
        self._fault = fault

    def close(self) -> None:
        """Stop and disconnect."""
        self._robot.close()
