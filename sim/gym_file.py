"""The file of a task that is a Gymnasium environment, and its rule of success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from enpire.errors import RobotProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessRule:
    """When a period of the environment is a success: exactly one of `info`, `reward`, `total` and `terminated`."""

    info: str = ""
    """Key of `info` that holds a truth value, or a number that must reach `at_least`."""
    at_least: float = 0.5
    reward: float | None = None
    """The reward of one period must reach this."""
    total: float | None = None
    """The sum of the rewards since the reset must reach this."""
    terminated: bool = False
    """The environment ends successful rollouts alone."""

    def __post_init__(self) -> None:
        """Refuse other than one rule with ValueError."""
        if sum((bool(self.info), self.reward is not None, self.total is not None, self.terminated)) != 1:
            raise ValueError("success needs exactly one of info, reward, total and terminated: true")

    def met(self, step: Step) -> bool:
        """Whether a period is a success.

        Raises:
            RobotProblem: `info` lacks the key.
        """
        if self.terminated:
            return step.terminated
        if self.reward is not None:
            return step.reward >= self.reward
        if self.total is not None:
            return step.total >= self.total
        if self.info not in step.info:
            raise RobotProblem(
                f"The environment's info has no key {self.info!r}; it has: {', '.join(map(str, step.info)) or 'none'}. "
                "Name the key under `success: {info: KEY}` in the task's file."
            )
        try:
            return float(np.asarray(step.info[self.info]).item()) >= self.at_least
        except (TypeError, ValueError) as problem:
            raise RobotProblem(f"The environment's info[{self.info!r}] is no number and no truth value.") from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one period of the environment returned."""

    reward: float
    total: float
    terminated: bool
    info: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GymFile:
    """The file of a task that is a Gymnasium environment. Only `gym` is required."""

    gym: str
    """Id of the environment; `module:Id-v0` imports the module that registers it first."""
    make: Mapping[str, object] = field(default_factory=dict[str, object])
    """Keyword arguments of `gymnasium.make`."""
    instruction: str = ""
    state: tuple[str, ...] = ()
    """Keys of a dictionary observation that make the state, in this order; empty: all."""
    state_limit: float = 1000.0
    """Bound of every number that the environment leaves unbounded."""
    action_limit: float = 1.0
    """Bound of every command that the environment leaves unbounded."""
    success: SuccessRule | None = None
    """None: `info["is_success"]` or `info["success"]`, whichever the environment reports."""
    limit: int = 0
    """Periods after which a rollout without success ends; 0: the limit that the environment is registered with."""
    rate_hz: float = 0.0
    """Periods in a second; 0: the environment's `render_fps`, else 30."""
    expert: str = ""
    """module:attribute of a class: called with a seed, it gives a policy that demonstrates the task."""
    camera: bool = False
    """Whether `render()` gives an RGB image, which is then the camera `render`."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range with ValueError."""
        if not self.gym:
            raise ValueError("gym must be the id of an environment, such as MountainCarContinuous-v0")
        if not (self.state_limit > 0 and self.action_limit > 0):
            raise ValueError("state_limit and action_limit must be above 0")
        if self.limit < 0 or self.rate_hz < 0:
            raise ValueError("limit and rate_hz must be at least 0, where 0 takes the environment's own")
