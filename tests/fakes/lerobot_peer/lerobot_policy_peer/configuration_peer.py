from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import NormalizationMode
from lerobot.optim.optimizers import AdamWConfig


@PreTrainedConfig.register_subclass("peer")
@dataclass
class PeerConfig(PreTrainedConfig):
    chunk_size: int = 8
    n_action_steps: int = 8
    hidden: int = 32
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {"STATE": NormalizationMode.MEAN_STD, "ACTION": NormalizationMode.MEAN_STD}
    )

    @property
    def observation_delta_indices(self) -> None:
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        return None

    def get_optimizer_preset(self) -> AdamWConfig:
        return AdamWConfig()

    def get_scheduler_preset(self) -> None:
        return None

    def validate_features(self) -> None:
        assert self.robot_state_feature is not None
