"""Every task as a Gymnasium environment: `gymnasium.make("sim.gym_env:enpire/PinInsertion-v0")`.

Actions are scaled to [-1, 1]. The reward is 1 when the task's verifier calls the rollout a success, else 0; the ground
truth stays inside the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import gymnasium
import numpy as np
import numpy.typing as npt

from enpire import plugins
from enpire.errors import UsageError
from enpire.interfaces import Evidence, Rig, Task
from enpire.types import SOURCE_POLICY, EpisodeArrays, FloatArray

ENVIRONMENTS: Mapping[str, str] = {
    "enpire/PinInsertion-v0": "pin_insertion",
    "enpire/PinInsertionBlind-v0": "pin_insertion_blind",
    "enpire/FragileInsertion-v0": "fragile_insertion",
    "enpire/PushT-v0": "push_t",
    "enpire/GpuInsertion-v0": "gpu_insertion",
    "enpire/ZiptieCutting-v0": "ziptie_cutting",
    "enpire/FragileZiptie-v0": "fragile_ziptie",
    "enpire/BagPacking-v0": "bag_packing",
    "enpire/MarkerInCup-v0": "marker_in_cup",
}
"""Gymnasium id -> name of the task plug-in."""


class TaskEnv(gymnasium.Env[FloatArray, FloatArray]):
    """One lane of a task's simulated rig, on train starts."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - Gymnasium wants a plain attribute

    def __init__(self, task: str | Task, rig_seed: int = 0, render_mode: str | None = None) -> None:
        """Open a rig.

        Args:
            task: name of a task plug-in, or a task.
            rig_seed: draws the station's friction, mass and offsets.
            render_mode: `rgb_array`, or None for no images.
        """
        self.render_mode = render_mode
        self.task = cast("type[Task]", plugins.load("tasks", task))() if isinstance(task, str) else task
        spec = self.task.spec
        state_low = np.array([b.low for b in spec.state], dtype=np.float32)
        state_high = np.array([b.high for b in spec.state], dtype=np.float32)
        self.observation_space = gymnasium.spaces.Box(state_low, state_high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (spec.action_dim,), dtype=np.float32)
        low = np.array([b.low for b in spec.action], dtype=np.float32)
        high = np.array([b.high for b in spec.action], dtype=np.float32)
        self._middle, self._reach = (high + low) / 2, (high - low) / 2
        self._rig: Rig = self.task.rig(1, rig_seed)
        self._verifier = self.task.verifier()
        self._states: list[FloatArray] = []
        self._actions: list[FloatArray] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[FloatArray, dict[str, object]]:
        """Begin at a train start drawn from the seed, or at `options={"index": i}`; (state (state_dim,), info)."""
        super().reset(seed=seed)
        index = int(cast(int, (options or {}).get("index", self.np_random.integers(0, 2**31))))
        self._rig.place(0, self.task.start("train", index, b""))
        self._verifier = self.task.verifier()
        self._states, self._actions = [self._rig.observe().state[0]], []
        return self._bounded(), {"index": index}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, object]]:
        """One period with an action (action_dim,) in [-1, 1].

        Terminated when the verifier calls the rollout finished, truncated at the time limit.

        Raises:
            UsageError: `reset` was not called, or the action has another shape.
        """
        if not self._states:
            raise UsageError("The environment has no episode yet; call reset() before step().")
        if np.shape(action) != self._middle.shape:
            raise UsageError(
                f"{self.task.spec.name} takes actions of shape {self._middle.shape}, each number in [-1, 1], not of "
                f"shape {np.shape(action)}."
            )
        scaled = (self._middle + self._reach * action).astype(np.float32)
        sent = self._rig.act(scaled[None], np.ones(1, dtype=np.bool_))
        self._actions.append(sent[0])
        state = self._rig.observe().state
        self._states.append(state[0])
        ticks = len(self._actions)
        terminated = bool(self._verifier.finished(state, np.array([ticks]))[0])
        truncated = not terminated and ticks >= self.task.spec.limit_ticks
        info: dict[str, object] = {}
        reward = 0.0
        if terminated or truncated:
            images = self._rig.look(0) if self._verifier.needs_images else {}
            verdict = self._verifier.judge(Evidence(arrays=self._arrays(), images=images))
            reward = float(verdict.kind == "success")
            info = {"verdict": verdict.kind, "confidence": verdict.confidence}
        return self._bounded(), reward, terminated, truncated, info

    def _bounded(self) -> FloatArray:
        """The newest state (state_dim,), clipped to the bounds of the observation space."""
        return np.clip(self._states[-1], self.observation_space.low, self.observation_space.high)  # pyright: ignore[reportAttributeAccessIssue]

    def render(self) -> npt.NDArray[np.uint8] | None:  # type: ignore[override]
        """The first camera's image (224, 224, 3) uint8; black on a machine without a GL library."""
        if self.render_mode is None:
            return None
        pictures = self.look()
        return pictures[self.task.spec.cameras[0]] if pictures else np.zeros((224, 224, 3), dtype=np.uint8)

    def look(self) -> Mapping[str, npt.NDArray[np.uint8]]:
        """Camera -> image (224, 224, 3) uint8; empty on a machine without a GL library."""
        return self._rig.look(0)

    def close(self) -> None:
        """Close the rig."""
        self._rig.close()

    def _arrays(self) -> EpisodeArrays:
        ticks = len(self._actions)
        return EpisodeArrays(
            state=np.stack(self._states),
            action=np.stack(self._actions),
            source=np.full(ticks, SOURCE_POLICY, dtype=np.uint8),
            chunk=np.full(ticks, -1, dtype=np.int32),
        )


def register() -> None:
    """Register the environments with Gymnasium. Allowed twice."""
    for name, task in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point="sim.gym_env:TaskEnv", kwargs={"task": task})


register()
