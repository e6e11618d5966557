# pyright: reportAssignmentType=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
from __future__ import annotations

import torch
from lerobot.rewards.pretrained import PreTrainedRewardModel
from torch import Tensor

from tests.fakes.reward_peer.configuration_glow import GlowConfig


class GlowRewardModel(PreTrainedRewardModel):
    config_class = GlowConfig
    name = "glow"

    def __init__(self, config: GlowConfig) -> None:
        super().__init__(config)
        self.scale = torch.nn.Parameter(torch.ones(1))

    def compute_reward(self, batch: dict[str, Tensor]) -> Tensor:
        video = batch[self.config.image_key]
        assert video.ndim == 5, "(B, T, C, H, W)"
        return self.config.gain * self.scale * video[:, -1].mean(dim=(1, 2, 3))
