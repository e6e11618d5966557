"""Labels of episodes in a home where no campaign runs: the ledger is free, so a label is written at once.

While a campaign runs, its loop alone writes the ledger, and a label is an operator's command.
"""

from __future__ import annotations

from enpire.errors import UsageError
from enpire.home import Home
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.records import PERSON_JUDGED


def write_label(home: Home, order_id: str, outcome: str, operator: str) -> None:
    """Write what an operator saw in an episode. The verdict stays as it is, and no decision changes.

    Raises:
        UsageError: the home has no such episode, or it ended without a verdict.
        LedgerProblem: a campaign runs in this home.
    """
    from enpire.campaign.state import JUDGED  # loads numpy, which a command of an operator does not need

    ledger = SqliteLedger(home.ledger)
    try:
        row = Reading.of(ledger).order(order_id)
        if row is None or row.episode is None or row.episode.outcome not in JUDGED:
            raise UsageError(f"{order_id!r} is no episode of this home that ended with a verdict.")
        said = {"campaign_id": row.order.campaign_id, "order_id": order_id, "outcome": outcome, "by": operator}
        ledger.append([(PERSON_JUDGED, said)])
    finally:
        ledger.close()
