"""A simulated task as a robot of LeRobot: the same rig, in the same envelope, as on a station."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from lerobot.robots import Robot
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from enpire import plugins
from enpire.interfaces import Rig, Task
from enpire.types import ImageArray, Observation
from robot_drivers.lerobot_plugin.config_task import EnpireTaskConfig
from robot_drivers.mujoco_robot import open_rig

connected: list[EnpireTask] = []
"""The connected robots of this process, newest last; the expert acts on the newest."""


class EnpireTask(Robot):
    """One lane of a task's rig. Names and units are those of the task's spec."""

    config_class = EnpireTaskConfig
    name = "enpire_task"

    def __init__(self, config: EnpireTaskConfig) -> None:
        super().__init__(config)
        self.config = config
        self.task = cast("Callable[[], Task]", plugins.load("tasks", config.task))()
        self._rig: Rig | None = None
        self._placed = self._sent = 0
        names = self.task.spec.cameras if config.pictures else ()
        self.cameras = {camera: self._look(camera) for camera in names}
        """camera -> (height, width, 3) of its images."""
        self.seen: Observation | None = None
        """The newest observation."""

    @property
    def observation_features(self) -> dict[str, type | tuple[int, int, int]]:
        """State name -> float, camera -> (height, width, 3)."""
        return {**{item.name: float for item in self.task.spec.state}, **self.cameras}

    @property
    def action_features(self) -> dict[str, type]:
        """Action name -> float."""
        return {item.name: float for item in self.task.spec.action}

    @property
    def is_connected(self) -> bool:
        """Whether the simulation runs."""
        return self._rig is not None

    @property
    def is_calibrated(self) -> bool:
        """Always: a simulation has nothing to calibrate."""
        return True

    @property
    def starts(self) -> int:
        """How often the scene was placed at a start."""
        return self._placed

    def connect(self, calibrate: bool = True) -> None:
        """Start the simulation at its first start."""
        if self._rig is not None:
            raise DeviceAlreadyConnectedError(f"{self} is already connected.")
        self._rig = open_rig(self.task, 1, self.config.seed, {})
        self._place()
        connected.append(self)

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict[str, Any]:
        """State name -> value in the unit of the spec, and camera -> (height, width, 3) uint8."""
        rig = self._open()
        if 0 < self.config.episode_s <= self._sent * self.task.spec.period_s:
            self._place()
        self.seen = rig.observe()
        numbers = {item.name: float(self.seen.state[0, i]) for i, item in enumerate(self.task.spec.state)}
        return {**numbers, **(self._pictures(rig) if self.cameras else {})}

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        """Advance by one period; returns the action that was sent after limits, in the units of the spec."""
        rig, names = self._open(), [item.name for item in self.task.spec.action]
        requested = np.array([[float(action[name]) for name in names]], np.float32)
        sent = rig.act(requested, np.ones(1, np.bool_))[0]
        self._sent += 1
        return {name: float(value) for name, value in zip(names, sent, strict=True)}

    def disconnect(self) -> None:
        """End the simulation."""
        self._open().close()
        self._rig = None
        connected.remove(self)

    def _look(self, camera: str) -> tuple[int, int, int]:
        """(height, width, 3) of the images of a camera; the robot need not be connected."""
        rig = self._rig or open_rig(self.task, 1, self.config.seed, {})
        height, width, depth = rig.look(0)[camera].shape
        if self._rig is None:
            rig.close()
        return height, width, depth

    def _pictures(self, rig: Rig) -> dict[str, ImageArray]:
        seen = rig.look(0)
        return {camera: seen[camera] for camera in self.cameras}

    def _place(self) -> None:
        rig = self._open()
        rig.place(0, self.task.start("train", self._placed, f"lerobot {self.config.seed}".encode()))
        self._placed, self._sent = self._placed + 1, 0

    def _open(self) -> Rig:
        if self._rig is None:
            raise DeviceNotConnectedError(f"{self} is not connected.")
        return self._rig
