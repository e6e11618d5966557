"""Episodes that learners may use: how many a campaign has, and which ones a round learns from.

A round learns from a fixed number of episodes, so that a fast fleet or a slow computer does not change the data of a
policy: the first `base.demonstrations` successful demonstrations, with the failed ones between them, which some recipes
imitate, too; the rollouts of the rounds inside `rounds.window`; and the first `rounds.episodes` rollouts of the
champion that no earlier round used. Rollouts beyond that number wait for the next round, which uses them if the
champion is still the same. Rollouts that were stopped early have no verdict and do not count; those between the others
are given, too, because critics may learn from them.

First means ordered first, and an episode counts when all orders before it have ended: those that end first are the
short ones, and a policy that learns from these alone is faster than the fleet's data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

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
    stopped: bool = False
    """Whether it was ended for a predicted failure, so that it has no verdict."""


@dataclass(slots=True)
class LearnerData:
    """The episodes of demonstrations and of data collection, in the order in which they ended."""

    rows: list[DataRow] = field(default_factory=list[DataRow])
    unused: dict[str, list[DataRow]] = field(default_factory=dict[str, list[DataRow]])
    """Version -> its rollouts that no round has used yet."""
    searched: dict[str, list[DataRow]] = field(default_factory=dict[str, list[DataRow]])
    """Version -> its search rollouts."""
    used: list[tuple[int, DataRow]] = field(default_factory=list[tuple[int, DataRow]])
    """(round, rollout): the round that used a rollout first."""
    _fresh: dict[str, int] = field(default_factory=dict[str, int], compare=False, repr=False)
    """Key of `unused` -> its rollouts with a verdict."""

    def add(self, row: DataRow) -> None:
        """Add a new episode."""
        if row.purpose == "search":
            self.searched.setdefault(row.policy_id, []).append(row)
            return
        if row.purpose != "demonstrate":
            key = row.policy_id if is_version_id(row.policy_id) else IMPORTED
            self.unused.setdefault(key, []).append(row)
            self._fresh[key] = self._fresh.get(key, 0) + (not row.stopped)
        self.rows.append(row)

    def fresh(self, champion: str) -> int:
        """Rollouts with a verdict that the next round may use, also those that still wait for earlier orders."""
        return self._fresh.get(champion, 0) + self._fresh.get(IMPORTED, 0) if champion else 0

    def take(self, episodes: Collection[str], round_: int) -> None:
        """Record that a round uses these episodes."""
        for key, rows in self.unused.items():
            self.used += [(round_, row) for row in rows if row.order_id in episodes]
            self.unused[key] = [row for row in rows if row.order_id not in episodes]
            self._fresh[key] = sum(not row.stopped for row in self.unused[key])

    def demonstrations(self, campaign: Campaign, running: Collection[Order] = ()) -> Sequence[DataRow]:
        """The demonstrations that learners get: up to `base.demonstrations` successful ones, and failed ones between.

        In lockstep failed ones count, because the number of orders is fixed. People's count whichever orders are open,
        because a robot may wait for its person for as long as that person likes.
        """
        shown = [row for row in self.rows if row.purpose == "demonstrate"]
        awaited = () if campaign.base.demonstrators == "people" else running
        shown = _before(shown, [one for one in awaited if one.purpose == "demonstrate"])
        counted = [row.success or campaign.rounds.lockstep for row in shown]
        return _until(campaign.base.demonstrations, shown, counted)

    def new_rollouts(self, champion: str, running: Collection[Order] = ()) -> Sequence[DataRow]:
        """The unused rollouts that the next round may use now, in the order in which they were ordered.

        With those that were stopped early.

        Args:
            champion: the version whose rollouts count.
            running: the orders that have not ended.
        """
        if not champion:
            return []
        own = [one for one in running if one.purpose in COLLECTION and one.policy_id == champion]
        return [*_before(self.unused.get(IMPORTED, ()), ()), *_before(self.unused.get(champion, ()), own)]

    def of_branch(
        self, versions: Collection[str], campaign: Campaign, running: Collection[Order] = ()
    ) -> Sequence[DataRow]:
        """The demonstrations, and the newest rollouts of these versions, as many as a round and its window have.

        Args:
            versions: those that the branch learns from.
            campaign: the campaign file.
            running: the orders that have not ended.
        """
        rollouts = [row for row in self.rows if row.purpose != "demonstrate"]
        rollouts += [row for rows in self.searched.values() for row in rows]
        by_version: dict[str, list[DataRow]] = {}
        for row in rollouts:
            if row.policy_id in versions:
                by_version.setdefault(row.policy_id, []).append(row)
        whole = [
            row for version, rows in by_version.items()
            for row in _before(rows, [one for one in running if one.policy_id == version])
        ]  # fmt: skip
        newest = sorted(whole, key=lambda row: row.order_id, reverse=True)
        newest = _until(campaign.rounds.window * campaign.rounds.episodes, newest, [not row.stopped for row in newest])
        return [*self.demonstrations(campaign), *reversed(newest)]

    def of_round(
        self, round_: int, champion: str, campaign: Campaign, running: Collection[Order] = ()
    ) -> Sequence[DataRow]:
        """The episodes that a training run of this round learns from. Supervised rollouts stay beyond the window."""
        rounds = campaign.rounds
        kept = [row for first, row in self.used if row.supervised or first > round_ - rounds.window]
        new = self.new_rollouts(champion, running)
        new = _until(rounds.episodes, new, [not row.stopped for row in new])
        rows = [*self.demonstrations(campaign, running if not champion else ()), *kept, *new]
        return sorted(rows, key=lambda row: (row.round, row.sha256)) if rounds.lockstep else rows


def data_hash(rows: Iterable[DataRow]) -> str:
    """sha256 over the sorted sha256 of the episodes' arrays."""
    return hashlib.sha256("".join(sorted(row.sha256 for row in rows)).encode()).hexdigest()


def _until(number: int, rows: Sequence[DataRow], counted: Sequence[bool]) -> Sequence[DataRow]:
    """The rows up to the one with which this number of them has counted; all if fewer count."""
    return rows[: next((i for i, n in enumerate(accumulate(counted), 1) if n == number), len(rows))]


def _before(rows: Iterable[DataRow], running: Collection[Order]) -> list[DataRow]:
    """The rows in the order in which they were ordered, up to the first order that has not ended."""
    first = min((one.order_id for one in running), default=None)
    return sorted((row for row in rows if first is None or row.order_id < first), key=lambda row: row.order_id)
