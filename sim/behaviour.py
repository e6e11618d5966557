"""Behaviour parameters of scripted experts: how fast an expert moves in an episode, and when it pauses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourParameters:
    """Ranges from which each episode draws uniformly; as they stand: full speed, no pause."""

    speed: tuple[float, float] = (1.0, 1.0)
    """Factor on all speeds."""
    pause: tuple[float, float] = (0.0, 0.0)
    """Probability, per decision, that a pause begins."""
    pause_decisions: tuple[float, float] = (2.0, 15.0)
    """Mean length of a pause, in decisions."""


@dataclass(slots=True, kw_only=True)
class EpisodeBehaviour:
    """The behaviour that one lane's episode drew, and whether the expert pauses now."""

    rng: np.random.Generator
    speed: float
    pause: float
    resume: float
    """Probability, per decision, that a pause ends."""
    pausing: bool = False

    def pauses(self) -> bool:
        """Draw whether the expert pauses in this decision; one random number, whatever comes out."""
        drawn = self.rng.random()
        self.pausing = drawn >= self.resume if self.pausing else drawn < self.pause
        return self.pausing


def draw_behaviour(parameters: BehaviourParameters, rng: np.random.Generator) -> EpisodeBehaviour:
    """Draw speed, pause and length of pauses, in this order; `rng` stays with the episode."""
    return EpisodeBehaviour(
        rng=rng,
        speed=float(rng.uniform(*parameters.speed)),
        pause=float(rng.uniform(*parameters.pause)),
        resume=1.0 / float(rng.uniform(*parameters.pause_decisions)),
    )
