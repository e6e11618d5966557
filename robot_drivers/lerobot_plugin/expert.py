"""The scripted expert of a task as a teleoperator of LeRobot: it acts on what the robot of this process observed."""

from __future__ import annotations

from typing import Any

import numpy as np
from lerobot.teleoperators import Teleoperator
from lerobot.utils.errors import DeviceNotConnectedError

from enpire.interfaces import Policy
from enpire.policy_calls import policy_seed
from enpire.types import FloatArray
from robot_drivers.lerobot_plugin.config_task import EnpireExpertConfig
from robot_drivers.lerobot_plugin.task_robot import EnpireTask, connected

_LANE = np.zeros(1, np.int64)


class EnpireExpert(Teleoperator):
    """Gives the expert's actions; the expert begins a new rollout whenever the scene is placed."""

    config_class = EnpireExpertConfig
    name = "enpire_expert"

    def __init__(self, config: EnpireExpertConfig) -> None:
        super().__init__(config)
        self.config = config
        self._connected = False
        self._robot: EnpireTask | None = None
        self._expert: Policy | None = None
        self._begun = -1
        self._chunk: list[FloatArray] = []
        """The actions (action_dim,) of the newest chunk that are left."""

    @property
    def action_features(self) -> dict[str, type]:
        """The actions of the connected robot."""
        return connected[-1].action_features if connected else {}

    @property
    def feedback_features(self) -> dict[str, type]:
        """It takes no feedback."""
        return {}

    @property
    def is_connected(self) -> bool:
        """Whether `connect` was called."""
        return self._connected

    @property
    def is_calibrated(self) -> bool:
        """Always: a script has nothing to calibrate."""
        return True

    def connect(self, calibrate: bool = True) -> None:
        """Nothing to open."""
        self._connected = True

    def calibrate(self) -> None:
        """Nothing to do."""

    def configure(self) -> None:
        """Nothing to do."""

    def get_action(self) -> dict[str, Any]:
        """The expert's action for the robot's newest observation: action name -> value in the unit of the spec."""
        robot = connected[-1] if connected else None
        if robot is None or robot.seen is None:
            raise DeviceNotConnectedError("The expert needs an enpire_task robot; connect one and read it first.")
        expert = self._expert_for(robot)
        if not self._chunk:
            chunk = expert.act(robot.seen, _LANE)[0]
            if not np.isfinite(chunk).all():
                raise RuntimeError(f"The expert of {robot.task.spec.name} returned a value that is not finite.")
            self._chunk = list(chunk[: expert.execute])
        action = self._chunk.pop(0)
        return {item.name: float(action[i]) for i, item in enumerate(robot.task.spec.action)}

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """Nothing to do: it takes no feedback."""

    def disconnect(self) -> None:
        """Nothing to close."""
        self._connected = False

    def _expert_for(self, robot: EnpireTask) -> Policy:
        """The expert of the robot's task, begun for its newest start."""
        if self._expert is None or self._robot is not robot:
            self._expert, self._robot, self._begun = robot.task.expert(self.config.seed), robot, -1
        if self._begun != robot.starts:
            self._expert.begin(0, policy_seed(robot.starts))
            self._begun, self._chunk = robot.starts, []
        return self._expert
