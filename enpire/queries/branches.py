"""Branches as documents: what each one tried, used, learned from and gained.

The events of a campaign's history give the branches; the orders table gives their search rollouts, so that no order
event is read again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enpire.campaign import branch_time
from enpire.campaign.branch import Branch
from enpire.campaign.branch_events import BranchDecision
from enpire.campaign.branches import Branches
from enpire.campaign.gains import LEAST_PAIRS, Gain, Searched, gain, success_gain
from enpire.campaign.proposed import Experiment
from enpire.files import whole_number
from enpire.gate.median import median_commands
from enpire.queries.branch_arms import arms
from enpire.queries.branch_models import (
    BranchesView,
    BranchGate,
    BranchView,
    DataSources,
    GainPerHour,
    GainPoint,
    GainView,
)
from enpire.queries.branch_sources import branch_sources, learns_from, rollouts_alone
from enpire.queries.campaign_history import History
from enpire.queries.gates import gate_view, success
from enpire.store.reading import Reading
from enpire.store.search_rows import SearchRow, gate_seconds, robot_seconds, search_rows
from enpire.types import JUDGED, Json, Purpose

USES: Mapping[Purpose, str] = {
    "search": "branches", "collect": "collection", "extra": "collection", "gate": "gates", "confirm": "confirmation",
    "base": "base", "measure": "measurement", "demonstrate": "demonstrations",
}  # fmt: skip
"""Purpose of an order -> its key in `BranchesView.robot_time`; the champion's search rollouts have another one."""


def searches(reading: Reading, past: History) -> Sequence[SearchRow]:
    """The search rollouts of a campaign; none without branches."""
    return search_rows(reading, past.campaign_id) if past.branches.by_experiment else ()


def branches_of(reading: Reading, past: History, rows: Sequence[SearchRow]) -> BranchesView | None:
    """The branches of a campaign; None if it has none.

    Args:
        reading: the ledger.
        past: the history of the campaign.
        rows: its search rollouts (`searches`).
    """
    if not past.branches.by_experiment:
        return None
    add_rollouts(past.branches, rows)
    over = past.ended is not None
    limit, plan = limit_ticks(past, rows), past.section("branches")
    robot_s = plan.get("robot_s")
    budget_s = float(robot_s) if isinstance(robot_s, int | float) else 0.0
    least = whole_number({"branches": plan}, "branches", "least_starts")
    shared = _Campaign(
        past, _grouped(rows, lambda row: row.policy_id), _grouped(rows, lambda row: row.branch), limit,
        branch_time.shares(past.branches, limit, budget_s, least) if not over else {}, reading,
        _gate_time(reading, past), branch_sources(reading, past),
    )  # fmt: skip
    return BranchesView(
        branches=tuple(map(shared.view, past.branches.by_experiment.values())),
        acting=0 if over else len(past.branches.active),
        sharing=_text(plan, "sharing"),
        robot_time=_robot_time(reading, past.campaign_id),
        arms=tuple(arms(past.branches, plan, past.champions[0][1] if past.champions else "", shared.gate_s)),
    )


def add_rollouts(branches: Branches, rows: Sequence[SearchRow]) -> None:
    """Set the search rollouts and the robot time of branches whose events were applied without those of orders."""
    branches.searched = {}
    for branch in branches.by_experiment.values():
        branch.robot_s = 0.0
    for row in rows:
        if branch := branches.by_experiment.get(row.branch):
            branch.robot_s += row.took_s
        _add(branches.searched.setdefault(row.policy_id, Searched()), row, counts=_counts(row, branches))


def limit_ticks(past: History, rows: Sequence[SearchRow]) -> int:
    """Time limit of the task; the longest search rollout if neither the campaign's start nor a branch recorded it."""
    decided = [event.limit_ticks for _, event in past.measured.values()]
    return past.limit_ticks or max([1, *(decided or [row.ticks for row in rows])])


def compared(past: History, rows: Sequence[SearchRow]) -> frozenset[str]:
    """Ids of the search rollouts that a decision about a branch compared."""
    found: set[str] = set()
    of_version = _grouped(rows, lambda row: row.policy_id)
    for seq, event in past.measured.values():
        sides = [
            _by_start(of_version.get(version, ()), seq, past.branches) for version in (event.policy_id, event.champion)
        ]
        for start in sides[0].keys() & sides[1].keys():
            found |= {side[start].order_id for side in sides}
    return frozenset(found)


def _grouped(rows: Sequence[SearchRow], key: Callable[[SearchRow], str]) -> Mapping[str, Sequence[SearchRow]]:
    groups: dict[str, list[SearchRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _by_start(rows: Sequence[SearchRow], seq: int, branches: Branches) -> Mapping[int, SearchRow]:
    """Start -> the rollout of one version that had ended before an event and counts."""
    return {row.start_index: row for row in rows if 0 < row.ended_seq < seq and _counts(row, branches)}


def _counts(row: SearchRow, branches: Branches) -> bool:
    """Whether a rollout counts, as in the engine: it has a verdict, or the code of its branch ended it."""
    branch = branches.by_experiment.get(row.branch)
    ended_by_code = branch is not None and branch.is_ended_by_code(row.outcome, row.cause)
    return row.outcome in JUDGED or ended_by_code


def _add(searched: Searched, row: SearchRow, *, counts: bool) -> None:
    searched.issued += 1
    if counts:
        searched.robot_s += row.took_s
        searched.results[row.start_index] = _result(row)


def _result(row: SearchRow) -> tuple[bool, int]:
    """(success, ticks) of a rollout that counts, as the engine keeps them."""
    return row.outcome == "success", row.ticks


@dataclass(frozen=True, slots=True)
class _Campaign:
    """What the views of all branches share."""

    past: History
    of_version: Mapping[str, Sequence[SearchRow]]
    """Version -> its search rollouts."""
    of_branch: Mapping[str, Sequence[SearchRow]]
    """Experiment -> the search rollouts of its branch."""
    limit: int
    shares: Mapping[str, float]
    reading: Reading
    gate_s: Mapping[str, float]
    """Version -> robot time of its gates."""
    sources: Mapping[str, DataSources]
    """Experiment -> sources of the last training run of its branch."""

    def view(self, branch: Branch) -> BranchView:
        """One branch as a document."""
        past = self.past
        experiment = past.proposals.experiments[branch.experiment_id]
        idea = past.proposals.hypotheses.get(experiment.hypothesis_id)
        runs = [run.started for run in past.learners.values() if run.started.experiment_id == branch.experiment_id]
        newest = self._searched(branch.newest)
        ticks = [taken for won, taken in newest.results.values() if won]
        gate, found = _gate(self.reading, past, experiment), self._gain(branch)
        spent, parent = branch.spent, past.versions.get(branch.parent)
        gate_s = math.fsum(self.gate_s.get(version, 0.0) for version in branch.versions)
        return BranchView(
            id=branch.experiment_id, number=branch.number, lane=branch.lane,
            statement=idea.hypothesis.statement if idea else "", regime=branch.regime or branch.recipe.name,
            changes=dict(experiment.changes), continues=branch.parent_experiment, parent=branch.parent,
            rollouts_alone=rollouts_alone(branch.recipe.learner, parent.policy_kind if parent else ""),
            phase="over" if experiment.over else self._phase(branch), decision=experiment.decision,
            why=experiment.why if experiment.over else branch.why, turns=branch.turn, versions=len(branch.versions),
            newest=branch.newest, learns_from=learns_from(past.section("branches"), branch.lane),
            episodes=len(runs[-1].episodes) if runs else None, sources=self.sources.get(branch.experiment_id),
            search=success(branch.newest, len(ticks), len(newest.results)), median=median_commands(ticks).median,
            gain=found, gain_now=self._gain_now(branch), gate=gate,
            robot_s=branch.robot_s, gate_s=gate_s, learner_s=branch.learner_s,
            tokens=spent.tokens, money={name: round(sum_, 6) for name, sum_ in spent.money.items()},
            calls_of_unknown_cost=spent.unknown,
            share=self.shares.get(branch.experiment_id, 0.0),
            gain_per_robot_h=_per_hour(gate, found, branch.robot_s + gate_s),
            curve=tuple(self._curve(branch)),
        )  # fmt: skip

    def _phase(self, branch: Branch) -> str:
        return "ready" if branch.phase == "search" and self.past.branches.hand_over.waits else branch.phase

    def _decided(self, branch: Branch) -> tuple[int, BranchDecision] | None:
        """Number and event of its decision; None also for a branch that searches again after a promotion."""
        return self.past.measured.get(branch.experiment_id) if branch.phase in ("gate", "over") else None

    def _searched(self, version: str) -> Searched:
        return self.past.branches.searched.get(version, Searched())

    def _before(self, version: str, seq: int) -> Searched:
        """The rollouts of a version that had ended before an event and count."""
        rows = _by_start(self.of_version.get(version, ()), seq, self.past.branches)
        return Searched(results={start: _result(row) for start, row in rows.items()})

    def _gain(self, branch: Branch) -> GainView | None:
        """The gain that decided the branch; else that of its newest version over the present champion."""
        if decided := self._decided(branch):
            seq, event = decided
            found = branch.last_gain
            version, champion = self._before(event.policy_id, seq), self._before(event.champion, seq)
        else:
            return self._gain_now(branch)
        return self._gain_view(found, version, champion)

    def _gain_now(self, branch: Branch) -> GainView | None:
        found = self.past.branches.gain_now(branch, self.limit)
        return self._gain_view(found, self._searched(branch.newest), self._searched(self.past.champion))

    def _gain_view(self, found: Gain, version: Searched, champion: Searched) -> GainView | None:
        common = version.results.keys() & champion.results.keys()
        if min(found.n, len(common)) < LEAST_PAIRS:
            return None
        success = success_gain(version, champion)
        return GainView(
            n=found.n, mean=found.mean, low=found.low, high=found.high, success=success.mean, success_low=success.low,
            success_high=success.high,
        )  # fmt: skip

    def _curve(self, branch: Branch) -> Iterator[GainPoint]:
        """Gain of each version over one champion: that of the decision and until then, else the present one."""
        seq, champion = sys.maxsize, self.past.champion
        if decided := self._decided(branch):
            seq, champion = decided[0], decided[1].champion
        used_s, last_s = 0.0, dict[str, float]()
        for row in self.of_branch.get(branch.experiment_id, ()):
            if 0 < row.ended_seq < seq:
                used_s += row.took_s
                last_s[row.policy_id] = used_s
        of_champion = self._before(champion, seq)
        for version in branch.versions:
            found = gain(self._before(version, seq), of_champion, self.limit)
            if found.n >= LEAST_PAIRS and version in last_s:
                yield GainPoint(robot_s=last_s[version], mean=found.mean, low=found.low, high=found.high)


def _gate(reading: Reading, past: History, experiment: Experiment) -> BranchGate | None:
    record = past.gates.get(experiment.gate_id)
    if record is None:
        return None
    view = gate_view(reading, past, record)
    rates = (view.candidate_success.success, view.champion_success.success)
    difference = rates[0] - rates[1] if rates[0] is not None and rates[1] is not None else None
    return BranchGate(
        id=view.id, decision=view.decision, reason=view.reason, success=view.candidate_success, difference=difference,
        low=view.difference_low, high=view.difference_high,
    )  # fmt: skip


def _per_hour(gate: BranchGate | None, gain: GainView | None, robot_s: float) -> GainPerHour | None:
    """The difference in success at the gate, else on train starts, for each hour of this robot time."""
    if not robot_s:
        return None
    if gate and gate.difference is not None and gate.low is not None and gate.high is not None:
        at, found = "gate", (gate.difference, gate.low, gate.high)
    elif gain is not None:
        at, found = "search", (gain.success, gain.success_low, gain.success_high)
    else:
        return None
    success, low, high = (3600 * one / robot_s for one in found)
    return GainPerHour(success=success, low=low, high=high, at=at)


def _gate_time(reading: Reading, past: History) -> Mapping[str, float]:
    """Version -> robot time of its gates, also of those that ended without a decision, in seconds."""
    candidates = {gate_id: record.opened.candidate for gate_id, record in past.gates.items()}
    used: dict[str, float] = {}
    for gate_id, seconds in gate_seconds(reading, tuple(candidates)).items():
        used[candidates[gate_id]] = used.get(candidates[gate_id], 0.0) + seconds
    return used


def _robot_time(reading: Reading, campaign_id: str) -> Mapping[str, float]:
    used: dict[str, float] = {}
    for (purpose, of_branch), seconds in robot_seconds(reading, campaign_id).items():
        use = "champion" if purpose == "search" and not of_branch else USES[purpose]
        used[use] = used.get(use, 0.0) + seconds
    return used


def _text(section: Mapping[str, Json], name: str) -> str:
    value = section.get(name)
    return value if isinstance(value, str) else ""
