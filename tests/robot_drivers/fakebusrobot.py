"""A LeRobot robot with servo registers in memory instead of a serial bus.

The name of this file is the one under which LeRobot looks for the class of a third party's robot.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from lerobot.robots import Robot, RobotConfig
from lerobot.robots.utils import ensure_safe_goal_position
from lerobot.utils.errors import DeviceNotConnectedError

JOINTS: tuple[str, ...] = ("pan", "lift")


class ServoBus:
    """Present_Position follows Goal_Position at a limited speed, in degrees."""

    speed_deg_s = 120.0

    def __init__(self) -> None:
        self.goal = dict.fromkeys(JOINTS, 0.0)
        self.present = dict.fromkeys(JOINTS, 0.0)
        self.open = False
        self.corrupt = False
        self.seen_s = time.monotonic()

    def read(self) -> dict[str, float]:
        """Present positions of the servos [deg]."""
        self._check()
        now_s = time.monotonic()
        reach = self.speed_deg_s * (now_s - self.seen_s)
        self.seen_s = now_s
        for joint, goal in self.goal.items():
            away = goal - self.present[joint]
            self.present[joint] += max(-reach, min(reach, away))
        return dict(self.present)

    def write(self, goal: dict[str, float]) -> None:
        """Set the goal positions of the servos [deg]."""
        self.read()
        self.goal.update(goal)

    def _check(self) -> None:
        if not self.open:
            raise DeviceNotConnectedError
        if self.corrupt:
            raise ConnectionError("Failed to sync read: [TxRxResult] Incorrect status packet!")


@RobotConfig.register_subclass("fake_bus_robot")
@dataclass(kw_only=True)
class FakeBusRobotConfig(RobotConfig):
    """Its configuration in LeRobot."""

    port: str = "/dev/null"
    calibrated: bool = True
    max_relative_target: float | None = None


class FakeBusRobot(Robot):
    """Two servos and a camera."""

    config_class = FakeBusRobotConfig
    name = "fake_bus_robot"

    def __init__(self, config: FakeBusRobotConfig) -> None:
        super().__init__(config)
        self.config = config
        self.bus = ServoBus()

    @property
    def observation_features(self) -> dict:
        return {**{f"{joint}.pos": float for joint in JOINTS}, "wrist": (24, 32, 3)}

    @property
    def action_features(self) -> dict:
        return {f"{joint}.pos": float for joint in JOINTS}

    @property
    def is_connected(self) -> bool:
        return self.bus.open

    @property
    def is_calibrated(self) -> bool:
        return self.config.calibrated

    def connect(self, calibrate: bool = True) -> None:
        if calibrate:
            raise EOFError("LeRobot asks at the terminal")
        self.bus.open = True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> dict:
        present = self.bus.read()
        picture = np.full((24, 32, 3), 128, np.uint8)
        picture[:, :, 0] = int(abs(present["pan"])) % 256
        picture[0, 0] = np.frombuffer(time.monotonic_ns().to_bytes(8, "little")[:3], np.uint8)
        return {**{f"{joint}.pos": value for joint, value in present.items()}, "wrist": picture}

    def send_action(self, action: dict) -> dict:
        goal = {joint: action[f"{joint}.pos"] for joint in JOINTS}
        if self.config.max_relative_target is not None:
            present = self.bus.read()
            goal = ensure_safe_goal_position(
                {joint: (value, present[joint]) for joint, value in goal.items()}, self.config.max_relative_target
            )
        self.bus.write(goal)
        return {f"{joint}.pos": value for joint, value in goal.items()}

    def disconnect(self) -> None:
        self.bus.open = False
