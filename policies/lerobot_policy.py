"""Runs any LeRobot policy (0.6.1) for several lanes, with seeded noise and the robot's units."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, ImageArray, IntArray, Observation
from policies.lerobot_files import LerobotManifest, Parts, load_parts
from policies.lerobot_files import save as save

BLOCK_ROWS = 8
"""Lanes of one inference of ACT; with a fixed number a lane's chunk does not depend on the other lanes."""
IMAGES = "observation.images."
_RANDOM_LOCK = threading.Lock()
"""Guards torch's global random generator, which policies that run inference in several threads share."""


def state_inputs(about: LerobotManifest, state: FloatArray) -> dict[str, Tensor]:
    """LeRobot's key -> float32 tensor (B, columns), from states (B, state_dim) in units of the robot.

    PolicyProblem if a key names columns that the state does not have.
    """
    found: dict[str, Tensor] = {}
    for key, (first, last) in about.inputs.items():
        if not 0 <= first < last <= state.shape[1]:
            raise PolicyProblem(
                f"{key} needs the state's columns {first} to {last}, and the state has {state.shape[1]}; "
                "correct `inputs` in policy.json."
            )
        found[key] = torch.from_numpy(np.ascontiguousarray(state[:, first:last], np.float32))
    return found


def image_inputs(config: Any) -> Mapping[str, Any]:
    """LeRobot's key -> feature, for the camera images that the policy needs, without its placeholders."""
    return {
        key: feature
        for key, feature in config.input_features.items()
        if feature.type.name == "VISUAL" and not key.startswith(f"{IMAGES}empty_camera_")
    }


def cameras_of(config: Any) -> tuple[str, ...]:
    """The names of the cameras that a policy needs."""
    return tuple(key.removeprefix(IMAGES) for key in image_inputs(config))


def image_tensor(images: ImageArray) -> Tensor:
    """Images (B, height, width, 3) uint8 as LeRobot's input: (B, 3, height, width) float32 in [0, 1]."""
    rows = np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32)
    return torch.from_numpy(rows / np.float32(255))


class LerobotPolicy:
    """A LeRobot policy for several lanes.

    A policy with several observation steps gets the observations of the lane's last decisions; with `execute` 1 that is
    LeRobot's own spacing. ACT has no noise and runs in blocks of lanes. Other policies run one lane at a time, each
    with its own seed, because the last bits of diffusion's convolutions depend on the position in the batch.
    """

    def __init__(self, parts: Parts) -> None:
        """Run the policy once for the length of its chunks. PolicyProblem if `execute` does not fit it."""
        self._parts = parts
        self._config: Any = parts.policy.config
        self._steps = int(getattr(self._config, "n_obs_steps", 1))
        self._noise: dict[int, np.random.Generator] = {}
        self._history: dict[int, deque[dict[str, Tensor]]] = {}
        self._in_blocks = self._config.type == "act"
        self.needs_images = bool(image_inputs(self._config))
        self.horizon = self._chunk_length()
        self.execute = parts.about.execute
        if not 1 <= self.execute <= self.horizon:
            raise PolicyProblem(
                f"execute is {self.execute}; this {self._config.type} policy allows 1 to {self.horizon}."
            )

    def begin(self, lane: int, seed: int) -> None:
        """Start a new episode in this lane; `seed` is of its noise."""
        self._noise[lane] = np.random.default_rng(seed)
        self._history.pop(lane, None)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) float32, units of the robot.

        PolicyProblem if the observation lacks a lane or a camera, or a lane has not begun an episode.
        """
        self._preprocess(observation, lanes)
        size = BLOCK_ROWS if self._in_blocks else 1
        parts = [self._block([int(lane) for lane in lanes[top : top + size]]) for top in range(0, len(lanes), size)]
        return np.concatenate(parts) if parts else np.zeros((0, self.horizon, self._action_dim), np.float32)

    @property
    def _action_dim(self) -> int:
        return int(self._config.action_feature.shape[0])

    def _preprocess(self, observation: Observation, lanes: IntArray, **extra: Tensor) -> dict[str, Tensor]:
        """Preprocess the observation with `extra` inputs, keep it in the lanes' histories, and return it."""
        not_begun = [int(lane) for lane in lanes if int(lane) not in self._noise]
        if not_begun:
            raise PolicyProblem(
                f"lane {not_begun[0]} asks for an action before its episode began; call begin(lane, seed) first."
            )
        if len(observation.state) != len(lanes):
            raise PolicyProblem(
                f"The observation has {len(observation.state)} states for {len(lanes)} lanes; give one for each lane."
            )
        batch = self._parts.preprocessor(self._inputs(observation) | extra)
        for row, lane in enumerate(lanes):
            self._remember(
                int(lane), {key: value[row] for key, value in batch.items() if key.startswith("observation.")}
            )
        return batch

    def _inputs(self, observation: Observation) -> dict[str, Any]:
        """The preprocessor's inputs, one row for each lane."""
        rows: dict[str, Any] = {**state_inputs(self._parts.about, observation.state)}
        for key in image_inputs(self._config):
            camera = key.removeprefix(IMAGES)
            if camera not in observation.images:
                raise PolicyProblem(
                    f"this policy needs the camera {camera!r}, which the station does not have; use a station with it."
                )
            rows[key] = image_tensor(observation.images[camera])
        rows["task"] = [self._parts.about.task] * len(observation.state)
        return rows

    def _remember(self, lane: int, row: dict[str, Tensor]) -> None:
        history = self._history.setdefault(lane, deque(maxlen=self._steps))
        history.append(row)
        while len(history) < self._steps:
            history.append(row)

    def _batch(self, lanes: list[int]) -> dict[str, Tensor]:
        """What the policy gets for these lanes: their histories, one row for each."""
        stacked = {
            key: torch.stack([torch.stack([row[key] for row in self._history[lane]]) for lane in lanes])
            for key in self._history[lanes[0]][0]
        }
        return {key: self._with_steps(value) for key, value in stacked.items()}

    def _block(self, lanes: list[int], **guidance: Any) -> FloatArray:
        padded = lanes + [lanes[-1]] * ((BLOCK_ROWS if self._in_blocks else 1) - len(lanes))
        batch = self._batch(padded)
        with _RANDOM_LOCK, torch.random.fork_rng(devices=[]), torch.no_grad():
            self._parts.policy.reset()
            torch.manual_seed(int(self._noise[lanes[0]].integers(2**62)))
            chunk = self._chunk(batch, **guidance)
            actions = self._parts.postprocessor(chunk.reshape(-1, chunk.shape[-1]))
        found = actions.numpy().astype(np.float32)
        return found.reshape(len(padded), -1, self._action_dim)[: len(lanes)]

    def _chunk(self, batch: dict[str, Tensor], **guidance: Any) -> Tensor:
        """Normalised actions (B, horizon, action_dim)."""
        if self._config.type == "gaussian_actor":
            return self._parts.policy.select_action(batch)[:, None].repeat(1, self._parts.about.hold, 1)
        return self._parts.policy.predict_action_chunk(batch, **guidance)

    def _with_steps(self, value: Tensor) -> Tensor:
        """(B, steps, ...) for policies with an axis of observation steps, (B, ...) for the others."""
        return value if self._config.type == "diffusion" or self._steps > 1 else value[:, 0]

    def _chunk_length(self) -> int:
        wide = max(last for _, last in self._parts.about.inputs.values())
        images = {
            key.removeprefix(IMAGES): np.zeros((1, *feature.shape[1:], feature.shape[0]), np.uint8)
            for key, feature in image_inputs(self._config).items()
        }
        self.horizon = 0
        self.begin(-1, 0)
        batch = Observation(stamp_ns=0, state=np.zeros((1, wide), np.float32), images=images)
        chunk = self.act(batch, np.array([-1]))
        del self._noise[-1], self._history[-1]
        return int(chunk.shape[1])


class RealTimeChunkingPolicy(LerobotPolicy):
    """A LeRobot policy whose next chunk continues the chunk that is being executed.

    It uses LeRobot's real-time chunking (Black et al., arXiv 2506.07339) of its flow policies, such as SmolVLA, pi0 and
    pi0.5. `rtc_config` in the version's config.json sets it; without it LeRobot's defaults apply.
    """

    def __init__(self, parts: Parts) -> None:
        """Switch on the policy's guidance."""
        from lerobot.policies.rtc import RTCConfig

        policy: Any = parts.policy
        policy.config.rtc_config = policy.config.rtc_config or RTCConfig()
        policy.init_rtc_processor()
        # The guidance needs gradients of the actions, not of the weights.
        policy.requires_grad_(requires_grad=False)
        super().__init__(parts)

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) float32 that continue the present ones, units of the robot.

        `left` (len(lanes), any, action_dim) is the rest of the present chunks, nan after their ends. The first `delay`
        actions are guided towards it with full weight, later ones with a decreasing weight.
        """
        counts = np.isfinite(left).all(axis=2).sum(axis=1)
        if not counts.any():
            return self.act(observation, lanes)
        # Preprocessed like the actions of a training batch: converted to relative actions if the policy uses these.
        remaining = self._preprocess(observation, lanes, action=torch.from_numpy(np.nan_to_num(left)))["action"]
        parts = [
            self._block(
                [int(lane)],
                inference_delay=delay,
                prev_chunk_left_over=remaining[row : row + 1, :count] if count else None,
            )
            for row, (lane, count) in enumerate(zip(lanes, counts, strict=True))
        ]
        return np.concatenate(parts)


def load(folder: Path) -> LerobotPolicy:
    """Load a version's folder, with real-time chunking if LeRobot's policy supports it and its config allows it.

    If a network beside the policy picks its noise or refines its chunks, chunks are not continued. Raises as
    `load_parts`.
    """
    parts = load_parts(folder)
    if parts.about.steering is not None:
        from policies.lerobot_noise import steered

        return steered(parts, folder)
    if parts.about.refining is not None:
        from policies.refined_lerobot import refined

        return refined(parts, folder)
    policy: Any = parts.policy
    if policy.supports_rtc() and (policy.config.rtc_config is None or policy.config.rtc_config.enabled):
        return RealTimeChunkingPolicy(parts)
    return LerobotPolicy(parts)
