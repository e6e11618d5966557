"""The scripted experts of pin insertion: centre above the rim, descend, retract when jammed.

The clean expert is fast and accurate. The demonstrating expert draws speed, aim and pauses in every episode. A policy
cloned from it is slow, so that a learner can improve it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from sim.behaviour import BehaviourParameters, EpisodeBehaviour, draw_behaviour
from sim.tasks.pin_rig import FORCE, SPEED_MM_S, STATE, TIP

Column = npt.NDArray[np.float64]

LATERAL_MM_S = 18.0
HOVER_MM = 1.0
"""Height above the rim at which the pin waits until it is centred."""
DESCENT_MM_S = 10.0
JAM_N = 1.2
"""Contact force near the rim from which the pin counts as jammed on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinBehaviour(BehaviourParameters):
    """Behaviour parameters of the pin expert; as they stand: the clean expert."""

    centred_mm: tuple[float, float] = (0.22, 0.22)
    """Largest distance from the hole's axis at which the descent begins; small is careful. Drawn once per episode."""
    gain_per_s: tuple[float, float] = (9.0, 9.0)
    """Proportional gain of centring on the last 2 mm; drawn once per episode."""
    aim_mm: float = 0.0
    """Standard deviation of a constant aiming error, per axis."""
    tremor_mm_s: float = 0.0
    """Standard deviation of the error of every commanded speed, drawn for each decision."""


CLEAN = PinBehaviour()
VARIED = PinBehaviour(
    speed=(0.41, 0.81), pause=(0.047, 0.162), pause_decisions=(2.0, 8.0), centred_mm=(0.3, 1.5), gain_per_s=(2.0, 6.0),
    aim_mm=0.12, tremor_mm_s=2.0,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Episode(EpisodeBehaviour):
    """The behaviour that one lane's episode drew."""

    centred_mm: float
    gain_per_s: float
    aim_mm: npt.NDArray[np.float64]
    """(2,)."""


class PinExpert:
    """A policy over the sensed state alone. Its noise in a lane depends only on the seed given to `begin`."""

    horizon = 8
    execute = 4

    def __init__(self, seed: int, behaviour: PinBehaviour, period_s: float) -> None:
        """Demonstrate; `seed` makes two experts differ that get the same episodes."""
        self._seed = seed
        self._behaviour = behaviour
        self._period_s = period_s
        self._episodes: dict[int, _Episode] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed, pauses, care and aim."""
        parameters = self._behaviour
        rng = np.random.Generator(np.random.PCG64([self._seed, seed, 3]))
        drawn = draw_behaviour(parameters, rng)
        self._episodes[lane] = _Episode(
            rng=rng, speed=drawn.speed, pause=drawn.pause, resume=drawn.resume,
            centred_mm=float(rng.uniform(*parameters.centred_mm)),
            gain_per_s=float(rng.uniform(*parameters.gain_per_s)),
            aim_mm=rng.normal(0.0, 1.0, 2) * parameters.aim_mm,
        )  # fmt: skip

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 8, 3) float32 in mm/s, for states (len(lanes), 12).

        Raises:
            PolicyProblem: the state has another width than the pin tasks have.
        """
        if observation.state.shape != (len(lanes), len(STATE)):
            raise PolicyProblem(
                f"The pin expert needs a state of shape ({len(lanes)}, {len(STATE)}), not {observation.state.shape}."
            )
        episodes = [self._episode(int(lane)) for lane in lanes]
        state = observation.state.astype(np.float64)
        chunk = self._plan(state, episodes)
        for row, episode in enumerate(episodes):
            self._stray(episode, chunk[row])
        return np.clip(chunk, -SPEED_MM_S, SPEED_MM_S).astype(np.float32)

    def _episode(self, lane: int) -> _Episode:
        if lane not in self._episodes:
            self.begin(lane, 0)
        return self._episodes[lane]

    def _plan(self, state: npt.NDArray[np.float64], episodes: list[_Episode]) -> FloatArray:
        """The chunk (n, 8, 3) in mm/s, predicted as if the arm followed exactly."""
        speed = np.array([one.speed for one in episodes])
        gain = np.array([one.gain_per_s for one in episodes])
        centred = np.array([one.centred_mm for one in episodes])
        aim = np.array([one.aim_mm for one in episodes]).reshape(-1, 2)
        x, y, z = (state[:, TIP][:, axis].copy() for axis in range(3))
        x -= aim[:, 0]
        y -= aim[:, 1]
        jammed = (z > -1.0) & (z < 0.6) & (state[:, FORCE][:, 2] > JAM_N)
        chunk = np.empty((len(state), self.horizon, 3), dtype=np.float32)
        for tick in range(self.horizon):
            aside = np.hypot(x, y)
            inside = z < -0.6
            # Slowing down along the line keeps the path straight at the speed limit.
            lateral = np.minimum(gain, LATERAL_MM_S / np.maximum(aside, 1e-9)) * np.where(inside, 0.4, 1.0)
            chunk[:, tick, 0] = -speed * lateral * x
            chunk[:, tick, 1] = -speed * lateral * y
            chunk[:, tick, 2] = speed * self._vertical(z, inside | (aside < centred), jammed)
            x += chunk[:, tick, 0] * self._period_s
            y += chunk[:, tick, 1] * self._period_s
            z += chunk[:, tick, 2] * self._period_s
        return chunk

    @staticmethod
    def _vertical(z: Column, go: npt.NDArray[np.bool_], jammed: npt.NDArray[np.bool_]) -> Column:
        """Vertical speed (n,) in mm/s: down to the hover height, further only on `go`; up when jammed."""
        to_hover = np.clip(8.0 * (HOVER_MM - z), -SPEED_MM_S, 6.0)
        down = np.where(go, np.minimum(-DESCENT_MM_S, to_hover), to_hover)
        return np.where(jammed & (z < HOVER_MM), 10.0, down)

    def _stray(self, episode: _Episode, chunk: FloatArray) -> None:
        """Pause and tremble: changes the chunk (8, 3) in place; always draws 4 random numbers."""
        pauses = episode.pauses()
        tremor = episode.rng.normal(0.0, 1.0, (1, 3)) * self._behaviour.tremor_mm_s
        if pauses:
            chunk[:] = 0.0
        chunk += (0.3 * tremor if pauses else tremor).astype(np.float32)
