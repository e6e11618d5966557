"""Any LeRobot policy (0.6.1) as a Policy: several lanes, seeded noise, the robot's units (`lerobot_files` loads it)."""

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
from policies.lerobot_files import About, Parts, open_parts
from policies.lerobot_files import save as save

BLOCK_ROWS = 8
"""ACT decides for blocks of exactly this many lanes, so that a lane's chunk is the same in any company."""
IMAGES = "observation.images."
_DRAWS = threading.Lock()
"""Whoever holds it draws from torch's global generator: versions that think in other threads share that."""


def batch_of(about: About, state: FloatArray) -> dict[str, Tensor]:
    """LeRobot's observation keys for our states (B, state_dim)."""
    found: dict[str, Tensor] = {}
    for key, (first, last) in about.inputs.items():
        if not 0 <= first < last <= state.shape[1]:
            raise PolicyProblem(f"{key} asks for the state's columns {first} to {last}; there are {state.shape[1]}.")
        found[key] = torch.from_numpy(np.ascontiguousarray(state[:, first:last], np.float32))
    return found


def picture_inputs(config: Any) -> Mapping[str, Any]:
    """LeRobot's key -> feature, for the inputs that are pictures of a camera; empty ones the policy fills in itself."""
    return {
        key: feature
        for key, feature in config.input_features.items()
        if feature.type.name == "VISUAL" and not key.startswith(f"{IMAGES}empty_camera_")
    }


def cameras_of(config: Any) -> tuple[str, ...]:
    """The cameras that a policy looks through."""
    return tuple(key.removeprefix(IMAGES) for key in picture_inputs(config))


def picture_rows(images: ImageArray) -> Tensor:
    """Pictures (B, height, width, 3) as LeRobot wants them: (B, 3, height, width), in [0, 1]."""
    rows = np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32)
    return torch.from_numpy(rows / np.float32(255))


class LerobotPolicy:
    """A LeRobot policy that decides for several lanes.

    A policy with several observation steps sees the lane's last decisions, so `execute` 1 gives it LeRobot's own
    spacing. ACT has no noise and decides in blocks; others decide lane by lane with a seed each (the convolutions of
    diffusion give a row other last bits at another place in its block).
    """

    def __init__(self, parts: Parts) -> None:
        """Ask the policy once how long its chunks are."""
        self._parts = parts
        self._config: Any = parts.policy.config
        self._steps = int(getattr(self._config, "n_obs_steps", 1))
        self._noise: dict[int, np.random.Generator] = {}
        self._past: dict[int, deque[dict[str, Tensor]]] = {}
        self._blocks = self._config.type == "act"
        self.needs_images = bool(picture_inputs(self._config))
        self.horizon = self._probe()
        self.execute = parts.about.execute
        if not 1 <= self.execute <= self.horizon:
            raise PolicyProblem(
                f"execute is {self.execute}; this {self._config.type} policy allows 1 to {self.horizon}."
            )

    def begin(self, lane: int, seed: int) -> None:
        """A new episode begins in this lane."""
        self._noise[lane] = np.random.default_rng(seed)
        self._past.pop(lane, None)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks for the lanes named, (len(lanes), horizon, action_dim), in the robot's units."""
        self._see(observation, lanes)
        size = BLOCK_ROWS if self._blocks else 1
        parts = [self._block([int(lane) for lane in lanes[top : top + size]]) for top in range(0, len(lanes), size)]
        return np.concatenate(parts) if parts else np.zeros((0, self.horizon, self._action_dim), np.float32)

    @property
    def _action_dim(self) -> int:
        return int(self._config.action_feature.shape[0])

    def _see(self, observation: Observation, lanes: IntArray, **beside: Tensor) -> dict[str, Tensor]:
        """Remember what the lanes named sense now; all of it, and `beside`, as LeRobot's pipeline hands it over."""
        unknown = [int(lane) for lane in lanes if int(lane) not in self._noise]
        if unknown:
            raise PolicyProblem(f"lane {unknown[0]} decides before its episode began; call begin(lane, seed) first.")
        if len(observation.state) != len(lanes):
            raise PolicyProblem(f"{len(observation.state)} states came for {len(lanes)} lanes; give one for each.")
        seen = self._parts.before(self._inputs(observation) | beside)
        for row, lane in enumerate(lanes):
            self._remember(
                int(lane), {key: value[row] for key, value in seen.items() if key.startswith("observation.")}
            )
        return seen

    def _inputs(self, observation: Observation) -> dict[str, Any]:
        """What the pipeline is given, one row for each lane."""
        rows: dict[str, Any] = {**batch_of(self._parts.about, observation.state)}
        for key in picture_inputs(self._config):
            camera = key.removeprefix(IMAGES)
            if camera not in observation.images:
                raise PolicyProblem(
                    f"this policy looks through the camera {camera!r}, which the station does not have."
                )
            rows[key] = picture_rows(observation.images[camera])
        rows["task"] = [self._parts.about.task] * len(observation.state)
        return rows

    def _remember(self, lane: int, row: dict[str, Tensor]) -> None:
        past = self._past.setdefault(lane, deque(maxlen=self._steps))
        past.append(row)
        while len(past) < self._steps:
            past.append(row)

    def _block(self, lanes: list[int], **along: Any) -> FloatArray:
        padded = lanes + [lanes[-1]] * ((BLOCK_ROWS if self._blocks else 1) - len(lanes))
        keys = self._past[lanes[0]][0]
        stacked = {
            key: torch.stack([torch.stack([row[key] for row in self._past[lane]]) for lane in padded]) for key in keys
        }
        batch = {key: self._shaped(value) for key, value in stacked.items()}
        with _DRAWS, torch.random.fork_rng(devices=[]), torch.no_grad():
            self._parts.policy.reset()
            torch.manual_seed(int(self._noise[lanes[0]].integers(2**62)))
            chunk = self._chunk(batch, **along)
            actions = self._parts.after(chunk.reshape(-1, chunk.shape[-1]))
        found = actions.numpy().astype(np.float32)
        return found.reshape(len(padded), -1, self._action_dim)[: len(lanes)]

    def _chunk(self, batch: dict[str, Tensor], **along: Any) -> Tensor:
        """(B, steps, action width), normalised."""
        if self._config.type == "gaussian_actor":
            return self._parts.policy.select_action(batch)[:, None].repeat(1, self._parts.about.hold, 1)
        return self._parts.policy.predict_action_chunk(batch, **along)

    def _shaped(self, value: Tensor) -> Tensor:
        """(B, steps, ...) for policies with a history axis, (B, ...) for those without."""
        return value if self._config.type == "diffusion" or self._steps > 1 else value[:, 0]

    def _probe(self) -> int:
        wide = max(last for _, last in self._parts.about.inputs.values())
        images = {
            key.removeprefix(IMAGES): np.zeros((1, *feature.shape[1:], feature.shape[0]), np.uint8)
            for key, feature in picture_inputs(self._config).items()
        }
        self.horizon = 0
        self.begin(-1, 0)
        seen = Observation(stamp_ns=0, state=np.zeros((1, wide), np.float32), images=images)
        chunk = self.act(seen, np.array([-1]))
        del self._noise[-1], self._past[-1]
        return int(chunk.shape[1])


class ContinuingPolicy(LerobotPolicy):
    """A LeRobot policy that begins a chunk along what is still being carried out of the last one.

    LeRobot's own real-time chunking (Black et al., arXiv 2506.07339) of its flow policies: SmolVLA, pi0, pi0.5 and
    more. `rtc_config` in the version's config.json says how; where it is left out, LeRobot's defaults hold.
    """

    def __init__(self, parts: Parts) -> None:
        """Give the policy its guidance."""
        from lerobot.policies.rtc import RTCConfig

        policy: Any = parts.policy
        policy.config.rtc_config = policy.config.rtc_config or RTCConfig()
        policy.init_rtc_processor()
        # The guidance asks for gradients of the actions; none of the weights' are wanted.
        policy.requires_grad_(requires_grad=False)
        super().__init__(parts)

    def act_along(self, observation: Observation, lanes: IntArray, left: FloatArray, delay: int) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) that go on from what is `left` (len(lanes), any, action_dim).

        The first `delay` actions are drawn towards it with full weight, those after them with less and less.
        """
        counts = np.isfinite(left).all(axis=2).sum(axis=1)
        if not counts.any():
            return self.act(observation, lanes)
        # LeRobot's pipeline treats them as it treats the actions of a training batch: relative where the policy wants.
        rest = self._see(observation, lanes, action=torch.from_numpy(np.nan_to_num(left)))["action"]
        parts = [
            self._block(
                [int(lane)],
                inference_delay=delay,
                prev_chunk_left_over=rest[row : row + 1, :count] if count else None,
            )
            for row, (lane, count) in enumerate(zip(lanes, counts, strict=True))
        ]
        return np.concatenate(parts)


def load(folder: Path) -> LerobotPolicy:
    """Load a version's folder; it knows real-time chunking where LeRobot's policy does and its config allows it."""
    parts = open_parts(folder)
    policy: Any = parts.policy
    if policy.supports_rtc() and (policy.config.rtc_config is None or policy.config.rtc_config.enabled):
        return ContinuingPolicy(parts)
    return LerobotPolicy(parts)
