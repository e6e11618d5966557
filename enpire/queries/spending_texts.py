"""What agents spent on language models, as text."""

from __future__ import annotations

from enpire.queries.model_spending import LaneSpending, SpendingView
from enpire.wording import counted


def spending(view: SpendingView) -> str:
    """Tokens and money of each agent session, by the providers' counts, and the agents' own counts beside."""
    lines = ["calls of language models, by the providers' counts"]
    for lane in view.lanes:
        limit = f" of at most {lane.tokens_limit}" if lane.tokens_limit else ""
        lines.append(
            f"  {lane.lane}: {lane.calls} calls, {lane.counted_for_budget} tokens{limit} (fresh {lane.fresh}, from the "
            f"cache {lane.cache_read}, into the cache {lane.cache_write}, output {lane.output}), {money(lane)}"
        )
        if lane.lost:
            lines.append(f"    {counted(lane.lost, 'call')} lost: the most that they could cost is counted")
        if own := lane.self_reported:
            lines.append(
                f"    self-reported: fresh {own.fresh}, cached {own.cached}, written {own.cache_write}, "
                f"output {own.output}"
            )
    return "\n".join(lines)


def money(lane: LaneSpending) -> str:
    """Known and unknown cost of language models."""
    known = " + ".join(f"{amount:.4f} {currency}" for currency, amount in lane.money.items())
    unknown = f"{counted(lane.calls_of_unknown_cost, 'call')} of unknown cost" if lane.calls_of_unknown_cost else ""
    limit = f" (limit {lane.money_limit:g})" if lane.money_limit else ""
    return (" and ".join(filter(None, (known, unknown))) or "no cost") + limit
