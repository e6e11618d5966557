"""A LeRobot teleoperator whose axes a test moves.

The name of this file is the one under which LeRobot looks for the class of a third party's device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lerobot.teleoperators import Teleoperator, TeleoperatorConfig


@TeleoperatorConfig.register_subclass("fake_leader")
@dataclass(kw_only=True)
class FakeLeaderConfig(TeleoperatorConfig):
    """Its configuration in LeRobot."""

    calibrated: bool = True


class FakeLeader(Teleoperator):
    """A device whose axes a test moves."""

    config_class = FakeLeaderConfig
    name = "fake_leader"
    made: list[FakeLeader] = []  # noqa: RUF012 - of this test alone

    def __init__(self, config: FakeLeaderConfig) -> None:
        super().__init__(config)
        self.axes: dict[str, Any] = {"stick_x": 0.0, "stick_y": 0.0, "vz_mm_s": 0.0}
        self.connected, self.broken, self._calibrated = False, False, config.calibrated
        self.made.append(self)

    @property
    def action_features(self) -> dict[str, type]:
        return dict.fromkeys(self.axes, float)

    @property
    def feedback_features(self) -> dict[str, type]:
        return {}

    @property
    def is_connected(self) -> bool:
        return self.connected

    @property
    def is_calibrated(self) -> bool:
        return self._calibrated

    def connect(self, calibrate: bool = True) -> None:
        self.connected = True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_action(self) -> dict[str, Any]:
        if self.broken:
            raise ConnectionError("the cable is out")
        return dict(self.axes)

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """It takes no feedback."""

    def disconnect(self) -> None:
        self.connected = False
