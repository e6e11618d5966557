"""Running campaigns, and ending one that was interrupted."""

from __future__ import annotations

from enpire.errors import UsageError
from enpire.home import Home
from enpire.steps.begin import unended
from enpire.steps.record import unfinished
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.records import episode_body


def end_interrupted(home: Home, operator: str) -> str:
    """End the campaign that was interrupted in this home, without its goal; returns its id.

    Orders that a station may still hold end as unknown, as at the end of any campaign.

    Raises:
        UsageError: the home has no unfinished campaign.
    """
    ledger = SqliteLedger(home.ledger)
    try:
        open_ones = unended(ledger)
        if not open_ones:
            raise UsageError(f"{home.root} has no unfinished campaign, so there is none to end.")
        campaign_id = max(open_ones)
        orders = Reading(ledger.database).open_orders(campaign_id)
        lost = [episode_body(unfinished(order, "unknown", "the campaign ended first")) for order in orders]
        ended = ("campaign ended", {"campaign_id": campaign_id, "reached": False, "reason": f"ended by {operator}"})
        ledger.append([*([("orders ended", {"campaign_id": campaign_id, "episodes": lost})] if lost else []), ended])
    finally:
        ledger.close()
    return campaign_id
