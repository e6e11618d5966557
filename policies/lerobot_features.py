"""What a frozen LeRobot policy exposes to a small network beside it: features of an observation, and its own chunks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import Tensor

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, Observation
from policies.lerobot_files import Parts
from policies.lerobot_policy import LerobotPolicy, image_inputs


class LerobotFeatures(LerobotPolicy):
    """A LeRobot policy that exposes its features: the state, and for each image what its own encoder makes of it."""

    def __init__(self, parts: Parts) -> None:
        """PolicyProblem if the policy has images and its encoder is not known, or if it needs earlier observations."""
        config: Any = parts.policy.config
        if int(getattr(config, "n_obs_steps", 1)) > 1:
            raise PolicyProblem(
                f"LeRobot's {config.type} policy sees its last {config.n_obs_steps} observations; a network beside it "
                "sees one. Improve it with the learner lerobot."
            )
        if image_inputs(config) and not (_language_model(parts.policy) or _convolutions(parts.policy)):
            raise PolicyProblem(
                f"LeRobot's {config.type} policy does not expose features of its images; smolvla, pi0, pi05 and act "
                "do. Improve it with the learner lerobot."
            )
        super().__init__(parts)

    def features(self, observation: Observation) -> FloatArray:
        """State and mean embeddings of the images of one observation: (width,) float32."""
        return self._features(self._alone(observation))[0]

    def chunks(self, observation: Observation, seeds: Sequence[int]) -> FloatArray:
        """Chunks (seeds, horizon, action_dim) for one observation, as lanes that begin with these seeds send them."""
        found: list[FloatArray] = []
        for seed in seeds:
            self._alone(observation, seed)
            found.append(self._block([-1]))
        return np.concatenate(found)

    def _alone(self, observation: Observation, seed: int = 0) -> dict[str, Tensor]:
        self.begin(-1, seed)
        self._preprocess(observation, np.array([-1]))
        return self._batch([-1])

    def _features(self, batch: dict[str, Tensor]) -> FloatArray:
        """(n, width) float32."""
        policy: Any = self._parts.policy
        rows = [batch[key].reshape(len(batch[key]), -1).float() for key in self._parts.about.inputs]
        with torch.no_grad():
            if image_inputs(self._config):
                rows += _of_images(policy, batch, list(image_inputs(self._config)))
        return torch.cat(rows, dim=1).numpy()


def _language_model(policy: Any) -> Any:
    model = getattr(policy, "model", None)
    return getattr(model, "vlm_with_expert", None) or getattr(model, "paligemma_with_expert", None)


def _convolutions(policy: Any) -> Any:
    return getattr(policy.model, "backbone", None) if policy.config.type == "act" else None


def _of_images(policy: Any, batch: dict[str, Tensor], keys: list[str]) -> list[Tensor]:
    """What the policy's own encoder makes of each image, (n, width) each: the mean over the image."""
    language_model = _language_model(policy)
    if language_model is None:
        backbone = _convolutions(policy)
        return [backbone(batch[key])["feature_map"].float().mean(dim=(2, 3)) for key in keys]
    prepare = getattr(policy, "prepare_images", None) or policy._preprocess_images
    images, _ = prepare(dict(batch))
    return [language_model.embed_image(image).float().mean(dim=1) for image in images]


def read_beside(path: Path) -> dict[str, FloatArray]:
    """Weights (out, in) and vectors (n,) of a network beside a policy; PolicyProblem if the file cannot be read."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as problem:
        raise PolicyProblem(f"{path} cannot be read ({problem}); fetch the version again.") from problem
