"""The noise of a frozen LeRobot flow policy (SmolVLA, pi0, pi0.5), chosen from outside or by a network beside it.

The noise of one action is repeated over the chunk, as Wagenmaker et al. (arXiv 2506.15799) do for pi0. A network sees
the normalised state and the mean embedding of each image, which the frozen policy computes anyway.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from policies.lerobot_features import LerobotFeatures, read_beside
from policies.lerobot_files import STEERING_FILE, LerobotSteering, Parts
from policies.normalise import Scale
from policies.perceptron import Perceptron


class LerobotNoise(LerobotFeatures):
    """A LeRobot flow policy that exposes its noise."""

    def __init__(self, parts: Parts) -> None:
        """PolicyProblem if LeRobot's policy takes no noise."""
        config: Any = parts.policy.config
        if not hasattr(getattr(parts.policy, "model", None), "sample_noise") or not hasattr(config, "max_action_dim"):
            raise PolicyProblem(
                f"LeRobot's {config.type} policy takes no noise from outside; smolvla, pi0 and pi05 do. Improve it "
                "with the learner lerobot."
            )
        self.noise_dim = int(config.max_action_dim)
        super().__init__(parts)

    def chunks_from(self, observation: Observation, noise: FloatArray) -> FloatArray:
        """Chunks (n, horizon, action_dim) for one observation and noises (n, noise_dim), units of the robot."""
        alone = self._alone(observation)
        batch = {key: value.repeat(len(noise), *[1] * (value.ndim - 1)) for key, value in alone.items()}
        with torch.no_grad():
            self._parts.policy.reset()
            chunk = self._chunk(batch, noise=self._whole(noise))
            actions = self._parts.postprocessor(chunk.reshape(-1, chunk.shape[-1]))
        return actions.numpy().astype(np.float32).reshape(len(noise), -1, self._action_dim)

    def _whole(self, noise: FloatArray) -> Tensor:
        """Noises (n, noise_dim) of one action as the policy takes them: (n, chunk, noise_dim)."""
        return torch.from_numpy(np.ascontiguousarray(noise, np.float32))[:, None].repeat(1, self._config.chunk_size, 1)


class SteeredLerobot(LerobotNoise):
    """A frozen LeRobot policy whose noise a network picks."""

    def __init__(self, parts: Parts, about: LerobotSteering, scale: Scale, network: Perceptron) -> None:
        """`network`: from features, normalised by `scale`, to the mean of the noise before tanh, (noise_dim,)."""
        self._about, self._scale, self._network = about, scale, network
        super().__init__(parts)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Chunks (len(lanes), horizon, action_dim) float32 from the chosen noise; as `LerobotPolicy.act`."""
        self._preprocess(observation, lanes)
        chunks = [self._steer(int(lane)) for lane in lanes]
        return np.concatenate(chunks) if chunks else np.zeros((0, self.horizon, self._action_dim), np.float32)

    def _steer(self, lane: int) -> FloatArray:
        """(1, horizon, action_dim)."""
        seen = self._scale.forward(self._features(self._batch([lane])))
        mean = np.float32(self._about.reach) * np.tanh(self._network(seen))
        drawn = self._noise[lane].standard_normal(mean.shape, np.float32)
        noise = (mean + np.float32(self._about.spread) * drawn).astype(np.float32)
        return self._block([lane], noise=self._whole(noise))


def steered(parts: Parts, folder: Path) -> SteeredLerobot:
    """The policy of a version with steering; PolicyProblem if its network does not fit."""
    path = folder / STEERING_FILE
    weights = read_beside(path)
    scale = Scale.pop("scale", weights, str(path))
    about = parts.about.steering
    if about is None:
        raise PolicyProblem(f"{folder} has no `steering` in policy.json; train the version again.")
    noise_dim = int(getattr(parts.policy.config, "max_action_dim", 0))
    return SteeredLerobot(parts, about, scale, Perceptron(weights, len(scale.mean), noise_dim))
