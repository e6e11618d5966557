"""Whether recorded decisions hold: computed again from the ledger, and with another verdict for one episode."""

from __future__ import annotations

from enpire.queries.decision_audit import recompute
from enpire.queries.label_impact import Stake, stake

__all__ = ["Stake", "recompute", "stake"]
