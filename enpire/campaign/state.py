"""Where a campaign stands: the fold of its events, and nothing else.

The loop never changes this by hand. It appends an event to the ledger and folds the same event in here, so a campaign
that was killed stands, after its events are folded again, exactly where its last durable event left it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from enpire.campaign.experiments import Proposals
from enpire.campaign.recipe import Recipe
from enpire.gate.gate import Decision, Side, Trial, reissued
from enpire.gate.intervals import lower_bound
from enpire.types import HIDDEN, Episode, Order, OutcomeKind, Purpose, never_began

JUDGED: frozenset[OutcomeKind] = frozenset({"success", "failure", "unsafe"})
"""Outcomes that a verdict gave."""
FALSE_ALARMS = 0.1
"""Share of successes among rollouts that look hopeless from which on they are no longer stopped."""


@dataclass(slots=True)
class Count:
    """Successes among trials."""

    successes: int = 0
    n: int = 0

    def add(self, success: bool) -> None:
        """Count one more."""
        self.successes += success
        self.n += 1

    def correct(self, found: Episode) -> None:
        """Count as what it is what was counted as unknown, a failure; as nothing when it had not begun."""
        self.successes += found.outcome == "success"
        self.n -= never_began(found.outcome, found.cause)

    @property
    def rate(self) -> float:
        """Successes per trial, 0 without trials."""
        return self.successes / self.n if self.n else 0.0


@dataclass(slots=True)
class OpenGate:
    """A comparison that is going on."""

    gate_id: str
    champion: str
    candidate: str
    round: int
    k: int
    level: float
    issued: int = 0
    """Pairs that were ordered."""
    trials: list[Trial] = field(default_factory=list[Trial])
    """Sides of pairs that ended, in the order of their ends."""
    again: list[tuple[int, Side]] = field(default_factory=list[tuple[int, Side]])
    """Sides of pairs that were taken back before they began: they are given again, from the same start."""
    read: int = 0
    """How many of the trials the decision has seen."""
    decision: Decision | None = None
    """The latest reading."""

    @property
    def policies(self) -> Mapping[Side, str]:
        """The version of each side."""
        return {"champion": self.champion, "candidate": self.candidate}


@dataclass(slots=True)
class Confirmation:
    """A confirmation that is going on."""

    policy_id: str
    n: int
    ended: Count = field(default_factory=Count)


@dataclass(slots=True)
class Training:
    """A learner that is at work."""

    job: str
    parent: str
    round: int
    recipe_hash: str
    data_hash: str
    recipe: Recipe
    episodes: tuple[str, ...]
    experiment_id: str = ""
    """Empty for the campaign's own rounds."""


@dataclass(frozen=True, slots=True)
class DataRow:
    """One episode that a learner may see. Hidden starts never become one."""

    order_id: str
    sha256: str
    round: int
    purpose: Purpose
    supervised: bool = False
    """Whether somebody watched who could take over."""

    def is_fresh(self, oldest: int) -> bool:
        """Whether it is of round `oldest` or newer; what people did, or may have done, never ages."""
        return self.purpose == "demonstrate" or self.supervised or self.round >= oldest


@dataclass(slots=True)
class EarlyStops:
    """Rollouts of the collection that looked hopeless, and what the control arm says about such."""

    stopped: int = 0
    """Rollouts that ended early."""
    flagged: Count = field(default_factory=Count)
    """Rollouts of the control arm that would have ended early; its successes are false alarms."""

    @property
    def refuted(self) -> bool:
        """Whether more than every tenth hopeless rollout is sure to succeed (95 % lower bound)."""
        return self.flagged.n > 0 and lower_bound(self.flagged.successes, self.flagged.n) > FALSE_ALARMS

    def add(self, order: Order, episode: Episode) -> bool:
        """Count an episode that was flagged; whether it ended for that."""
        if order.early_stop is None or episode.predicted_failure_at < 0:
            return False
        if episode.outcome == "aborted" and order.early_stop.armed:
            self.stopped += 1
            return True
        if not order.early_stop.armed and episode.outcome in JUDGED:
            self.flagged.add(episode.outcome == "success")
        return False


@dataclass(slots=True)
class StationHolds:
    """Stops and pauses of stations by operators, from all campaigns of the home, that no operator has resumed."""

    commands: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """(command, station or empty for all, operator), oldest first."""

    def accept(self, command: str, station: str, by: str) -> None:
        """Apply an accepted `stop`, `pause` or `resume`."""
        if command == "resume":
            self.commands = [held for held in self.commands if station and held[1] != station]
        self.commands = [held for held in self.commands if held[:2] != (command, station)]
        if self.commands or command != "resume":
            self.commands.append((command, station, by))

    def at(self, station: str) -> Mapping[str, str]:
        """The stops and pauses in force at a station: `stop` or `pause` -> the operator who commanded it."""
        found: dict[str, str] = {}
        for command, where, by in self.commands:
            if where in ("", station):
                if command == "resume":
                    found.clear()
                else:
                    found[command] = by
        return found


@dataclass(slots=True)
class CampaignState:
    """Everything that the steps decide on."""

    campaign_id: str = ""
    round: int = 0
    """Rounds of improvement begun; 0 while the base is made."""
    champion: str = ""
    champions: list[str] = field(default_factory=list[str])
    """Every version that was deployed, oldest first."""
    open: dict[str, Order] = field(default_factory=dict[str, Order])
    """Orders without an outcome, by id."""
    cut_off: dict[str, str] = field(default_factory=dict[str, str])
    """Orders that were open when a session ended against its will, and why it did."""
    ended: dict[str, OutcomeKind] = field(default_factory=dict[str, OutcomeKind])
    """How every other order ended, by id."""
    unknown: dict[str, Order] = field(default_factory=dict[str, Order])
    """Orders that ended as unknown: a station may still have their episodes."""
    outcomes: Counter[str] = field(default_factory=Counter[str])
    demonstrations: int = 0
    """Successful demonstrations so far."""
    data: list[DataRow] = field(default_factory=list[DataRow])
    """Demonstrations and data collection, oldest first."""
    fresh: int = 0
    """Judged episodes of data collection since the campaign's own recipe last began to learn."""
    base: Count = field(default_factory=Count)
    base_policy: str = ""
    base_issued: int = 0
    replaced: Counter[str] = field(default_factory=Counter[str])
    """Version -> interrupted trials of its measure or confirmation that were given again."""
    confirm_issued: Counter[str] = field(default_factory=Counter[str])
    """Version -> starts of its confirmations that were ordered; none is ever used twice."""
    base_measured: bool = False
    start_results: dict[int, Count] = field(default_factory=dict[int, Count])
    """Train start -> how the last policies did on it."""
    collected: dict[str, Count] = field(default_factory=dict[str, Count])
    """Version -> its collection on uniformly drawn train starts."""
    by_round: dict[int, Count] = field(default_factory=dict[int, Count])
    """Round -> its data collection."""
    early_stops: EarlyStops = field(default_factory=EarlyStops)
    trials: dict[str, Count] = field(default_factory=dict[str, Count])
    """Version -> its trials on hidden starts in gates, without those that came to no verdict (an operator's stop)."""
    hidden: dict[str, Count] = field(default_factory=dict[str, Count])
    """Version -> all its trials on hidden starts that came to a verdict: base measure, gates, confirmations."""
    training: Training | None = None
    failures_in_a_row: int = 0
    """Training runs of the campaign's own recipe that failed since the last that did not."""
    candidates: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """(version, round) waiting for a gate; the first of all is the base, which is deployed without one."""
    gate: OpenGate | None = None
    gates: int = 0
    promoted: int = 0
    confirmation: Confirmation | None = None
    confirmed: dict[str, bool] = field(default_factory=dict[str, bool])
    """Version -> whether its confirmation passed."""
    lease: int = 0
    """The highest fence token that was given."""
    wall_s: float = 0.0
    """Wall clock of the sessions before this one."""
    session_s: float = 0.0
    robot_s: float = 0.0
    robot_session_s: float = 0.0
    proposals: Proposals = field(default_factory=Proposals)
    """What agents proposed."""
    labels: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Order -> (the verifier's verdict, a person's later one)."""
    verifier: str = ""
    """Digest of the campaign's verifier; empty for a campaign of a version that recorded none."""
    paused: bool = False
    paused_why: str = ""
    """One sentence where the campaign paused itself."""
    wrong_accepted: int = 0
    """False successes that were known when a person last continued the campaign."""
    holds: StationHolds = field(default_factory=StationHolds)
    over: bool = False

    def issue(self, order: Order) -> None:
        """An order was written."""
        self.open[order.order_id] = order
        if order.purpose == "gate" and self.gate is not None and order.gate_id == self.gate.gate_id:
            self.gate.issued = max(self.gate.issued, order.pair + 1)
            self.gate.again = [one for one in self.gate.again if one != (order.pair, order.side)]
        elif order.purpose == "confirm":
            self.confirm_issued[order.policy_id] += 1
        elif order.purpose == "base":
            self.base_issued += 1

    def end(self, episode: Episode) -> None:
        """An order got its outcome."""
        order = self.open.pop(episode.order.order_id, episode.order)
        success = episode.outcome == "success"
        self.ended[order.order_id] = episode.outcome
        self.outcomes[episode.outcome] += 1
        if episode.outcome == "unknown":
            self.unknown[order.order_id] = order
        self._measure(order, episode)
        if order.purpose in {"demonstrate", "collect"}:
            self._gather(order, episode)
        elif order.purpose == "gate":
            self._trial(order, episode)
        elif never_began(episode.outcome, episode.cause) or reissued(episode, self.replaced):
            return
        elif order.purpose == "base":
            self.base.add(success)
        elif self.confirmation is not None and order.policy_id == self.confirmation.policy_id:
            self.confirmation.ended.add(success)

    def end_late(self, episode: Episode) -> None:
        """An order that had ended as unknown is known after all.

        Data gathers it. The base's measure and a confirmation are read once, when complete: until then it counts as
        what it is. A gate is read after every pair: what it counted as unknown stays a failure of that side.
        """
        order = self.unknown.pop(episode.order.order_id)
        self.ended[order.order_id] = episode.outcome
        self.outcomes["unknown"] -= 1
        self.outcomes[episode.outcome] += 1
        self._measure(order, episode)
        if order.purpose in {"demonstrate", "collect"}:
            self._gather(order, episode)
        elif order.purpose == "base" and not self.base_measured:
            self.base.correct(episode)
        elif order.purpose == "confirm" and self.confirmation and order.policy_id == self.confirmation.policy_id:
            self.confirmation.ended.correct(episode)

    def _measure(self, order: Order, episode: Episode) -> None:
        if order.purpose in HIDDEN and episode.outcome in JUDGED:
            self.hidden.setdefault(order.policy_id, Count()).add(episode.outcome == "success")

    def _gather(self, order: Order, episode: Episode) -> None:
        """Demonstrations and data collection."""
        if self.early_stops.add(order, episode):
            # Hopeless is not failed, so nobody learns from it; for a rate it would be a hole, so there it is a failure.
            self._count_start(order, False)
            self.by_round.setdefault(order.round, Count()).add(False)
        if episode.outcome not in JUDGED:
            return
        success = episode.outcome == "success"
        if episode.sha256:
            self.data.append(DataRow(order.order_id, episode.sha256, order.round, order.purpose, order.supervised))
        if order.purpose == "demonstrate":
            self.demonstrations += success
            return
        self.fresh += 1
        if not order.supervised:
            # A supervised success may be a person's: it says nothing about the version or the start.
            self._count_start(order, success)
        self.by_round.setdefault(order.round, Count()).add(success)

    def _count_start(self, order: Order, success: bool) -> None:
        count = self.start_results.setdefault(order.start.index, Count())
        if count.n >= 4:
            count.successes, count.n = count.successes // 2, count.n // 2
        count.add(success)
        if not order.start.index % 2:
            self.collected.setdefault(order.policy_id, Count()).add(success)

    def _trial(self, order: Order, episode: Episode) -> None:
        if self.gate is None or order.gate_id != self.gate.gate_id:
            return
        side: Side = "champion" if order.side == "champion" else "candidate"
        trial = Trial(pair=order.pair, side=side, outcome=episode.outcome, ticks=episode.ticks, cause=episode.cause)
        self.gate.trials.append(trial)
        if trial.released:
            self.gate.again.append((trial.pair, side))
        if episode.outcome in JUDGED:
            self.trials.setdefault(order.policy_id, Count()).add(episode.outcome == "success")
