"""A new small LeRobot policy for a task that is observed through its state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from policies.lerobot_files import LerobotManifest, Parts, missing_extra
from policies.normalise import Scale

STATE, ENVIRONMENT, ACTION = "observation.state", "observation.environment_state", "action"


@dataclass(frozen=True, slots=True, kw_only=True)
class LerobotShape:
    """Sizes of a new policy."""

    family: str
    """act, diffusion, or a type that an installed package lerobot_policy_* registers."""
    width: int
    """Of the transformer, or of the first level of the U-net; other types have their own default size."""
    horizon: int
    """Actions in a chunk."""
    execute: int
    """Actions sent before the next decision."""


def new_parts(shape: LerobotShape, state: Scale, action: Scale) -> Parts:
    """A policy with random weights from torch's global generator, and processors with the scales.

    ACT and Diffusion need an image or an environment state, so the state is given as both kinds of state. MissingExtra
    if a package that the policy needs is not installed.
    """
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    wide, out = len(state.mean), len(action.mean)
    features = {
        "input_features": {
            STATE: PolicyFeature(type=FeatureType.STATE, shape=(wide,)),
            ENVIRONMENT: PolicyFeature(type=FeatureType.ENV, shape=(wide,)),
        },
        "output_features": {ACTION: PolicyFeature(type=FeatureType.ACTION, shape=(out,))},
    }
    config = _config(shape, features)
    try:
        policy = get_policy_class(shape.family)(config)
    except ImportError as missing:
        raise missing_extra(missing) from missing
    stats = {STATE: _stats(state), ENVIRONMENT: _stats(state), ACTION: _stats(action)}
    preprocessor, postprocessor = make_pre_post_processors(config, dataset_stats=stats)
    about = LerobotManifest(inputs={STATE: (0, wide), ENVIRONMENT: (0, wide)}, execute=shape.execute)
    return Parts(about=about, policy=policy, preprocessor=preprocessor, postprocessor=postprocessor)


def shape_of(parts: Parts) -> dict[str, object]:
    """The fields of `LerobotShape` of an existing policy; without `width` for families other than these two."""
    config: Any = parts.policy.config
    found = {"family": config.type, "horizon": len(config.action_delta_indices), "execute": parts.about.execute}
    match config.type:
        case "act":
            return {**found, "width": config.dim_model}
        case "diffusion":
            return {**found, "width": config.down_dims[0]}
        case _:
            return found


def _config(shape: LerobotShape, features: dict[str, Any]) -> Any:
    from lerobot.configs.types import NormalizationMode
    from lerobot.policies.factory import make_policy_config

    # LeRobot 0.6.1 does not normalise the environment state by default; here it is normalised like the state.
    scaled = dict.fromkeys(("STATE", "ENV", "ACTION", "VISUAL"), NormalizationMode.MEAN_STD)
    shared = {**features, "normalization_mapping": scaled, "device": "cpu", "push_to_hub": False}
    if shape.family == "act":
        return make_policy_config(
            "act", **shared, chunk_size=shape.horizon, n_action_steps=shape.horizon, dim_model=shape.width,
            n_heads=4, dim_feedforward=4 * shape.width, n_encoder_layers=2, n_vae_encoder_layers=2, latent_dim=8,
            pretrained_backbone_weights=None,
        )  # fmt: skip
    if shape.family != "diffusion":
        return _plugin_config(shape, shared)
    return make_policy_config(
        "diffusion", **shared, n_obs_steps=1, horizon=shape.horizon, n_action_steps=shape.horizon,
        down_dims=(shape.width, 2 * shape.width), diffusion_step_embed_dim=32, noise_scheduler_type="DDIM",
        num_train_timesteps=50, num_inference_steps=10, clip_sample=False, do_mask_loss_for_padding=True,
    )  # fmt: skip


def _plugin_config(shape: LerobotShape, shared: dict[str, Any]) -> Any:
    """The configuration of a plug-in's policy, with the sizes that it has under LeRobot's usual names."""
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import make_policy_config

    sizes = {**dict.fromkeys(("chunk_size", "horizon", "n_action_steps"), shape.horizon), "n_obs_steps": 1}
    known = {item.name for item in fields(PreTrainedConfig.get_choice_class(shape.family))}
    return make_policy_config(
        shape.family, **{key: value for key, value in {**shared, **sizes}.items() if key in known}
    )


def _stats(scale: Scale) -> dict[str, Any]:
    return {"mean": scale.mean, "std": scale.spread}
