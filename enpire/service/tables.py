"""The tables of a database beside the ledger, such as the accounts of the page."""

from __future__ import annotations

from enpire.store.table_tools import database

__all__ = ["database"]
