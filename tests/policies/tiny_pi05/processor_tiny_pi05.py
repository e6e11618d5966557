"""The processors: pi0.5's own, under the name that LeRobot looks for."""

from lerobot.policies.pi05.processor_pi05 import make_pi05_pre_post_processors as make_tiny_pi05_pre_post_processors

__all__ = ["make_tiny_pi05_pre_post_processors"]
