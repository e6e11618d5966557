"""Train and compare policies on this machine, without a fleet."""

from __future__ import annotations

from enpire.offline.attribute import Attribution, AttributionPlan, attribute, keep_attribution, kept_attribution
from enpire.offline.attribution_text import attribution_text
from enpire.offline.compare import Comparison, compare, find_version
from enpire.offline.train import learn, sample_episodes

__all__ = [
    "Attribution",
    "AttributionPlan",
    "Comparison",
    "attribute",
    "attribution_text",
    "compare",
    "find_version",
    "keep_attribution",
    "kept_attribution",
    "learn",
    "sample_episodes",
]
