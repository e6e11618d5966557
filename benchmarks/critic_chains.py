"""Markov chains of random size with exact values of p_v and V_e, and campaigns of rollouts on them.

States 0 ... N - 1, the goal N, and a state from which the policy always fails. A decision is good (one state on), slow
(stays) or bad (the policy slips and stays some decisions in the failing state until the episode ends). A new version of
the policy in each round is better and faster. An operator of supervised episodes takes over when the policy has slipped
or is in a bad state, and finishes or hands back in a state where the policy does well.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from enpire.campaign.campaign import Campaign, Rounds
from enpire.campaign.state import CampaignState
from enpire.scheduling.scheduler import FreeStation, Scheduler
from enpire.types import (
    JUDGED,
    SOURCE_HUMAN,
    SOURCE_POLICY,
    Episode,
    EpisodeArrays,
    FloatArray,
    Order,
    OutcomeKind,
    Split,
    Start,
)
from policies.training_data import RecordedEpisode, rollout_weight

ENDS = 0.35
"""Probability that an episode ends at a decision in the failing state."""
LOOKS = 2
"""Low predictions in a row that predict a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Exact values under the policy of one round, of the N states and then the failing state."""

    viability: FloatArray
    """(N + 1,), p_v."""
    efficiency: FloatArray
    """(N,), V_e, in decisions."""
    visits: FloatArray
    """(N + 1,), expected visits in an unsupervised rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain, the policy's versions on it, and its operator."""

    good: FloatArray
    """(rounds, N), probability of a good decision; the first row is round 1."""
    bad: FloatArray
    """(rounds, N)."""
    notices: float
    """Probability that the operator takes over at a decision in the failing state."""
    cautious: float
    """The same, in a state with p_v below one half."""
    holds: int
    """Least number of commands before the operator hands back."""

    @classmethod
    def drawn(cls, seed: int, rounds: int) -> Chain:
        """A chain of 4 to 12 states from which the first version succeeds in 15 to 60 %."""
        draw = np.random.default_rng((seed, 5))
        states = int(draw.integers(4, 13))
        hazard = -np.log(draw.uniform(0.15, 0.6)) * draw.dirichlet(np.full(states, 1.5))
        odds = draw.uniform(0.1, 3.0, states)
        safer, faster = draw.uniform(0.5, 0.9), draw.uniform(0.6, 1.0)
        stays = [odds * faster**index / (1 + odds * faster**index) for index in range(rounds)]
        slips = [1 - np.exp(-hazard * safer**index) for index in range(rounds)]
        return cls(
            good=np.array([(1 - stay) * (1 - slip) for stay, slip in zip(stays, slips, strict=True)]),
            bad=np.array([(1 - stay) * slip for stay, slip in zip(stays, slips, strict=True)]),
            notices=float(draw.uniform(0.3, 0.9)),
            cautious=float(draw.uniform(0.0, 0.05)),
            holds=int(draw.integers(1, 4)),
        )

    @property
    def states(self) -> int:
        """N."""
        return self.good.shape[1]

    def exact(self, round_: int) -> Exact:
        """The exact values in a round, from 1."""
        good, bad, states = self.good[round_ - 1], self.bad[round_ - 1], self.states
        viability = np.cumprod((good / (good + bad))[::-1])[::-1]
        # Given success, a decision is good or slow, and slow as often as without this condition.
        efficiency = 1 - np.cumsum((1 / (good + bad))[::-1])[::-1]
        visits, arriving = np.zeros(states + 1), np.zeros(states + 1)
        arriving[: self.starts] = 1 / self.starts
        for state in range(states):
            visits[state] = arriving[state] / (good[state] + bad[state])
            arriving[state + 1] += visits[state] * good[state]
        visits[states] = (visits[:states] * bad).sum() / ENDS
        return Exact(viability=np.append(viability, 0.0), efficiency=efficiency, visits=np.asarray(visits, np.float32))

    @property
    def starts(self) -> int:
        """Rollouts begin in one of so many first states."""
        return (self.states + 1) // 2

    def observed(self, states: list[int]) -> FloatArray:
        """One number for each state that is 1 there: (len(states), N + 2) float32. State N + 1 is the failing state."""
        return np.eye(self.states + 2, dtype=np.float32)[states]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How the rollouts of a campaign are collected."""

    name: str
    supervised: float = 0.0
    early_stop: float = 0.0


@dataclass(slots=True)
class Collection:
    """The data collection of one campaign on a chain. The product's scheduler draws supervision and early stops."""

    chain: Chain
    condition: Condition
    episodes: int
    seed: int
    kept: list[RecordedEpisode] = field(default_factory=list[RecordedEpisode])
    """With those that were stopped early."""
    state: CampaignState = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is collected yet. The champion has had its confirmation, so no robot measures it."""
        version = "p" * 64
        self.state = CampaignState(
            campaign_id="chains", champion=version, base_measured=True, confirmed={version: False}
        )

    def collect(self, round_: int, predicted: FloatArray | None) -> None:
        """Roll the round's version out until enough rollouts have a verdict.

        `predicted`: (N + 2,), the version's p_v of every state, or None if it has none.
        """
        rounds = Rounds(
            episodes=self.episodes, hard_starts=0.0, supervised=self.condition.supervised,
            early_stop=self.condition.early_stop,
        )  # fmt: skip
        draw = random.Random(f"{self.seed} {self.condition.name} {round_}")
        scheduler = Scheduler(Campaign(name="chains", task="chain", recipe="r", rounds=rounds), _start, draw)
        self.state.round, judged = round_, 0
        while judged < self.episodes:
            (order,) = scheduler.next_orders(self.state, FreeStation("chain", 1, 1))
            episode = _Rollout(self.chain, order, draw, predicted).run()
            self.state.early_stops.add(order, episode)
            judged += episode.outcome in JUDGED
            if episode.arrays is not None:
                self.kept.append(
                    RecordedEpisode(
                        order_id=order.order_id, round=round_, success=episode.outcome == "success",
                        supervised=order.supervised, arrays=episode.arrays, rollout_weight=rollout_weight(episode),
                        stopped=episode.stopped_early,
                    )
                )  # fmt: skip


def _start(split: Split, index: int, scope: str = "") -> Start:
    return Start(split=split, index=index, values=(), seed=index)


class _Rollout:
    """One rollout."""

    def __init__(self, chain: Chain, order: Order, draw: random.Random, predicted: FloatArray | None) -> None:
        self._chain, self._order, self._draw, self._predicted = chain, order, draw, predicted
        self._good, self._bad = chain.good[order.round - 1].tolist(), chain.bad[order.round - 1].tolist()
        self._viability = chain.exact(order.round).viability
        self._finishes = draw.random() < 0.5
        self._low = self._held = 0
        self._human = False
        self._before = 0
        """The state before the policy slipped."""

    def run(self) -> Episode:
        """Roll out to the end."""
        goal, failing = self._chain.states, self._chain.states + 1
        states, sources, flagged = [self._draw.randrange(self._chain.starts)], list[int](), -1
        outcome: OutcomeKind = "failure"
        while states[-1] != goal:
            here = states[-1]
            if flagged < 0 and self._predicts_failure(here):
                flagged = len(sources)
                if self._order.early_stop is not None and self._order.early_stop.armed:
                    outcome = "aborted"
                    break
            if here == failing and not self._human and self._draw.random() < ENDS:
                # The last decision of a failure.
                sources.append(SOURCE_POLICY)
                states.append(failing)
                break
            self._change_control(here)
            sources.append(SOURCE_HUMAN if self._human else SOURCE_POLICY)
            states.append(self._next(here))
        outcome = "success" if states[-1] == goal else outcome
        ticks = len(sources)
        arrays = EpisodeArrays(
            state=self._chain.observed(states), action=np.zeros((ticks, 1), np.float32),
            source=np.array(sources, np.uint8), chunk=np.arange(ticks, dtype=np.int32),
        ) if ticks else None  # fmt: skip
        return Episode(
            order=self._order, outcome=outcome, cause="", confidence=1.0, ran_policy_id=self._order.policy_id,
            ticks=ticks, began_s=0.0, ended_s=float(ticks), predicted_failure_at=flagged, arrays=arrays,
        )  # fmt: skip

    def _predicts_failure(self, here: int) -> bool:
        rule = self._order.early_stop
        if rule is None or self._predicted is None:
            return False
        self._low = self._low + 1 if self._predicted[here] < rule.below else 0
        return self._low >= LOOKS

    def _change_control(self, here: int) -> None:
        """The operator takes over or hands back."""
        if not self._order.supervised:
            return
        chain, failing = self._chain, self._chain.states + 1
        p_v = 0.0 if here == failing else self._viability[here]
        if self._human:
            self._human = self._finishes or self._held < chain.holds or p_v < 0.6
        elif here == failing or p_v < 0.5:
            self._human = self._draw.random() < (chain.notices if here == failing else chain.cautious)
            self._held = 0

    def _next(self, here: int) -> int:
        """The state after this decision."""
        failing = self._chain.states + 1
        if self._human:
            self._held += 1
            return self._before if here == failing else here + 1
        if here == failing:
            return failing
        drawn = self._draw.random()
        if drawn < self._bad[here]:
            self._before = here
            return failing
        return here + (drawn < self._bad[here] + self._good[here])
