"""LeRobot's ACT that looks through one camera, as small as it gets, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_act(folder: Path, camera: str, size: tuple[int, int], state_dim: int, spread: float) -> Path:
    """A version that sees pictures of `size` (height, width) and commands two numbers within some `spread` of zero."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

    from policies import lerobot_files

    image = f"observation.images.{camera}"
    config: Any = make_policy_config(
        "act", device="cpu", push_to_hub=False, chunk_size=4, n_action_steps=4, dim_model=16, n_heads=2,
        dim_feedforward=16, n_encoder_layers=1, n_vae_encoder_layers=1, latent_dim=4, pretrained_backbone_weights=None,
        input_features={
            "observation.state": PolicyFeature(type=FeatureType.STATE, shape=(state_dim,)),
            image: PolicyFeature(type=FeatureType.VISUAL, shape=(3, *size)),
        },
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(2,))},
    )  # fmt: skip
    torch.manual_seed(0)
    policy = get_policy_class("act")(config)
    statistics: Any = {
        "observation.state": {"mean": torch.zeros(state_dim), "std": torch.ones(state_dim)},
        "action": {"mean": torch.zeros(2), "std": torch.full((2,), spread)},
        image: {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.2)},
    }
    preprocessor, postprocessor = make_pre_post_processors(config, dataset_stats=statistics)
    about = lerobot_files.LerobotManifest(inputs={"observation.state": (0, state_dim)}, execute=4)
    folder.mkdir()
    lerobot_files.save(
        lerobot_files.Parts(about=about, policy=policy, preprocessor=preprocessor, postprocessor=postprocessor), folder
    )
    return folder
