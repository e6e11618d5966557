"""Whether the records hold: the ledger, its files and its copies. service/decisions.py computes decisions again."""

from __future__ import annotations

from enpire.queries.records_audit import RecordsAudit, audit_records
from enpire.store.copies import verify_copy
from enpire.store.copy_names import copies
from enpire.store.evidence_file import opened_evidence, write_evidence
from enpire.store.head import write_head

__all__ = [
    "RecordsAudit", "audit_records", "copies", "opened_evidence", "verify_copy", "write_evidence", "write_head",
]  # fmt: skip
