"""What LeRobot's command line may say about a simulated task and its expert."""

from __future__ import annotations

from dataclasses import dataclass

from lerobot.robots import RobotConfig
from lerobot.teleoperators import TeleoperatorConfig


@RobotConfig.register_subclass("enpire_task")
@dataclass(kw_only=True)
class EnpireTaskConfig(RobotConfig):
    """A task of ENPIRE, simulated."""

    task: str = "pin_insertion"
    seed: int = 0
    """Draws the station's own friction, mass and offsets, and the starts."""
    episode_s: float = 0.0
    """The scene is placed at a new start after so many seconds of commands; 0: only by `connect`."""
    pictures: bool = True
    """Render the task's cameras; without, observations hold numbers only."""


@TeleoperatorConfig.register_subclass("enpire_expert")
@dataclass(kw_only=True)
class EnpireExpertConfig(TeleoperatorConfig):
    """The scripted expert of the task that the robot of this process does."""

    seed: int = 0
