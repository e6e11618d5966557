"""Episodes that learners may use: how many a campaign has, and which ones a round learns from.

A round learns from a fixed number of episodes, so that a fast fleet or a slow computer does not change the data of a
policy: the oldest `base.demonstrations` successful demonstrations; the rollouts of the rounds inside `rounds.window`;
and the oldest `rounds.episodes` rollouts of the champion that no earlier round used. Rollouts beyond that number wait
for the next round, which uses them if the champion is still the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from enpire.campaign.campaign import Campaign
from enpire.ids import is_version_id
from enpire.types import Purpose

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
    """The episodes of demonstrations and of data collection, oldest first."""

    rows: list[DataRow] = field(default_factory=list[DataRow])
    unused: dict[str, list[tuple[int, DataRow]]] = field(default_factory=dict[str, list[tuple[int, DataRow]]])
    """Version -> (number, rollout) of its rollouts that no round has used yet."""
    used: list[tuple[int, DataRow]] = field(default_factory=list[tuple[int, DataRow]])
    """(round, rollout): the round that used a rollout first."""

    def add(self, row: DataRow) -> None:
        """Add a new episode."""
        if row.purpose != "demonstrate":
            key = row.policy_id if is_version_id(row.policy_id) else IMPORTED
            self.unused.setdefault(key, []).append((len(self.rows), row))
        self.rows.append(row)

    def fresh(self, champion: str) -> int:
        """Number of rollouts that the next round may use."""
        return len(self.unused.get(champion, ())) + len(self.unused.get(IMPORTED, ())) if champion else 0

    def take(self, episodes: Collection[str], round_: int) -> None:
        """Record that a round uses these episodes."""
        for key, rows in self.unused.items():
            self.used += [(round_, row) for _, row in rows if row.order_id in episodes]
            self.unused[key] = [one for one in rows if one[1].order_id not in episodes]

    def demonstrations(self, campaign: Campaign) -> Sequence[DataRow]:
        """The demonstrations that learners use. In lockstep failed ones count, because their number is fixed."""
        wanted = [
            row for row in self.rows if row.purpose == "demonstrate" and (row.success or campaign.rounds.lockstep)
        ]
        return wanted[: campaign.base.demonstrations]

    def of_round(self, round_: int, champion: str, campaign: Campaign) -> Sequence[DataRow]:
        """The episodes that a training run of this round learns from. Supervised rollouts stay beyond the window."""
        rounds = campaign.rounds
        kept = [row for first, row in self.used if row.supervised or first > round_ - rounds.window]
        new = sorted([*self.unused.get(champion, ()), *self.unused.get(IMPORTED, ())], key=lambda one: one[0])
        rows = [*self.demonstrations(campaign), *kept, *(row for _, row in new[: rounds.episodes] if champion)]
        return sorted(rows, key=lambda row: (row.round, row.sha256)) if rounds.lockstep else rows
