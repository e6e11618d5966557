from __future__ import annotations

from dataclasses import dataclass

from lerobot.configs.rewards import RewardModelConfig


@RewardModelConfig.register_subclass("glow")
@dataclass
class GlowConfig(RewardModelConfig):
    image_key: str = "observation.images.top"
    gain: float = 1.0
