"""Branches: experiments with robot time of their own, computed from the campaign's events alone.

A branch belongs to one experiment. It trains a version, acts with it on train starts (purpose `search`), trains again,
and so on, until its newest version is better than the champion on the same starts; then that version becomes a
candidate, and the gate decides on hidden starts. A branch also ends when its budget is used up, when its gain is in the
worse half of the branches that used as much robot time, or when it acts exactly like an earlier branch.

Every version acts on the same sequence of train starts, so that two versions are compared start by start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from enpire.campaign.agent_events import (
    ExperimentCancelled,
    ExperimentChecked,
    ExperimentDecided,
    ExperimentSubmitted,
    ModelCalled,
    TokensSpent,
)
from enpire.campaign.branch import Branch, Phase
from enpire.campaign.branch_events import BranchEnded, BranchEnteredGate, BranchMeasure
from enpire.campaign.branch_spending import Spent
from enpire.campaign.events import Event
from enpire.campaign.gains import LEAST_PAIRS, Gain, Searched, gain
from enpire.campaign.gate_events import PROMOTED_BY, Deployed, GateDecided, GateOpened, RolledBack
from enpire.campaign.hand_over import HandOver
from enpire.campaign.order_events import LateResults, OrdersEnded, OrdersIssued
from enpire.campaign.quarantine_events import ExperimentCleared, ExperimentQuarantined
from enpire.campaign.recipe import Recipe, Setting
from enpire.campaign.training_events import LearnerEnded, LearnerFailed, LearnerStarted, VersionMade
from enpire.types import JUDGED, Order, OrderResult, never_began

RUNGS = (0.25, 0.5)
"""Shares of a branch's robot time after which it must be in the better half."""


def _maker(recipe: Recipe) -> tuple[str, Setting]:
    """A learner, and the program that it tunes: one cannot start from another program's version."""
    return recipe.learner, recipe.settings.get("program", "")


@dataclass(slots=True)
class Branches:
    """All branches of one campaign."""

    by_experiment: dict[str, Branch] = field(default_factory=dict[str, Branch])
    searched: dict[str, Searched] = field(default_factory=dict[str, Searched])
    """Version -> its search rollouts; the champion's are there too."""
    parents: dict[str, str] = field(default_factory=dict[str, str])
    """Version -> the version that its training started from; empty for a base."""
    makers: dict[str, tuple[str, Setting]] = field(default_factory=dict[str, tuple[str, Setting]])
    """Training run, and then version -> its learner, and the program that the learner tuned (empty for none)."""
    first_made: dict[str, str] = field(default_factory=dict[str, str])
    """Version of a branch -> the experiment that made these bytes first."""
    champion: str = ""
    hand_over: HandOver = field(default_factory=HandOver)
    """Whether branches still wait for the rounds."""
    open: dict[str, Order] = field(default_factory=dict[str, Order])
    """Search orders without an outcome, by id."""
    unknown: dict[str, Order] = field(default_factory=dict[str, Order])
    """Search orders that ended as unknown; a station may still deliver their results."""
    ran: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(station, version) of the search rollouts that ended with a verdict."""
    since: dict[str, Spent] = field(default_factory=dict[str, Spent])
    """Agent session -> what it used of language models since its last branch was decided."""
    _lows: dict[str, tuple[str, int, float]] = field(
        default_factory=dict[str, tuple[str, int, float]], compare=False, repr=False
    )
    """Version -> (champion, known rollouts, lower bound of the gain). Orders are drawn more often than it changes."""

    def apply(self, event: Event) -> None:  # noqa: C901 - one case per event
        """Apply one event; events of other kinds change nothing."""
        self.hand_over.apply(event, lambda version: version in self.versions)
        match event:
            case OrdersIssued() | OrdersEnded() | LateResults():
                self._apply_orders(event)
            case ExperimentSubmitted():
                if event.turn_rollouts and event.recipe is not None:
                    self.by_experiment[event.experiment_id] = Branch(
                        experiment_id=event.experiment_id, lane=event.lane, number=len(self.by_experiment) + 1,
                        regime=event.regime, recipe=event.recipe, turn_rollouts=event.turn_rollouts,
                        parent_experiment=event.parent_experiment, phase="over", why="not checked",
                        spent=self.since.pop(event.lane, Spent()),
                    )  # fmt: skip
            case ExperimentChecked():
                if branch := self.by_experiment.get(event.experiment_id):
                    branch.phase, branch.why = "queued", ""
            case LearnerStarted():
                self._train(event)
            case LearnerEnded() | LearnerFailed():
                self._end_training(event)
            case VersionMade():
                self.parents.setdefault(event.policy_id, event.parent)
            case GateOpened():
                self._enter(event.candidate, "gate")
            case GateDecided():
                self._enter(event.candidate, "over")
            case Deployed():
                self._deploy(event.policy_id, by_operator=event.reason.startswith(PROMOTED_BY))
            case RolledBack():
                self.champion = event.to
                for branch in self.by_experiment.values():
                    branch.phase = "over" if branch.phase == "gate" else branch.phase
            case BranchEnteredGate() | BranchEnded():
                if branch := self.by_experiment.get(event.experiment_id):
                    branch.phase = "gate" if isinstance(event, BranchEnteredGate) else "over"
                    branch.why = "" if isinstance(event, BranchEnteredGate) else event.reason
                    branch.last_gain = Gain(n=event.n, mean=event.gain, low=event.low, high=event.high)
            case ExperimentQuarantined() | ExperimentCleared():
                self._quarantine(event)
            case ModelCalled() | TokensSpent():
                self._spend(event)
            case ExperimentDecided() | ExperimentCancelled():
                if branch := self.by_experiment.get(event.experiment_id):
                    branch.phase = "over"
            case _:
                pass

    @property
    def active(self) -> Sequence[Branch]:
        """The branches for which robots act, oldest first."""
        return [] if self.hand_over.waits else [branch for branch in self.by_experiment.values() if branch.active]

    @property
    def candidates(self) -> frozenset[str]:
        """The versions that wait for a gate or are in one."""
        return frozenset(branch.newest for branch in self.by_experiment.values() if branch.phase == "gate")

    @property
    def undecided(self) -> Sequence[Branch]:
        """The branches that are neither at a gate nor over, oldest first."""
        return [one for one in self.by_experiment.values() if one.phase in ("queued", "training", "search")]

    def training(self, job: str) -> Branch | None:
        """The branch whose training run this is; None if it is of no branch."""
        return next((one for one in self.by_experiment.values() if job and one.job == job), None)

    @property
    def versions(self) -> frozenset[str]:
        """The versions of all branches."""
        return frozenset(version for branch in self.by_experiment.values() for version in branch.versions)

    def is_behind(self, branch: Branch, limit_ticks: int) -> bool:
        """Whether its learner made the present champion, of the same program, and its newest version is worse."""
        known = self.makers.get(self.champion) == _maker(branch.recipe)
        return known and self.gain(branch.newest, limit_ticks).high < 0

    def known_champions(self, champions: Sequence[str], knows: Callable[[str], bool]) -> Sequence[str]:
        """The champions that a session may start from: none that a branch of a session it does not know had a part in.

        Args:
            champions: in the order in which they were deployed. A champion that is of no branch learned from the
                rollouts of those before it.
            knows: whether it knows a session; it knows itself.
        """
        found: list[str] = []
        foreign = False
        for version in champions:
            makers = [one.lane for one in self.by_experiment.values() if version in one.versions]
            if not all(map(knows, makers)):
                foreign = True
            elif makers or not foreign:
                found.append(version)
        return found

    def gain(self, version: str, limit_ticks: int) -> Gain:
        """The gain of a version over the present champion."""
        if version == self.champion:
            return Gain()
        return gain(self.rollouts(version), self.rollouts(self.champion), limit_ticks)

    def measure(self, branch: Branch, limit_ticks: int) -> BranchMeasure:
        """What the search rollouts of a branch show now."""
        found = self.gain(branch.newest, limit_ticks)
        return BranchMeasure(
            experiment_id=branch.experiment_id, policy_id=branch.newest, champion=self.champion, n=found.n,
            gain=found.mean, low=found.low, high=found.high, robot_s=branch.robot_s, learner_s=branch.learner_s,
            limit_ticks=limit_ticks,
        )  # fmt: skip

    def next_start(self, version: str) -> int:
        """Number of the next start of a version in the sequence of search starts."""
        return self.rollouts(version).issued

    def lineage(self, version: str) -> Sequence[str]:
        """A version and those that it was trained from, newest first."""
        found: list[str] = []
        while version and version not in found:
            found.append(version)
            version = self.parents.get(version, "")
        return found

    def continued(self, branch: Branch) -> Sequence[Branch]:
        """A branch and those that it continues, newest first."""
        found: list[Branch] = []
        one: Branch | None = branch
        while one is not None and one not in found:
            found.append(one)
            one = self.by_experiment.get(one.parent_experiment)
        return found

    def maker(self, branch: Branch, knows: Callable[[str], bool] = lambda lane: True) -> Branch | None:
        """Another branch, of a session that `knows` accepts, that made this one's newest version first, bit by bit.

        One that is over before the version acted, for example because it was given up, does not count.
        """
        first = self.by_experiment.get(self.first_made.get(branch.newest, ""))
        if first is None or first is branch or not (first.is_compared and knows(first.lane)):
            return None
        return first

    def twin(self, branch: Branch, knows: Callable[[str], bool] = lambda lane: True) -> Branch | None:
        """Another branch, of a session that `knows` accepts, that acts exactly like this one's newest version.

        It made the same version before, or it is an earlier branch and its newest version acts the same.
        """
        if (first := self.maker(branch, knows)) is not None:
            return first
        mine = self.searched.get(branch.newest)
        if mine is None:
            return None
        for other in self.by_experiment.values():
            if other.number >= branch.number or other.newest not in self.searched or not knows(other.lane):
                continue
            if other.newest == branch.newest:
                is_twin = other.is_compared
            else:
                is_twin = mine.acts_like(self.searched[other.newest])
            if is_twin:
                return other
        return None

    def in_worse_half(
        self, branch: Branch, budget_s: float, limit_ticks: int, knows: Callable[[str], bool] = lambda lane: True
    ) -> bool:
        """Whether a branch passed a rung of its robot time, worse than the champion and in the worse half of its peers.

        Its peers are branches of sessions that `knows` accepts; they used as much robot time and were compared with the
        champion. With fewer than two peers nothing is decided. A branch in quarantine is no peer: its successes may be
        none.
        """
        rung_s = max((share * budget_s for share in RUNGS if branch.robot_s >= share * budget_s), default=0.0)
        own = self.gain(branch.newest, limit_ticks)
        if not rung_s or own.n < LEAST_PAIRS or own.high > 0:
            return False
        others = [one for one in self.by_experiment.values() if one is not branch and knows(one.lane)]
        reached = [one for one in others if one.robot_s >= rung_s and not one.quarantined]
        peers = [found for one in reached if (found := self.gain_now(one, limit_ticks)).n >= LEAST_PAIRS]
        better = sum(found.mean > own.mean for found in peers)
        return len(peers) >= 2 and better > len(peers) - better

    def champion_is_behind(self, least_starts: int = 0, ordered: int = 0) -> bool:
        """Whether the champion has acted on fewer search starts than the newest version of some active branch.

        Args:
            least_starts: it also is while a branch is undecided and it has acted on fewer than these. So it is ready to
                be compared when a branch has its first version.
            ordered: search orders of the champion that are drawn and not in the state yet.
        """
        most = max((self.next_start(branch.newest) for branch in self.active), default=0)
        if self.undecided and not self.hand_over.waits:
            most = max(most, least_starts)
        return bool(self.champion) and self.next_start(self.champion) + ordered < most

    def recent_low(self, version: str, limit_ticks: int) -> float:
        """The lower bound of a version's gain, computed again when a tenth more rollouts are known."""
        known = len(self.rollouts(version).results) + len(self.rollouts(self.champion).results)
        champion, then, low = self._lows.get(version, ("", 0, 0.0))
        if champion != self.champion or known > 1.1 * then:
            low = self.gain(version, limit_ticks).low
            self._lows[version] = self.champion, known, low
        return low

    def gain_now(self, branch: Branch, limit_ticks: int) -> Gain:
        """The gain of its newest version over the present champion, also of a branch that is over; the champion's is 0.

        Gains over different champions cannot be compared.
        """
        if branch.newest and branch.newest == self.champion:
            return Gain(n=len(self.rollouts(branch.newest).results), low=0.0, high=0.0)
        return self.gain(branch.newest, limit_ticks)

    def rollouts(self, version: str) -> Searched:
        """The search rollouts of a version; none yet if it has not acted."""
        return self.searched.get(version) or Searched()

    def _enter(self, candidate: str, phase: Phase) -> None:
        """Set the phase of the branch whose version is the candidate of a gate.

        In an older ledger the branch kept its gate after a promotion; here it searches again (`_deploy`) until then.
        """
        for branch in self.by_experiment.values():
            waits = branch.phase == "gate" or (branch.phase == "search" and branch.last_gain.n)
            branch.phase = phase if waits and branch.newest == candidate else branch.phase

    def _deploy(self, policy_id: str, *, by_operator: bool) -> None:
        """Make a version the champion. The other branches that wait for a gate, or are in one, search again.

        A branch whose version an operator promoted is over.
        """
        self.champion = policy_id
        for branch in self.by_experiment.values():
            if branch.phase == "search" and branch.newest == policy_id and by_operator:
                branch.phase, branch.why = "over", "promoted by an operator"
            if branch.phase == "gate":
                branch.phase = "over" if branch.newest == policy_id else "search"

    def _quarantine(self, event: ExperimentQuarantined | ExperimentCleared) -> None:
        """Hold a branch, or free it. One that waits for a gate, or is in one, searches again when it is free."""
        if branch := self.by_experiment.get(event.experiment_id):
            branch.quarantined = isinstance(event, ExperimentQuarantined) or bool(event.still)
            branch.phase = "search" if branch.phase == "gate" else branch.phase

    def _spend(self, event: ModelCalled | TokensSpent) -> None:
        """Count a call for the newest undecided branch of its session; without one, for the next that it opens."""
        lane = event.lane
        mine = (one for one in reversed(self.by_experiment.values()) if one.lane == lane and not one.quarantined)
        branch = next((one for one in mine if one.phase != "over"), None)
        (branch.spent if branch else self.since.setdefault(lane, Spent())).add(event)

    def _train(self, event: LearnerStarted) -> None:
        self.makers[event.job] = _maker(event.recipe)
        branch = self.by_experiment.get(event.experiment_id)
        if branch is None or not event.turn:
            return
        if event.turn == 1:
            branch.parent, branch.round = event.parent, event.round - 1
        branch.turn, branch.job, branch.phase = event.turn, event.job, "training"

    def _end_training(self, event: LearnerEnded | LearnerFailed) -> None:
        branch = self.training(event.job)
        if isinstance(event, LearnerEnded):
            self.makers[event.policy_id] = self.makers.pop(event.job, ("", ""))
            if branch is not None:
                branch.phase, branch.job = "search", ""
                branch.learner_s += event.seconds if event.cpu_s is None else event.cpu_s
                branch.versions.append(event.policy_id)
                self.first_made.setdefault(event.policy_id, branch.experiment_id)
        elif branch is not None:
            if not event.branch_over:
                is_kept = event.over_budget and branch.versions
                branch.phase, branch.why = ("search", "") if is_kept else ("over", event.why)
            branch.job, branch.learner_s = "", branch.learner_s + (event.cpu_s or 0.0)

    def _apply_orders(self, event: OrdersIssued | OrdersEnded | LateResults) -> None:
        match event:
            case OrdersIssued():
                for order in event.orders:
                    if order.purpose == "search":
                        self.open[order.order_id] = order
                        self.searched.setdefault(order.policy_id, Searched()).issued += 1
            case OrdersEnded():
                for result in event.results:
                    self._end(result, self.open.pop(result.order_id, None))
            case LateResults():
                for result in event.results if event.for_branches else ():
                    self._end(result, self.unknown.pop(result.order_id, None))

    def _end(self, result: OrderResult, order: Order | None) -> None:
        if order is not None and result.outcome == "unknown":
            self.unknown[order.order_id] = order
        if order is None or never_began(result.outcome, result.cause):
            return
        took_s = max(0.0, result.ended_s - result.began_s)
        found = self.searched.setdefault(order.policy_id, Searched())
        if branch := self.by_experiment.get(order.branch):
            branch.robot_s += took_s
        if result.outcome in JUDGED:
            self.ran.add((order.station, order.policy_id))
            found.robot_s += took_s
            found.results[order.start.index] = (result.outcome == "success", result.ticks)
        elif branch and branch.is_ended_by_code(result.outcome, result.cause):
            found.robot_s += took_s
            found.results[order.start.index] = (False, result.ticks)
