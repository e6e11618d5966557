"""Every decision computed again from the records, and the impact that another verdict would have."""

from __future__ import annotations

from enpire.queries.decision_audit import recompute
from enpire.queries.label_impact import Stake, stake

__all__ = ["Stake", "recompute", "stake"]
