# pyright: reportAssignmentType=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lerobot.policies.act.processor_act import make_act_pre_post_processors
from lerobot.processor import ObservationProcessorStep, ProcessorStepRegistry

from lerobot_policy_peer.configuration_peer import PeerConfig


@ProcessorStepRegistry.register(name="peer_passes_on")
@dataclass
class PeerPassesOn(ObservationProcessorStep):
    """A step of its own that changes nothing."""

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        return observation

    def transform_features(self, features: Any) -> Any:
        return features


def make_peer_pre_post_processors(config: PeerConfig, dataset_stats: Any = None) -> tuple[Any, Any]:
    before, after = make_act_pre_post_processors(config, dataset_stats)
    before.steps = [*before.steps, PeerPassesOn()]
    return before, after
