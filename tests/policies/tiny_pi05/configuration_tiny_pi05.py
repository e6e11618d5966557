"""The configuration, registered with LeRobot as any policy of a third party is."""

from dataclasses import dataclass

from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pi05.configuration_pi05 import PI05Config


@PreTrainedConfig.register_subclass("tiny_pi05")
@dataclass
class TinyPI05Config(PI05Config):
    """pi0.5's, field by field."""
