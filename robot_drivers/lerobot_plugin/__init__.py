"""ENPIRE's simulated tasks as robots of LeRobot, and their scripted experts as teleoperators.

`lerobot-record --robot.discover_packages_path=robot_drivers.lerobot_plugin --robot.type=enpire_task
--robot.task=pin_insertion --teleop.type=enpire_expert ...` records without hardware. LeRobot's commands
replay, teleoperate and rollout run on the same robot.
"""

from robot_drivers.lerobot_plugin.config_task import EnpireExpertConfig, EnpireTaskConfig
from robot_drivers.lerobot_plugin.expert import EnpireExpert
from robot_drivers.lerobot_plugin.task_robot import EnpireTask

__all__ = ["EnpireExpert", "EnpireExpertConfig", "EnpireTask", "EnpireTaskConfig"]
