"""Episodes that learners may use: how many a campaign has, and which ones a round learns from.

A round learns from a fixed number of episodes, so that a fast fleet or a slow computer does not change the data of a
policy: the first `base.demonstrations` successful demonstrations; the rollouts of the rounds inside `rounds.window`;
and the first `rounds.episodes` rollouts of the champion that no earlier round used. Rollouts beyond that number wait
for the next round, which uses them if the champion is still the same.

First means ordered first, and an episode counts when all orders before it have ended. The episodes that END first are
the short ones: on pin_insertion, a base from the 80 demonstrations that ended first succeeded in 84 %, since it had
learned from the fast ones alone, and a base from all of them in 37 %.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from enpire.campaign.campaign import Campaign
from enpire.ids import is_version_id
from enpire.types import COLLECTION, Order, Purpose

IMPORTED = ""
"""Key of the rollouts of policies that are no version of this home: imported ones, which any champion's round uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRow:
    """One episode that a learner may train on. Episodes from hidden starts are never included."""

    order_id: str
    sha256: str
    round: int
    purpose: Purpose
    policy_id: str
    success: bool
    supervised: bool = False
    """Whether an operator could take over during the episode."""


@dataclass(slots=True)
class LearnerData:
    """The episodes of demonstrations and of data collection, in the order in which they ended."""

    rows: list[DataRow] = field(default_factory=list[DataRow])
    unused: dict[str, list[DataRow]] = field(default_factory=dict[str, list[DataRow]])
    """Version -> its rollouts that no round has used yet."""
    used: list[tuple[int, DataRow]] = field(default_factory=list[tuple[int, DataRow]])
    """(round, rollout): the round that used a rollout first."""

    def add(self, row: DataRow) -> None:
        """Add a new episode."""
        if row.purpose != "demonstrate":
            key = row.policy_id if is_version_id(row.policy_id) else IMPORTED
            self.unused.setdefault(key, []).append(row)
        self.rows.append(row)

    def fresh(self, champion: str) -> int:
        """Number of rollouts that the next round may use, also of those that still wait for earlier orders."""
        return len(self.unused.get(champion, ())) + len(self.unused.get(IMPORTED, ())) if champion else 0

    def take(self, episodes: Collection[str], round_: int) -> None:
        """Record that a round uses these episodes."""
        for key, rows in self.unused.items():
            self.used += [(round_, row) for row in rows if row.order_id in episodes]
            self.unused[key] = [row for row in rows if row.order_id not in episodes]

    def demonstrations(self, campaign: Campaign, running: Collection[Order] = ()) -> Sequence[DataRow]:
        """The demonstrations that learners use. In lockstep failed ones count, because their number is fixed."""
        wanted = [
            row for row in self.rows if row.purpose == "demonstrate" and (row.success or campaign.rounds.lockstep)
        ]
        return _before(wanted, [one for one in running if one.purpose == "demonstrate"])[: campaign.base.demonstrations]

    def new_rollouts(self, champion: str, running: Collection[Order] = ()) -> Sequence[DataRow]:
        """The unused rollouts that the next round may use now, in the order in which they were ordered.

        Args:
            champion: the version whose rollouts count.
            running: the orders that have not ended.
        """
        if not champion:
            return []
        own = [one for one in running if one.purpose in COLLECTION and one.policy_id == champion]
        return [*_before(self.unused.get(IMPORTED, ()), ()), *_before(self.unused.get(champion, ()), own)]

    def of_round(
        self, round_: int, champion: str, campaign: Campaign, running: Collection[Order] = ()
    ) -> Sequence[DataRow]:
        """The episodes that a training run of this round learns from. Supervised rollouts stay beyond the window."""
        rounds = campaign.rounds
        kept = [row for first, row in self.used if row.supervised or first > round_ - rounds.window]
        new = self.new_rollouts(champion, running)[: rounds.episodes]
        rows = [*self.demonstrations(campaign, running if not champion else ()), *kept, *new]
        return sorted(rows, key=lambda row: (row.round, row.sha256)) if rounds.lockstep else rows


def _before(rows: Iterable[DataRow], running: Collection[Order]) -> list[DataRow]:
    """The rows in the order in which they were ordered, up to the first order that has not ended."""
    first = min((one.order_id for one in running), default=None)
    return sorted((row for row in rows if first is None or row.order_id < first), key=lambda row: row.order_id)
