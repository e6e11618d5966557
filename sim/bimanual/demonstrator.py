"""What scripted experts of bimanual tasks share: two hands a lane, and a manner in which they hurry and hesitate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation, TaskSpec
from sim.bimanual.hands import Hand, Hands
from sim.bimanual.kinematics import JOINTS, Rows
from sim.bimanual.rig import ACTION, JOINT_RAD_S, SIDE_ACTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How far demonstrations stray from clean ones; every range is drawn uniformly once an episode."""

    speed: tuple[float, float] = (1.0, 1.0)
    """Factor on all speeds of the arms."""
    pause: tuple[float, float] = (0.0, 0.0)
    """Probability, per decision, that a pause begins."""
    pause_decisions: tuple[float, float] = (2.0, 15.0)
    loose: tuple[float, float] = (1.0, 1.0)
    """Factor on the errors that are still called aligned: 1 is careful."""
    aim_m: float = 0.0
    """Standard deviation of a constant aiming error, per axis."""
    tremor_rad_s: float = 0.0
    """Standard deviation of the error of every joint's speed."""


@dataclass(slots=True)
class Mood:
    """What one lane's episode drew."""

    rng: np.random.Generator
    speed: float
    pause: float
    resume: float
    loose: float
    aim_m: Rows
    """(3,)."""
    pausing: bool = False


class Demonstrator(ABC):
    """A policy that decides for each lane in turn. Its noise in a lane depends only on the seed given to `begin`."""

    horizon = 4
    execute = 2

    def __init__(self, spec: TaskSpec, seed: int, manner: Manner) -> None:
        """Demonstrate in a manner; `seed` keeps two experts apart that see the same episodes."""
        self._spec, self._seed, self._manner = spec, seed, manner
        self._moods: dict[int, Mood] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed, aim and hesitation."""
        manner = self._manner
        rng = np.random.Generator(np.random.PCG64([self._seed, seed, 37]))
        self._moods[lane] = Mood(
            rng=rng,
            speed=float(rng.uniform(*manner.speed)),
            pause=float(rng.uniform(*manner.pause)),
            resume=1.0 / float(rng.uniform(*manner.pause_decisions)),
            loose=float(rng.uniform(*manner.loose)),
            aim_m=rng.normal(0.0, 1.0, 3) * manner.aim_m,
        )

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named, (len(lanes), 4, 14).

        Raises:
            PolicyProblem: the state has another width than the task has.
        """
        wanted = (len(lanes), self._spec.state_dim)
        if observation.state.shape != wanted:
            raise PolicyProblem(
                f"The expert of {self._spec.name} needs a state of shape {wanted}, not {observation.state.shape}."
            )
        chunk = np.zeros((len(lanes), self.horizon, len(ACTION)), dtype=np.float32)
        if not len(lanes):
            return chunk
        state = observation.state.astype(np.float64)
        hands = Hands(state)
        moods = [self._mood(int(lane)) for lane in lanes]
        for row, mood in enumerate(moods):
            self._decide(mood, state[row], hands.of(row, "left"), hands.of(row, "right"))
        commands = hands.commands()
        for row, mood in enumerate(moods):
            chunk[row] = self._strayed(mood, commands[row])
        return chunk

    def _mood(self, lane: int) -> Mood:
        if lane not in self._moods:
            self.begin(lane, 0)
        return self._moods[lane]

    @abstractmethod
    def _decide(self, mood: Mood, state: Rows, left: Hand, right: Hand) -> None:
        """Say what both hands of one lane shall do; state (state_dim,)."""

    def _strayed(self, mood: Mood, command: FloatArray) -> FloatArray:
        """Hurry, hesitate and tremble; draws the same number of random values whatever happens."""
        luck = mood.rng.random()
        arms = np.arange(len(command)) % SIDE_ACTION < JOINTS
        tremor = np.where(arms, mood.rng.normal(0.0, 1.0, len(command)) * self._manner.tremor_rad_s, 0.0)
        mood.pausing = luck >= mood.resume if mood.pausing else luck < mood.pause
        paced = np.where(arms, mood.speed, 1.0) * command * (not mood.pausing) + tremor
        return np.where(arms, np.clip(paced, -JOINT_RAD_S, JOINT_RAD_S), paced).astype(np.float32)
