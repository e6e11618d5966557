from __future__ import annotations

from typing import Any

from lerobot.processor import PolicyProcessorPipeline

from tests.fakes.reward_peer.configuration_glow import GlowConfig


def make_glow_pre_post_processors(config: GlowConfig, dataset_stats: Any = None) -> tuple[Any, Any]:
    return PolicyProcessorPipeline(steps=[]), PolicyProcessorPipeline(steps=[])
