"""The state of a campaign, computed from its events alone.

The loop appends an event to the ledger and then applies the same event to this state. A campaign that was killed
therefore reaches the state after its last durable event by applying its events again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from enpire.campaign.branches import Branches
from enpire.campaign.confirmation_forecast import ConfirmationForecast
from enpire.campaign.counts import Confirmation, Count
from enpire.campaign.early_stops import EarlyStops
from enpire.campaign.experiments import Proposals
from enpire.campaign.learner_data import DataRow, LearnerData
from enpire.campaign.quarantine import Quarantine
from enpire.campaign.recipe import Recipe
from enpire.campaign.station_holds import StationHolds
from enpire.gate.gate import Decision, GateReader
from enpire.gate.regression import RegressionWatch, lost_success
from enpire.gate.rule import GateRule
from enpire.gate.trials import FinishedPairs, Reissues, Side, Trial
from enpire.types import COLLECTION, HIDDEN, IMPORTED_STATION, JUDGED, Episode, Order, OutcomeKind, Purpose, never_began

GATHERED: frozenset[Purpose] = frozenset({"demonstrate", *COLLECTION})
"""Purposes of episodes that become training data."""


@dataclass(slots=True)
class OpenGate:
    """A gate that is not decided yet."""

    gate_id: str
    champion: str
    candidate: str
    round: int
    k: int
    level: float
    rule: GateRule = field(default_factory=GateRule)
    drop: float = 0.0
    """Success rate that the champion has lost against the best earlier champion."""
    issued: int = 0
    """Number of pairs ordered."""
    trials: list[Trial] = field(default_factory=list[Trial])
    """Trials that ended, in the order in which they ended."""
    again: list[tuple[int, Side]] = field(default_factory=list[tuple[int, Side]])
    """(pair, side) of trials that were released before they began and wait to be reissued from the same start."""
    read: int = field(default=0, compare=False)
    """Number of trials that the latest decision has read; 0 after a restart, until the gate is read again."""
    decision: Decision | None = field(default=None, compare=False)
    """The latest decision; None after a restart, until the gate is read again."""
    reader: GateReader = field(init=False, compare=False, repr=False)
    """Keeps the counts of the pairs that were read."""
    finished: FinishedPairs = field(default_factory=FinishedPairs, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Begin to read."""
        self.reader = GateReader(self.rule, self.level, self.drop)

    def add(self, trial: Trial) -> None:
        """Add a trial that ended."""
        self.trials.append(trial)
        self.finished.add(trial)
        if trial.released:
            self.again.append((trial.pair, trial.side))

    @property
    def policies(self) -> Mapping[Side, str]:
        """The version of each side."""
        return {"champion": self.champion, "candidate": self.candidate}


@dataclass(slots=True)
class Training:
    """A training run in progress."""

    job: str
    parent: str
    round: int
    recipe_hash: str
    data_hash: str
    recipe: Recipe
    episodes: tuple[str, ...]
    experiment_id: str = ""
    """Empty for the campaign's own rounds."""
    turn: int = 0
    """Number of the run in its branch, from 1; 0 outside branches."""
    seed: int | None = None
    """As in `LearnerStarted`."""


@dataclass(slots=True)
class CampaignState:
    """The state that the steps of the loop read."""

    campaign_id: str = ""
    round: int = 0
    """Rounds begun; 0 while the base is made."""
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    """Goal and budget as operators changed them: section of the campaign file -> key -> value."""
    champion: str = ""
    champions: list[str] = field(default_factory=list[str])
    """Every version that was deployed, oldest first."""
    crowned: dict[str, int] = field(default_factory=dict[str, int])
    """Champion -> the round in which it was first deployed."""
    restored: bool = False
    """Whether a rollback made the champion the champion again."""
    rolled_back: set[str] = field(default_factory=set[str])
    """Champions that were rolled back and not deployed again. No training run starts from them."""
    open: dict[str, Order] = field(default_factory=dict[str, Order])
    """Orders without an outcome, by id."""
    cut_off: dict[str, str] = field(default_factory=dict[str, str])
    """Orders that were open when a session was cut off -> the cause."""
    ended: dict[str, OutcomeKind] = field(default_factory=dict[str, OutcomeKind])
    """Outcome of every order that ended, by id."""
    unknown: dict[str, Order] = field(default_factory=dict[str, Order])
    """Orders that ended as unknown; a station may still deliver their episodes."""
    outcomes: Counter[str] = field(default_factory=Counter[str])
    data: LearnerData = field(default_factory=LearnerData)
    """Recorded episodes of demonstrations and of data collection."""
    base: Count = field(default_factory=Count)
    base_policy: str = ""
    base_issued: int = 0
    reissues: Reissues = field(default_factory=Reissues)
    confirm_issued: Counter[str] = field(default_factory=Counter[str])
    """Version -> starts drawn for its confirmations; each one counts once."""
    base_measured: bool = False
    start_results: dict[int, Count] = field(default_factory=dict[int, Count])
    """Train start -> recent successes and trials; older trials count less."""
    collected: dict[str, Count] = field(default_factory=dict[str, Count])
    """Version -> successes and trials of its collection on uniformly drawn train starts, as it is deployed."""
    unselected: dict[str, Count] = field(default_factory=dict[str, Count])
    """Version -> successes and trials on hidden starts that did not help to choose it: base measurement, confirmation,
    and its side of gates as the champion."""
    watch: RegressionWatch | None = None
    """Evidence that the champion regressed: against the champion before it, or, after a rollback, against its own rate
    before."""
    by_round: dict[int, Count] = field(default_factory=dict[int, Count])
    """Round -> successes and trials of its data collection."""
    early_stops: EarlyStops = field(default_factory=EarlyStops)
    forecast: ConfirmationForecast = field(default_factory=ConfirmationForecast)
    hidden: dict[str, Count] = field(default_factory=dict[str, Count])
    """Version -> all its trials on hidden starts (`HIDDEN`) with a verdict: base measurement, gates, confirmations."""
    training: Training | None = None
    branch_trainings: dict[str, Training] = field(default_factory=dict[str, Training])
    """Training runs of branches in progress, by job."""
    failures_in_a_row: int = 0
    """Failed training runs of the campaign's own recipe since its last success."""
    candidates: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """(version, round) waiting for a gate. The first version of a campaign is the base, deployed without a gate."""
    gates: dict[str, OpenGate] = field(default_factory=dict[str, OpenGate])
    """Gates that are not decided, by id, in the order in which they were opened."""
    gates_opened: int = 0
    ended_since_gate: int = 0
    """Orders that ended since the last gate or new champion, while no gate, candidate or training round was there."""
    promoted: int = 0
    confirmation: Confirmation | None = None
    confirmed: dict[str, bool] = field(default_factory=dict[str, bool])
    """Version -> whether its confirmation passed."""
    lease: int = 0
    """The highest lease number issued."""
    wall_s: float = 0.0
    """Wall-clock time of earlier sessions, in seconds."""
    session_s: float = 0.0
    robot_s: float = 0.0
    robot_session_s: float = 0.0
    session_ticks: int = 0
    """Commanded periods of the episodes that ended in this session."""
    proposals: Proposals = field(default_factory=Proposals)
    """Proposals of agents."""
    branches: Branches = field(default_factory=Branches)
    """Experiments with robot time of their own."""
    quarantine: Quarantine = field(default_factory=Quarantine)
    """Experiments and versions that wait until a person clears them."""
    rounds_since_promotion: int = 0
    """Rounds whose gate did not promote, since the last promotion."""
    promising: str = ""
    """The candidate of the last round, if it won more pairs than it lost without enough evidence to be promoted."""
    labels: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Order -> (verdict of the verifier, later label by an operator)."""
    verifier: str = ""
    """Digest of the campaign's verifier; empty where an older ENPIRE did not record it."""
    paused: bool = False
    paused_by: str = ""
    """Who or what paused the campaign; empty while it runs."""
    paused_why: str = ""
    """One sentence if the campaign paused itself, else empty."""
    paused_seq: int = 0
    """Number of the event that paused the campaign last."""
    wrong_accepted: int = 0
    """False successes known when an operator last continued the campaign."""
    holds: StationHolds = field(default_factory=StationHolds)
    over: bool = False
    newest_event: int = 0
    """Number of the newest event in the ledger, of any campaign. Commands of operators name it (`seen`)."""

    def drop(self, version: int) -> float:
        """Success rate lost against the best earlier champion, on hidden starts, by this version of the gate's rule."""
        earlier = {policy_id for policy_id in self.champions if policy_id != self.champion}
        counts = [(count.successes, count.n) for policy_id, count in self.hidden.items() if policy_id in earlier]
        now = self.hidden.get(self.champion, Count())
        return lost_success((now.successes, now.n), counts, version)

    @property
    def fresh(self) -> int:
        """Rollouts of the parent with a verdict that no round has used yet."""
        return self.data.fresh(self.parent)

    def usable(self, version: str) -> int:
        """Rollouts with a verdict that the next round may use now: ordered before every order that has not ended."""
        return sum(not row.stopped for row in self.data.new_rollouts(version, self.open.values()))

    @property
    def parent(self) -> str:
        """The version that the next round starts from and whose rollouts it learns from.

        A promising candidate, else the champion. So small gains add up until a gate can show them. The gate still
        compares with the champion. A version in quarantine is no parent.
        """
        return self.promising or self.champion

    @property
    def awaits_confirmation(self) -> bool:
        """Whether the champion may still get a confirmation: it has had none, and it is not in quarantine."""
        had = self.confirmation is not None or self.champion in self.confirmed
        return self.base_measured and not had and not self.quarantine.holds(self.champion)

    def crown(self, policy_id: str, *, restored: bool = False) -> None:
        """Make a version the champion. From now on its success is compared with that of the champion before it.

        A version that a rollback restores is compared with its own rate before. If that fell as well, both fell.
        """
        self.promising, self.ended_since_gate = "", 0
        before = self._before(policy_id if restored else self.champion)
        self.watch = RegressionWatch.after(before.successes, before.n) if self.champion else None
        self.champion, self.restored = policy_id, restored
        self.champions.append(policy_id)
        self.rolled_back.discard(policy_id)

    def _before(self, policy_id: str) -> Count:
        """The trials of a version that its successor, or its restored self, is compared with.

        Rollouts that are stopped early count as failures, and trials on hidden starts are never stopped early. So the
        latter do not count where rollouts were stopped. Campaigns with an earlier rule than version 4 count none.
        """
        collected, hidden = self.collected.get(policy_id, Count()), self.unselected.get(policy_id, Count())
        if self.reissues.rule_version < 4 or self.early_stops.stopped:
            return collected
        return Count(collected.successes + hidden.successes, collected.n + hidden.n)

    def compare_anew(self) -> None:
        """Compare no version with rates from before: an operator has checked the scene."""
        self.watch = None
        self.collected.clear()
        self.unselected.clear()

    def may_be_parents(self, champions: Sequence[str]) -> Sequence[str]:
        """Those of these champions that training runs may start from."""
        return [one for one in champions if one not in self.rolled_back and not self.quarantine.holds(one)]

    @property
    def free_candidates(self) -> Sequence[tuple[str, int]]:
        """The candidates that may enter a gate: those that are not in quarantine, oldest first."""
        return [item for item in self.candidates if not self.quarantine.holds(item[0])]

    def issue(self, order: Order) -> None:
        """Record an issued order."""
        self.open[order.order_id] = order
        if order.purpose == "gate" and (gate := self.gates.get(order.gate_id)):
            gate.issued = max(gate.issued, order.pair + 1)
            gate.again = [one for one in gate.again if one != (order.pair, order.side)]
        elif self.reissues.reissued(order):
            return
        elif order.purpose == "confirm":
            self.confirm_issued[order.policy_id] += 1
        elif order.purpose == "base":
            self.base_issued += 1
        elif order.purpose == "measure":
            self.forecast.measured[order.policy_id] += 1

    def end(self, episode: Episode) -> None:
        """Record the outcome of an order."""
        order = self.open.pop(episode.order.order_id, episode.order)
        success = episode.outcome == "success"
        self.ended[order.order_id] = episode.outcome
        self.outcomes[episode.outcome] += 1
        self._count_ticks(episode)
        self.ended_since_gate += not (self.gates or self.free_candidates or self.training)
        if episode.outcome == "unknown":
            self.unknown[order.order_id] = order
        self._measure(order, episode)
        if order.purpose in GATHERED:
            self._gather(order, episode)
        elif order.purpose == "search":
            self._keep_data(order, episode)
        elif order.purpose == "gate":
            self._trial(order, episode)
        elif order.purpose == "measure":
            self.forecast.add(episode)
        elif self.reissues.returns(episode):
            return
        elif order.purpose == "base":
            self.base = self.base.plus(success)
            self.forecast.add(episode)
        elif self.confirmation is not None and order.policy_id == self.confirmation.policy_id:
            self.confirmation.add(episode)

    def end_late(self, episode: Episode) -> None:
        """Record the late result of an order that had ended as unknown.

        A late result becomes training data. It corrects a base measurement or a confirmation that is not complete,
        because these are read once, when complete. It does not correct a gate, which is read after every pair: there
        the unknown trial stays a failure of its side.
        """
        order = self.unknown.pop(episode.order.order_id)
        self.ended[order.order_id] = episode.outcome
        self.outcomes["unknown"] -= 1
        self.outcomes[episode.outcome] += 1
        self._count_ticks(episode)
        self._measure(order, episode)
        if order.purpose in ("base", "measure"):
            self.forecast.add(episode)
        if order.purpose in GATHERED:
            self._gather(order, episode)
        elif order.purpose == "search":
            self._keep_data(order, episode)
        elif order.purpose == "base" and not self.base_measured:
            self.base = self.base.corrected(episode)
            self._late_start(episode)
        elif order.purpose == "confirm" and self.confirmation and order.policy_id == self.confirmation.policy_id:
            self.confirmation.correct(episode)
            self._late_start(episode)

    def _late_start(self, episode: Episode) -> None:
        if never_began(episode.outcome, episode.cause):
            self.reissues.put_back(episode.order)

    def _count_ticks(self, episode: Episode) -> None:
        self.session_ticks += episode.ticks if episode.order.station != IMPORTED_STATION else 0

    def _measure(self, order: Order, episode: Episode) -> None:
        if order.purpose in HIDDEN and episode.outcome in JUDGED:
            _add(self.hidden, order.policy_id, episode.outcome == "success")
            if order.purpose != "gate" or order.side == "champion":
                _add(self.unselected, order.policy_id, episode.outcome == "success")

    def _gather(self, order: Order, episode: Episode) -> None:
        """Record an episode of demonstrations or data collection."""
        if self.early_stops.add(order, episode):
            # A predicted failure is no verdict. Critics may learn from what came before; success rates count a failure.
            self._keep_data(order, episode)
            self._count_start(episode, False)
            _add(self.by_round, order.round, False)
        if episode.outcome not in JUDGED:
            return
        success = episode.outcome == "success"
        self._keep_data(order, episode)
        if order.purpose == "demonstrate":
            return
        if not order.supervised:
            # An operator may have caused a supervised success, so it does not measure the version or the start.
            self._count_start(episode, success)
        _add(self.by_round, order.round, success)

    def _keep_data(self, order: Order, episode: Episode) -> None:
        """Keep an episode with arrays for learners if it has a verdict or was stopped early."""
        if episode.sha256 and (episode.outcome in JUDGED or episode.stopped_early):
            self.data.add(
                DataRow(
                    order_id=order.order_id, sha256=episode.sha256, round=order.round, purpose=order.purpose,
                    policy_id=order.policy_id, success=episode.outcome == "success", supervised=order.supervised,
                    stopped=episode.stopped_early,
                )
            )  # fmt: skip

    def _count_start(self, episode: Episode, success: bool) -> None:
        order = episode.order
        count = self.start_results.get(order.start.index, Count())
        self.start_results[order.start.index] = (count.halved() if count.n >= 4 else count).plus(success)
        if not order.start.index % 2 and not episode.explored:
            _add(self.collected, order.policy_id, success)
            if self.watch is not None and order.policy_id == self.champion:
                self.watch.add(success)

    def _trial(self, order: Order, episode: Episode) -> None:
        gate = self.gates.get(order.gate_id)
        if gate is None:
            return
        side: Side = "champion" if order.side == "champion" else "candidate"
        trial = Trial(pair=order.pair, side=side, outcome=episode.outcome, ticks=episode.ticks, cause=episode.cause)
        gate.add(trial)
        self.forecast.add(episode)


def _add[K](counts: dict[K, Count], key: K, success: bool) -> None:
    """Count one more trial under `key`."""
    counts[key] = counts.get(key, Count()).plus(success)
