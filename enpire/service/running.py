"""Run a campaign, end an interrupted one, and prepare a home for the pages."""

from __future__ import annotations

from pathlib import Path

from enpire.campaign.campaign import Campaign
from enpire.campaign.order_events import OrdersEnded
from enpire.campaign.session_events import CampaignEnded, LedgerRestored
from enpire.codec import result_of
from enpire.errors import UsageError
from enpire.home import Home
from enpire.queries.campaigns import is_driven
from enpire.session import LabObserver, RunOptions, require_parts, run_campaign
from enpire.steps.begin import find_unfinished, unended
from enpire.steps.check_episode import unfinished
from enpire.steps.ending import Ending
from enpire.store.copies import Restored, restore
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.store.reading import Reading

__all__ = [
    "Ending", "LabObserver", "RunOptions", "end_interrupted", "migrate_ledger", "require_parts", "require_unfinished",
    "restore_ledger", "run_campaign",
]  # fmt: skip


def require_unfinished(home: Home, campaign: Campaign) -> None:
    """Check that the home holds an unfinished campaign of this name.

    Raises:
        UsageError: it holds none, or one that began with another file.
    """
    ledger = open_to_read(home.ledger)
    try:
        found = find_unfinished(ledger, campaign)
    finally:
        ledger.close()
    if found is None:
        raise UsageError(
            f"{home.root} holds no unfinished campaign {campaign.name!r}; leave out --resume to start one."
        )


def migrate_ledger(home: Home) -> None:
    """Bring the ledger of an older version up to date, unless a campaign runs in the home. The pages only read it."""
    if home.ledger.is_file() and not is_driven(home.root):
        SqliteLedger(home.ledger).close()


def restore_ledger(home: Home, copy: Path, operator: str) -> Restored:
    """Put a verified copy in place of the ledger, and record who did it.

    Raises:
        LedgerProblem: the copy does not verify, or a campaign runs in the home.
    """
    restored = restore(home.ledger, copy)
    ledger = SqliteLedger(home.ledger)
    try:
        last = next(iter(Reading.of(ledger).tail(1)), None)
        event = LedgerRestored(
            by=operator, copy=copy.name, head=str(restored.head), lost=str(restored.lost) if restored.lost else ""
        )
        ledger.append([event], last.campaign_id if last is not None else "")
    finally:
        ledger.close()
    return restored


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
        orders = Reading.of(ledger).open_orders(campaign_id)
        lost = tuple(result_of(unfinished(order, "unknown", "the campaign ended first")) for order in orders)
        ended = CampaignEnded(reached=False, reason=f"ended by {operator}")
        ledger.append([*([OrdersEnded(results=lost)] if lost else []), ended], campaign_id)
    finally:
        ledger.close()
    return campaign_id
