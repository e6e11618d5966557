"""Trials and pairs of a gate, and the counts that a decision reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from enpire.errors import UsageError
from enpire.gate.rule import LEAST_GAIN
from enpire.gate.speed import SpeedEvidence
from enpire.types import Episode, Order, OutcomeKind, Purpose, Start, never_began

Side = Literal["champion", "candidate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How one side of one pair ended."""

    pair: int
    side: Side
    outcome: OutcomeKind
    ticks: int
    """Commanded periods until the end."""
    cause: str = ""

    @property
    def released(self) -> bool:
        """Whether the order was released before it began. Only such a trial counts for neither side: it is reissued."""
        return never_began(self.outcome, self.cause)


PROCESS_ENDED = "the station's process ended"
SESSION_ENDED = f"{PROCESS_ENDED} with the campaign's session"
STATION_LEFT = "the station left"
DISK_FULL = "disk: there was no space for the campaign's records"
NOTHING_OPENS = "descriptors: the campaign could open nothing more"
"""Causes of trials that ended because their whole station was interrupted."""
REPLACED = 200
"""Most interrupted trials that one base measurement or one confirmation reissues; further ones count as failures."""
STATION_ENDS = 3
"""Most processes of stations that may end while they run one version, before its interrupted trials are failures."""
STATION_TRIALS = 16
"""Most trials of one version that are reissued because a station's process ended alone: one station of 16 robots."""


def interrupted(outcome: OutcomeKind, cause: str) -> bool:
    """Whether a trial ended because its station's process or the campaign's session ended.

    The base measurement and a confirmation reissue such a trial from the same start. A gate does not, because
    interruptions affect both sides alike. An operator's stop is not an interruption: operators stop rollouts that go
    wrong.
    """
    return outcome == "aborted" and cause.startswith((PROCESS_ENDED, DISK_FULL, NOTHING_OPENS, STATION_LEFT))


@dataclass(slots=True)
class Reissues:
    """Interrupted trials of base measurements and confirmations: which are reissued, and from which starts.

    A version that ends its station's process must not lose the failures that it would have had there. So its trials are
    reissued from the same start. After STATION_ENDS processes of stations ended while they ran a version, or after
    STATION_TRIALS trials that were reissued for that reason, further ones are failures. In campaigns with version 2 of
    the gate's rule they are reissued from another start, and STATION_ENDS alone limits them. In those with version 1
    only REPLACED does.
    """

    rule_version: int = 4
    trials: Counter[str] = field(default_factory=Counter[str])
    """Version -> number of its reissued trials."""
    ends: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """Version -> leases of the processes of stations that ended, or left, while they ran it."""
    station_trials: Counter[str] = field(default_factory=Counter[str])
    """Version -> number of its trials that were reissued because a station's process ended alone."""
    waiting: dict[tuple[Purpose, str], list[Start]] = field(default_factory=dict[tuple[Purpose, str], list[Start]])
    """(purpose, version) -> starts of trials that are to be reissued, oldest first."""

    def returns(self, episode: Episode) -> bool:
        """Whether this trial counts for nothing: it never began, or was interrupted. Then its start waits."""
        if not (never_began(episode.outcome, episode.cause) or self.accept(episode)):
            return False
        self.put_back(episode.order)
        return True

    def put_back(self, order: Order) -> None:
        """Let the start of a trial that does not count wait until it is reissued."""
        if self.rule_version > 2:
            self.waiting.setdefault((order.purpose, order.policy_id), []).append(order.start)

    def reissued(self, order: Order) -> bool:
        """Whether an issued order has a start that waited; it waits no longer."""
        starts = self.waiting.get((order.purpose, order.policy_id), [])
        if order.start not in starts:
            return False
        starts.remove(order.start)
        return True

    def accept(self, episode: Episode) -> bool:
        """Whether this trial was interrupted and is reissued; counts it."""
        version = episode.order.policy_id
        if not interrupted(episode.outcome, episode.cause) or self.trials[version] >= REPLACED:
            return False
        if self.rule_version > 1 and _station_alone_ended(episode.cause):
            leases = self.ends.setdefault(version, set())
            if episode.order.lease not in leases and len(leases) >= STATION_ENDS:
                return False
            if self.rule_version > 2 and self.station_trials[version] >= STATION_TRIALS:
                return False
            leases.add(episode.order.lease)
            self.station_trials[version] += 1
        self.trials[version] += 1
        return True


def _station_alone_ended(cause: str) -> bool:
    return cause.startswith((PROCESS_ENDED, STATION_LEFT)) and not cause.startswith(SESSION_ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both sides from one hidden start."""

    index: int
    champion: Trial
    candidate: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of finished pairs. Every outcome that is not a success counts as a failure of its side."""

    wins: int = 0
    """The candidate succeeds, the champion fails."""
    losses: int = 0
    """The champion succeeds, the candidate fails."""
    both: int = 0
    neither: int = 0
    faster: int = 0
    """Pairs of `both` in which the candidate needed fewer ticks."""
    slower: int = 0
    """Pairs of `both` in which the candidate needed more ticks."""
    champion_unsafe: int = 0
    candidate_unsafe: int = 0
    champion_only_unsafe: int = 0
    """Pairs in which only the champion was unsafe."""
    candidate_only_unsafe: int = 0
    """Pairs in which only the candidate was unsafe."""
    speed: SpeedEvidence = field(default_factory=SpeedEvidence)

    @property
    def pairs(self) -> int:
        """Finished pairs."""
        return self.wins + self.losses + self.both + self.neither

    def add(self, pair: Pair, least_gain: float = LEAST_GAIN) -> Tally:
        """The tally with one more pair; `least_gain` is the rule's."""
        champion, candidate = pair.champion, pair.candidate
        won, kept = candidate.outcome == "success", champion.outcome == "success"
        harmed, harmed_before = candidate.outcome == "unsafe", champion.outcome == "unsafe"
        speed = self.speed.add(champion.ticks, candidate.ticks, least_gain) if won and kept else self.speed
        return Tally(
            wins=self.wins + (won and not kept),
            losses=self.losses + (kept and not won),
            both=self.both + (won and kept),
            neither=self.neither + (not won and not kept),
            faster=self.faster + (won and kept and candidate.ticks < champion.ticks),
            slower=self.slower + (won and kept and candidate.ticks > champion.ticks),
            champion_unsafe=self.champion_unsafe + harmed_before,
            candidate_unsafe=self.candidate_unsafe + harmed,
            champion_only_unsafe=self.champion_only_unsafe + (harmed_before and not harmed),
            candidate_only_unsafe=self.candidate_only_unsafe + (harmed and not harmed_before),
            speed=speed,
        )


@dataclass(slots=True)
class FinishedPairs:
    """The finished pairs of growing trials, in the order of their numbers, up to the first unfinished one.

    Pairs are not read in the order in which they finish: slow failures finish late, so an early reading would miss
    them. For the same reason no pair is left out. A released side is waited for until it was reissued and ran;
    otherwise a version that makes robots stop would lose only the pairs in which it did so.
    """

    pairs: list[Pair] = field(default_factory=list[Pair])
    _sides: dict[int, dict[Side, Trial]] = field(default_factory=dict[int, dict[Side, Trial]])
    """Pair -> the trials of its sides that count, of all pairs."""

    def add(self, trial: Trial) -> None:
        """Add a trial that ended.

        Raises:
            UsageError: the side of the pair has a trial that counts already.
        """
        if trial.released:
            return
        sides = self._sides.setdefault(trial.pair, {})
        if trial.side in sides:
            raise UsageError(f"Pair {trial.pair} has two {trial.side} trials; each side has one trial.")
        sides[trial.side] = trial
        while len(both := self._sides.get(len(self.pairs), {})) == 2:
            self.pairs.append(Pair(index=len(self.pairs), champion=both["champion"], candidate=both["candidate"]))


def pairs_in_order(trials: Iterable[Trial]) -> tuple[Pair, ...]:
    """The `FinishedPairs` of some trials."""
    finished = FinishedPairs()
    for trial in trials:
        finished.add(trial)
    return tuple(finished.pairs)
