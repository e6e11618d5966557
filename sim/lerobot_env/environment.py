"""Every task as an environment of `lerobot-eval`.

`lerobot-eval --env.discover_packages_path=sim.lerobot_env --env.type=enpire --env.task=pin_insertion --policy.path=DIR`
runs a LeRobot policy on train starts. Keys and units are those of `enpire episodes export`, so a policy that was
trained on an export runs as it is. The success is the verdict of the task's verifier. For evidence use `enpire gate`:
its starts are hidden and paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig

from enpire import plugins
from enpire.errors import UsageError
from enpire.interfaces import Task
from enpire.types import FloatArray
from sim.gym_env import TaskEnv

ACTION, STATE, ENVIRONMENT, IMAGES = (
    "action", "observation.state", "observation.environment_state", "observation.images"
)  # fmt: skip
GYM_ID = "enpire/LeRobot-v0"
PIXELS = 224
"""Height and width of the images of simulated cameras."""


@EnvConfig.register_subclass("enpire")
@dataclass
class EnpireEnv(EnvConfig):
    """The options of `lerobot-eval --env.type=enpire`."""

    task: str | None = "pin_insertion"
    rig_seed: int = 0
    """Draws the friction, mass and offsets of the simulated station."""
    cameras: bool = False
    """Whether the policy sees the cameras."""

    def __post_init__(self) -> None:
        """Take rate and sizes from the task."""
        spec = _task(self.task).spec
        self.fps = round(spec.rate_hz)
        dim = (len(spec.state),)
        self.features = {
            ACTION: PolicyFeature(type=FeatureType.ACTION, shape=(spec.action_dim,)),
            "agent_pos": PolicyFeature(type=FeatureType.STATE, shape=dim),
        }
        self.features_map = {ACTION: ACTION, "agent_pos": STATE}
        if not self.cameras:
            self.features["environment_state"] = PolicyFeature(type=FeatureType.ENV, shape=dim)
            self.features_map["environment_state"] = ENVIRONMENT
        for camera in spec.cameras if self.cameras else ():
            self.features[f"pixels/{camera}"] = PolicyFeature(type=FeatureType.VISUAL, shape=(PIXELS, PIXELS, 3))
            self.features_map[f"pixels/{camera}"] = f"{IMAGES}.{camera}"

    @property
    def gym_id(self) -> str:
        """The name under which Gymnasium makes it."""
        return GYM_ID

    @property
    def gym_kwargs(self) -> dict[str, object]:
        """The arguments of the environment."""
        return {"task": self.task, "rig_seed": self.rig_seed, "cameras": self.cameras}


class LeRobotEnv(gymnasium.Env[dict[str, object], FloatArray]):
    """One lane of a task with LeRobot's keys: actions in the units of the task, observations as a dictionary."""

    def __init__(self, task: str, rig_seed: int = 0, cameras: bool = False) -> None:
        """Open a rig.

        Args:
            task: name of a task plug-in.
            rig_seed: draws the station's friction, mass and offsets.
            cameras: whether observations hold the images.
        """
        self._env = TaskEnv(_task(task), rig_seed)
        spec = self._env.task.spec
        self._cameras = cameras
        self.render_mode = "rgb_array"
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": round(spec.rate_hz)}
        self.task = self.task_description = spec.instruction
        self._max_episode_steps = spec.limit_ticks
        low = np.array([bounds.low for bounds in spec.action], dtype=np.float32)
        high = np.array([bounds.high for bounds in spec.action], dtype=np.float32)
        self._middle, self._reach = (high + low) / 2, (high - low) / 2
        self.action_space = gymnasium.spaces.Box(low, high, dtype=np.float32)
        parts: dict[str, gymnasium.Space[Any]] = {"agent_pos": self._env.observation_space}
        if cameras:
            image = gymnasium.spaces.Box(0, 255, (PIXELS, PIXELS, 3), dtype=np.uint8)
            parts["pixels"] = gymnasium.spaces.Dict(dict.fromkeys(spec.cameras, image))
        else:
            parts["environment_state"] = self._env.observation_space
        self.observation_space = cast("gymnasium.Space[dict[str, object]]", gymnasium.spaces.Dict(parts))

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, object], dict[str, object]]:
        """Begin at a train start drawn from the seed."""
        super().reset(seed=seed)
        state, info = self._env.reset(seed=seed, options=options)
        return self._seen(state), info | {"is_success": False}

    def step(self, action: FloatArray) -> tuple[dict[str, object], float, bool, bool, dict[str, object]]:
        """One period with an action (action_dim,) in the units of the task; `is_success` is the verdict."""
        state, reward, terminated, truncated, info = self._env.step(
            ((action - self._middle) / self._reach).astype(np.float32)
        )
        return self._seen(state), reward, terminated, truncated, info | {"is_success": reward > 0}

    def render(self) -> npt.NDArray[np.uint8]:  # type: ignore[override]
        """The first camera's image (224, 224, 3) uint8; black on a machine without a GL library."""
        pictures = self._env.look()
        return next(iter(pictures.values()), np.zeros((PIXELS, PIXELS, 3), dtype=np.uint8))

    def close(self) -> None:
        """Close the rig."""
        self._env.close()

    def _seen(self, state: FloatArray) -> dict[str, object]:
        if not self._cameras:
            return {"agent_pos": state, "environment_state": state}
        pictures = self._env.look()
        if not pictures:
            raise UsageError(f"{self.task!r} has no camera images here; `enpire doctor` says what is missing.")
        return {"agent_pos": state, "pixels": pictures}


def _task(name: str | None) -> Task:
    return cast("type[Task]", plugins.load("tasks", name or ""))()


if GYM_ID not in gymnasium.registry:
    gymnasium.register(GYM_ID, entry_point="sim.lerobot_env.environment:LeRobotEnv")
