"""A task's scripted expert as a teleoperator of LeRobot: it watches the robot that is connected in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
from lerobot.teleoperators import Teleoperator
from lerobot.utils.errors import DeviceNotConnectedError

from enpire.policy_calls import LoadedPolicy
from enpire.station.chunks import Chunks
from enpire.types import SOURCE_EXPERT, FloatArray
from robot_drivers.lerobot_plugin.config_task import EnpireExpertConfig
from robot_drivers.lerobot_plugin.task_robot import EnpireTask, on_stage

_LANE = np.zeros(1, np.int64)


class EnpireExpert(Teleoperator):
    """Commands what the expert would; begins anew whenever the scene is placed."""

    config_class = EnpireExpertConfig
    name = "enpire_expert"

    def __init__(self, config: EnpireExpertConfig) -> None:
        super().__init__(config)
        self.config = config
        self._connected = False
        self._watched: EnpireTask | None = None
        self._chunks: Chunks | None = None
        self._begun = -1

    @property
    def action_features(self) -> dict[str, type]:
        """The robot's."""
        return on_stage[-1].action_features if on_stage else {}

    @property
    def feedback_features(self) -> dict[str, type]:
        """None."""
        return {}

    @property
    def is_connected(self) -> bool:
        """Whether it was told to begin."""
        return self._connected

    @property
    def is_calibrated(self) -> bool:
        """A script needs none."""
        return True

    def connect(self, calibrate: bool = True) -> None:
        """Begin."""
        self._connected = True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_action(self) -> dict[str, Any]:
        """The expert's command for what the robot saw last."""
        robot = on_stage[-1] if on_stage else None
        if robot is None or robot.seen is None:
            raise DeviceNotConnectedError("The expert watches an enpire_task robot; connect one and read it first.")
        chunks = self._chunks_for(robot)
        if why := chunks.decide(robot.seen, _LANE):
            raise RuntimeError(f"The expert gave no command: {why[0]}.")
        commands: FloatArray = chunks.next(_LANE)[0]
        return {item.name: float(commands[0, i]) for i, item in enumerate(robot.task.spec.action)}

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """It feels nothing."""

    def disconnect(self) -> None:
        """End."""
        self._connected = False

    def _chunks_for(self, robot: EnpireTask) -> Chunks:
        if self._chunks is None or self._watched is not robot:
            self._chunks, self._watched, self._begun = Chunks(1, robot.task.spec.action_dim), robot, -1
        if self._begun != robot.starts:
            expert = LoadedPolicy(
                policy_id="scripted:expert", policy=robot.task.expert(self.config.seed), source=SOURCE_EXPERT
            )
            if why := self._chunks.begin(0, expert, robot.starts):
                raise RuntimeError(f"The expert could not begin: {why}.")
            self._begun = robot.starts
        return self._chunks
