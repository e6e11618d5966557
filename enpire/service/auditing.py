"""Whether the records hold: the ledger and its files, every decision computed again, and another verdict's impact."""

from __future__ import annotations

from enpire.queries.decision_audit import recompute
from enpire.queries.label_impact import Stake, stake
from enpire.queries.records_audit import RecordsAudit, audit_records
from enpire.store.copies import verify_copy
from enpire.store.copy_names import copies
from enpire.store.head import write_head

__all__ = [
    "RecordsAudit", "Stake", "audit_records", "copies", "recompute", "stake", "verify_copy", "write_head",
]  # fmt: skip
