# pyright: reportAssignmentType=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
from __future__ import annotations

from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn
from torch.nn import functional

from lerobot_policy_peer.configuration_peer import PeerConfig


class PeerPolicy(PreTrainedPolicy):
    config_class = PeerConfig
    name = "peer"

    def __init__(self, config: PeerConfig, **unused: Any) -> None:
        super().__init__(config)
        self.wide = config.action_feature.shape[0]
        self.net = nn.Sequential(
            nn.Linear(config.robot_state_feature.shape[0], config.hidden), nn.SiLU(),
            nn.Linear(config.hidden, config.chunk_size * self.wide),
        )  # fmt: skip

    def get_optim_params(self) -> Any:
        return self.parameters()

    def reset(self) -> None:
        pass

    def predict_action_chunk(self, batch: dict[str, Tensor], **unused: Any) -> Tensor:
        return self.net(batch["observation.state"]).unflatten(-1, (self.config.chunk_size, self.wide))

    def select_action(self, batch: dict[str, Tensor], **unused: Any) -> Tensor:
        return self.predict_action_chunk(batch)[:, 0]

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
        error = functional.mse_loss(self.predict_action_chunk(batch), batch["action"], reduction="none").mean(-1)
        valid = ~batch.get("action_is_pad", torch.zeros_like(error, dtype=torch.bool))
        loss = (error * valid).sum() / valid.sum().clamp(min=1)
        return loss, {"loss": loss.item()}
