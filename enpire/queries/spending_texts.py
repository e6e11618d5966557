"""What agents spent, and what that gained, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enpire.queries.kept_points import KeptPoints
from enpire.queries.model_spending import LaneSpending, SpendingView
from enpire.wording import counted


def spending(view: SpendingView) -> str:
    """Tokens and money of each agent session, by the providers' counts, and the agents' own counts beside."""
    lines = ["calls of language models, by the providers' counts"]
    for lane in view.lanes:
        limit = f" of at most {lane.tokens_limit}" if lane.tokens_limit else ""
        lines.append(
            f"  {lane.lane}: {counted(lane.calls, 'call')}, {lane.counted_for_budget} tokens{limit} (fresh "
            f"{lane.fresh}, from the cache {lane.cache_read}, into the cache {lane.cache_write}, output {lane.output}),"
            f" {money(lane)}"
        )
        if lane.lost:
            lost = f"{counted(lane.lost, 'call')} sent, outcome unknown"
            lines.append(f"    {lost}: the most that {'it' if lane.lost == 1 else 'they'} could cost is counted")
        if lane.failed:
            lines.append(f"    {counted(lane.failed, 'call')} refused by the provider, at no cost")
        if own := lane.self_reported:
            lines.append(
                f"    self-reported: fresh {own.fresh}, cached {own.cached}, written {own.cache_write}, "
                f"output {own.output}"
            )
    return "\n".join(lines)


def money(lane: LaneSpending) -> str:
    """Known and unknown cost of language models."""
    known = _amounts(lane.money)
    unknown = f"{counted(lane.calls_of_unknown_cost, 'call')} of unknown cost" if lane.calls_of_unknown_cost else ""
    limit = f" (limit {lane.money_limit:g})" if lane.money_limit else ""
    return (" and ".join(filter(None, (known, unknown))) or "no cost") + limit


def kept_points(rows: Sequence[KeptPoints]) -> str:
    """What each agent session and the campaign spent, in all and per point of success that was kept."""
    return "\n".join(["cost of kept points (success that promoted candidates gained)", *map(_kept, rows)])


def per_point(value: float | None, digits: int = 0) -> str:
    """A cost per kept point; `-` without one."""
    return "-" if value is None else f"{value:.{digits}f}"


def money_per_point(row: KeptPoints) -> str:
    """Money per kept point: `-` without points or calls, unknown where a price is not known."""
    if not row.money_is_known:
        return "unknown"
    return _amounts(row.money_per_point or {}) or "-"


def _kept(row: KeptPoints) -> str:
    gained = f"{counted(row.kept, 'candidate')} kept, {row.points:+.1f} points" if row.kept else "no kept point"
    used = [(f"robot {row.robot_s / 60:.1f} min", per_point(row.robot_min_per_point, 2))]
    if row.tokens:
        used.append((f"{row.tokens} tokens", per_point(row.tokens_per_point)))
    if row.money or not row.money_is_known:
        used.append((_amounts(row.money) or "money unknown", money_per_point(row)))
    spent = ", ".join(total + (f" ({each} per point)" if row.kept else "") for total, each in used)
    return f"  {row.lane or 'campaign'}: {counted(row.experiments, 'experiment')}, {gained}; {spent}"


def _amounts(money: Mapping[str, float]) -> str:
    return " + ".join(f"{amount:.4f} {currency}" for currency, amount in money.items())
