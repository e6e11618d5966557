"""Labels of episodes in a home where no campaign runs: the ledger is free, so a label is written at once.

While a campaign runs, its loop alone writes the ledger, and a label is an operator's command.
"""

from __future__ import annotations

from typing import Literal

from enpire.campaign.events import kinds_of
from enpire.campaign.ledger import Ledger
from enpire.campaign.order_events import EpisodeLabelled
from enpire.errors import UsageError
from enpire.home import Home
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.types import JUDGED, OutcomeKind

UNDO = "undo"
"""In place of a label: the newest label is withdrawn, and the one before it counts again."""

LABELS: tuple[OutcomeKind, ...] = ("success", "failure", "unsafe")
"""What an operator may say of an episode."""


def write_label(home: Home, order_id: str, outcome: str, operator: str) -> None:
    """Write what an operator saw in an episode. The verdict stays as it is, and no decision changes.

    Raises:
        UsageError: the home has no such episode, or it ended without a verdict, or `outcome` is no verdict.
        LedgerProblem: a campaign runs in this home.
    """
    if outcome not in (*LABELS, UNDO):
        raise UsageError(f"An episode cannot be labelled {outcome!r}; allowed are: {', '.join(LABELS)} and {UNDO}.")
    ledger = SqliteLedger(home.ledger)
    try:
        row = Reading.of(ledger).order(order_id)
        if row is None or row.episode is None or row.episode.outcome not in JUDGED:
            raise UsageError(f"{order_id!r} is no episode of this home that ended with a verdict.")
        if outcome == UNDO and row.person_outcome is None:
            raise UsageError(f"Episode {order_id} has no label to withdraw.")
        counts = label_before(ledger, order_id) if outcome == UNDO else outcome
        event = EpisodeLabelled(order_id=order_id, outcome=counts, by=operator, undo=outcome == UNDO)
        ledger.append([event], row.order.campaign_id)
    finally:
        ledger.close()


def label_before(ledger: Ledger, order_id: str) -> OutcomeKind | Literal[""]:
    """The label of an episode that counts once its newest one is withdrawn; empty for none."""
    labels: list[OutcomeKind] = []
    for entry in ledger.events(kinds=kinds_of(EpisodeLabelled)):
        event = entry.event
        if not isinstance(event, EpisodeLabelled) or event.order_id != order_id:
            continue
        if event.undo:
            labels = labels[:-1]
        elif event.outcome:
            labels.append(event.outcome)
    return labels[-2] if len(labels) > 1 else ""
