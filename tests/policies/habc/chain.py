"""A chain of states with known answers: 0 ... N - 1, goal N, an absorbing failure.

Each decision is good (one state on), slow (stays) or bad (fails), with fixed probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.habc.segments import Part, Windows

GOOD, SLOW, BAD = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The chain's length and the behaviour on it."""

    states: int = 8
    good: float = 0.55
    slow: float = 0.37
    bad: float = 0.08

    def viability(self) -> np.ndarray:
        """p_v of every state: rho ** (N - i), rho = good / (good + bad)."""
        rho = self.good / (self.good + self.bad)
        return rho ** (self.states - np.arange(self.states))

    def efficiency(self) -> np.ndarray:
        """V_e of every state: 1 - (N - i) / (1 - slow)."""
        return 1 - (self.states - np.arange(self.states)) / (1 - self.slow)

    def windows(self, episodes: int, seed: int) -> tuple[Windows, np.ndarray]:
        """One-step windows of simulated episodes from every state alike, and the action of each (N,)."""
        random = np.random.default_rng(seed)
        rows: list[tuple[np.ndarray, ...]] = []
        where, alive = np.arange(episodes) % self.states, np.arange(episodes)
        success = np.zeros(episodes, np.bool_)
        while len(alive):
            action = random.choice(3, size=len(alive), p=(self.good, self.slow, self.bad))
            here = where[alive].copy()
            where[alive] += action == GOOD
            rows.append((alive.copy(), here, where[alive].copy(), action))
            success[alive[where[alive] == self.states]] = True
            alive = alive[(action != BAD) & (where[alive] < self.states)]
        episode, here, later, action = (np.concatenate(part) for part in zip(*rows, strict=True))
        length = np.bincount(episode, minlength=episodes)[episode]
        ends = (later == self.states) | (action == BAD)
        places = np.eye(self.states + 1, dtype=np.float32)
        windows = Windows(
            state=places[here],
            next_state=places[later],
            cost=np.where(ends, 0, 1).astype(np.float32),
            ends=ends,
            label_state=places[later],
            label_ends=ends,
            chunk=np.zeros((len(here), 1, 1), np.float32),
            mask=np.ones((len(here), 1), np.float32),
            part=np.full(len(here), int(Part.AUTONOMOUS)),
            success=success[episode],
            episode=episode,
            round=np.ones(len(here), np.int64),
            tick=np.zeros(len(here), np.int64),
            length=length,
            supervised=np.zeros(len(here), np.bool_),
            rollout_weight=np.ones(len(here), np.float32),
        )
        return windows, action
