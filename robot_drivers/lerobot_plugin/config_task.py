"""Options of a simulated task and its expert on LeRobot's command line."""

from __future__ import annotations

from dataclasses import dataclass

from lerobot.robots import RobotConfig
from lerobot.teleoperators import TeleoperatorConfig


@RobotConfig.register_subclass("enpire_task")
@dataclass(kw_only=True)
class EnpireTaskConfig(RobotConfig):
    """A simulated task of ENPIRE."""

    task: str = "pin_insertion"
    seed: int = 0
    """Seed of the friction, masses and offsets of the simulation, and of the starts."""
    episode_s: float = 0.0
    """The scene is placed at a new start after this time [s]; 0: only by `connect`."""
    pictures: bool = True
    """Render the task's cameras; without it, observations have no images."""


@TeleoperatorConfig.register_subclass("enpire_expert")
@dataclass(kw_only=True)
class EnpireExpertConfig(TeleoperatorConfig):
    """The scripted expert of the task of the connected robot."""

    seed: int = 0
