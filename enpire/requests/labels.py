"""Labels of episodes in a home where no campaign runs: the ledger is free, so a label is written at once.

While a campaign runs, its loop alone writes the ledger, and a label is an operator's command.
"""

from __future__ import annotations

from enpire.campaign.order_events import EpisodeLabelled
from enpire.errors import UsageError
from enpire.home import Home
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.types import OutcomeKind

LABELS: tuple[OutcomeKind, ...] = ("success", "failure", "unsafe")
"""What an operator may say of an episode."""


def write_label(home: Home, order_id: str, outcome: str, operator: str) -> None:
    """Write what an operator saw in an episode. The verdict stays as it is, and no decision changes.

    Raises:
        UsageError: the home has no such episode, or it ended without a verdict, or `outcome` is no verdict.
        LedgerProblem: a campaign runs in this home.
    """
    from enpire.campaign.state import JUDGED  # loads numpy, which a command of an operator does not need

    if outcome not in LABELS:
        raise UsageError(f"An episode cannot be labelled {outcome!r}; allowed are: {', '.join(LABELS)}.")
    ledger = SqliteLedger(home.ledger)
    try:
        row = Reading.of(ledger).order(order_id)
        if row is None or row.episode is None or row.episode.outcome not in JUDGED:
            raise UsageError(f"{order_id!r} is no episode of this home that ended with a verdict.")
        ledger.append([EpisodeLabelled(order_id=order_id, outcome=outcome, by=operator)], row.order.campaign_id)
    finally:
        ledger.close()
