"""Where a policy fails: success over the start space, by station and by version, and clusters of failures."""

from __future__ import annotations

from enpire.queries.failure_models import WhereItFails
from enpire.queries.where_it_fails import where_it_fails
from enpire.store.start_rows import Selection

__all__ = ["Selection", "WhereItFails", "where_it_fails"]
