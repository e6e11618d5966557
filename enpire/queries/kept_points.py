"""What success cost: tokens, money and robot time of each agent session, per point that its candidates gained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from enpire.queries.campaign_history import History
from enpire.queries.model_spending import SpendingRecord
from enpire.queries.raised import raised
from enpire.store.reading import Reading
from enpire.store.search_rows import gate_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPoints:
    """What one agent session, or the whole campaign, spent, and what its promoted candidates gained."""

    lane: str
    """Name of the agent session; empty for the whole campaign, with its rounds."""
    experiments: int
    """Decided experiments."""
    kept: int
    """Promotions for more success that were not rolled back."""
    points: float
    """Sum of their gains over the champions of their gates, in percentage points of success on hidden starts."""
    robot_s: float
    """Robot time of its search rollouts and its gates; of the whole campaign all time of its robots."""
    tokens: int
    """By the providers' counts; a lost call counts the most that it could cost."""
    money: Mapping[str, float]
    """Currency -> known cost."""
    money_is_known: bool
    """Whether the price of every call is known."""
    robot_min_per_point: float | None
    """None without kept points, as the two below."""
    tokens_per_point: float | None
    money_per_point: Mapping[str, float] | None
    """None, too, where the price of a call is not known."""


def kept_points(reading: Reading, past: History) -> tuple[KeptPoints, ...]:
    """Every agent session, then the whole campaign; empty without experiments.

    Args:
        reading: the ledger.
        past: the campaign; its branches have their robot time (`enpire.queries.branches.add_rollouts`).
    """
    experiments = past.proposals.experiments.values()
    if not experiments:
        return ()
    makers = {item.policy_id: item.lane for item in experiments}
    makers |= {version: one.lane for one in past.branches.by_experiment.values() for version in one.versions}
    used_s: dict[str, float] = {}
    for branch in past.branches.by_experiment.values():
        used_s[branch.lane] = used_s.get(branch.lane, 0.0) + branch.robot_s
    candidates = {gate_id: record.opened.candidate for gate_id, record in past.gates.items()}
    of_agents = {gate_id: makers[version] for gate_id, version in candidates.items() if version in makers}
    for gate_id, seconds in gate_seconds(reading, tuple(of_agents)).items():
        used_s[of_agents[gate_id]] = used_s.get(of_agents[gate_id], 0.0) + seconds
    kept = [one for one in raised(past) if not one.rolled_back]
    tokens, spent = past.proposals.tokens, past.spendings

    def row(lane: str, used_s: float, decided: int, record: SpendingRecord) -> KeptPoints:
        mine = [one for one in kept if not lane or makers.get(one.id) == lane]
        used = tokens.get(lane, 0) if lane else sum(tokens.values())
        points = 100 * sum(one.gain for one in mine)
        is_known = not record.unknown and used == record.counted  # else an agent of an earlier version counted some
        return KeptPoints(
            lane=lane, experiments=decided, kept=len(mine), points=points, robot_s=used_s, tokens=used,
            money={name: round(sum_, 6) for name, sum_ in record.money.items()}, money_is_known=is_known,
            robot_min_per_point=used_s / 60 / points if points else None,
            tokens_per_point=used / points if points else None,
            money_per_point={name: sum_ / points for name, sum_ in record.money.items()}
            if points and is_known else None,
        )  # fmt: skip

    decided = Counter(item.lane for item in experiments if item.phase == "decided")
    lanes = sorted({*tokens, *(item.lane for item in experiments)})
    rows = [row(lane, used_s.get(lane, 0.0), decided[lane], spent.lanes.get(lane, SpendingRecord())) for lane in lanes]
    return (*rows, row("", past.robot_s(), decided.total(), spent.total))
