"""Per-sample losses of LeRobot policies, for weighted behaviour cloning.

ACT and Diffusion of LeRobot 0.6.1 return only a mean over the batch. These functions compute the same loss row by row,
and a test holds their mean equal to LeRobot's. Policies with `reduction="none"`, such as SmolVLA, compute it
themselves; pi0.5 would include padded actions, so its error is masked here. For any other policy the weights act on the
sampling of windows, which has the same expectation.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def has_row_losses(policy: Any) -> bool:
    """Whether `row_losses` supports this policy; otherwise the weights must act on the sampling."""
    return policy.config.type in {"act", "diffusion"} or "reduction" in inspect.signature(policy.forward).parameters


def row_losses(policy: Any, batch: dict[str, Tensor]) -> Tensor:
    """Loss of each sample (B,) float32; without padded actions their mean is the policy's own loss."""
    if policy.config.type == "act":
        return _act(policy, batch)
    if policy.config.type == "diffusion":
        return _diffusion(policy, batch)
    if any(kind.__name__ == "PI05Policy" for kind in type(policy).__mro__):
        return _pi05(policy, batch)
    return policy.forward(batch, reduction="none")[0]


def mean_loss(policy: Any, batch: dict[str, Tensor]) -> Tensor:
    """The policy's own loss, a scalar."""
    return policy.forward(batch)[0]


def _masked(error: Tensor, batch: dict[str, Tensor]) -> Tensor:
    valid = (~batch["action_is_pad"]).unsqueeze(-1)
    return (error * valid).sum(dim=(1, 2)) / (valid.sum(dim=(1, 2)) * error.shape[-1]).clamp(min=1)


def _act(policy: Any, batch: dict[str, Tensor]) -> Tensor:
    pictures = [batch[key] for key in policy.config.image_features]
    guess, (mean, log_variance) = policy.model({**batch, "observation.images": pictures} if pictures else batch)
    losses = _masked(functional.l1_loss(batch["action"], guess, reduction="none"), batch)
    if policy.config.use_vae and log_variance is not None:
        apart = -0.5 * (1 + log_variance - mean.square() - log_variance.exp())
        losses = losses + policy.config.kl_weight * apart.sum(dim=-1)
    return losses


def _diffusion(policy: Any, batch: dict[str, Tensor]) -> Tensor:
    model, action = policy.diffusion, batch["action"]
    pictures = [batch[key] for key in policy.config.image_features]
    stacked = {"observation.images": torch.stack(pictures, dim=-4)} if pictures else {}
    seen = model._prepare_global_conditioning({**batch, **stacked})
    # LeRobot draws the noise first, then the times.
    noise = torch.randn(action.shape, device=action.device)
    last = model.noise_scheduler.config.num_train_timesteps
    time = torch.randint(0, last, (len(action),), device=action.device).long()
    guess = model.unet(model.noise_scheduler.add_noise(action, noise, time), time, global_cond=seen)
    aim = noise if policy.config.prediction_type == "epsilon" else action
    return _masked(functional.mse_loss(guess, aim, reduction="none"), batch)


def _pi05(policy: Any, batch: dict[str, Tensor]) -> Tensor:
    model, action = policy.model, policy.prepare_action(batch)
    # LeRobot draws the noise first, then the times.
    noise = model.sample_noise(action.shape, action.device)
    time = model.sample_time(len(action), action.device)
    words = batch["observation.language.tokens"], batch["observation.language.attention_mask"]
    error = model.forward(*policy._preprocess_images(batch), *words, action, noise, time)
    return _masked(error[:, :, : batch["action"].shape[-1]], batch)
