"""Train and compare policies on this machine, without a fleet."""

from __future__ import annotations

from enpire.offline.compare import Comparison, compare
from enpire.offline.train import learn

__all__ = ["Comparison", "compare", "learn"]
