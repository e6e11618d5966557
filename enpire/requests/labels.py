"""What a person says about an episode of a campaign that is not running: the ledger is free, so it is written at once.

While the campaign runs, its loop alone writes the ledger, and carries the same out as a command
(steps/handle_commands.py).
"""

from __future__ import annotations

from enpire.campaign.state import JUDGED
from enpire.errors import UsageError
from enpire.home import Home
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.records import PERSON_JUDGED


def write_label(home: Home, order_id: str, outcome: str, by: str) -> None:
    """Write down what a person saw; the verifier's verdict stays, and no decision changes.

    Raises:
        UsageError: the home has no such episode, or it ended without a verdict.
        LedgerProblem: a campaign runs in this home.
    """
    ledger = SqliteLedger(home.ledger)
    try:
        row = Reading(ledger.database).order(order_id)
        if row is None or row.episode is None or row.episode.outcome not in JUDGED:
            raise UsageError(f"{order_id!r} is no episode of this home that ended with a verdict.")
        said = {"campaign_id": row.order.campaign_id, "order_id": order_id, "outcome": outcome, "by": by}
        ledger.append([(PERSON_JUDGED, said)])
    finally:
        ledger.close()
