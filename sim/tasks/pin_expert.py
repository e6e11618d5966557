"""The scripted experts of pin insertion: centre above the rim, descend, retract when jammed.

The clean expert is fast and careful. The demonstrating expert is as good as a tired person: every episode draws its own
speed, aim and hesitation, so that a policy cloned from it is slow and a learner has something to select.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from sim.tasks.pin_rig import FORCE, SPEED_MM_S, STATE, TIP

Column = npt.NDArray[np.float64]

LATERAL_MM_S = 18.0
HOVER_MM = 1.0
"""Height above the rim at which the pin waits until it is centred."""
DESCENT_MM_S = 10.0
JAM_N = 1.2
"""Contact force near the rim that means the pin stands on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How far the demonstrations stray from clean ones; every range is drawn uniformly once an episode."""

    speed: tuple[float, float] = (0.41, 0.81)
    """Factor on all speeds."""
    pause: tuple[float, float] = (0.047, 0.162)
    """Probability, per decision, that a pause begins."""
    pause_decisions: tuple[float, float] = (2.0, 8.0)
    """Mean length of a pause."""
    centred_mm: tuple[float, float] = (0.3, 1.5)
    """How far aside the pin may be when the descent into the hole begins: small is careful."""
    gain_per_s: tuple[float, float] = (2.0, 6.0)
    """How eagerly the pin is centred, on the last 2 mm."""
    aim_mm: float = 0.12
    """Standard deviation of a constant aiming error, per axis."""
    tremor_mm_s: float = 2.0
    """Standard deviation of the error of every commanded speed."""


CLEAN = Manner(
    speed=(1.0, 1.0), pause=(0.0, 0.0), centred_mm=(0.22, 0.22), gain_per_s=(9.0, 9.0), aim_mm=0.0, tremor_mm_s=0.0
)


@dataclass(slots=True)
class _Mood:
    """What one lane's episode drew."""

    rng: np.random.Generator
    speed: float
    pause: float
    resume: float
    centred_mm: float
    gain_per_s: float
    aim_mm: npt.NDArray[np.float64]
    pausing: bool = False


class PinExpert:
    """A policy over the sensed state alone. Its noise in a lane depends only on the seed given to `begin`."""

    horizon = 8
    execute = 4

    def __init__(self, seed: int, manner: Manner, period_s: float) -> None:
        """Demonstrate in a manner; `seed` keeps two experts apart that see the same episodes."""
        self._seed = seed
        self._manner = manner
        self._period_s = period_s
        self._moods: dict[int, _Mood] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed, aim and hesitation."""
        manner = self._manner
        rng = np.random.Generator(np.random.PCG64([self._seed, seed, 3]))
        self._moods[lane] = _Mood(
            rng=rng,
            speed=float(rng.uniform(*manner.speed)),
            pause=float(rng.uniform(*manner.pause)),
            resume=1.0 / float(rng.uniform(*manner.pause_decisions)),
            centred_mm=float(rng.uniform(*manner.centred_mm)),
            gain_per_s=float(rng.uniform(*manner.gain_per_s)),
            aim_mm=rng.normal(0.0, 1.0, 2) * manner.aim_mm,
        )

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named, (len(lanes), 8, 3) in mm/s.

        Raises:
            PolicyProblem: the state has another width than the pin tasks have.
        """
        if observation.state.shape != (len(lanes), len(STATE)):
            raise PolicyProblem(
                f"The pin expert needs a state of shape ({len(lanes)}, {len(STATE)}), not {observation.state.shape}."
            )
        moods = [self._mood(int(lane)) for lane in lanes]
        state = observation.state.astype(np.float64)
        chunk = self._plan(state, moods)
        for row, mood in enumerate(moods):
            self._stray(mood, chunk[row])
        return np.clip(chunk, -SPEED_MM_S, SPEED_MM_S).astype(np.float32)

    def _mood(self, lane: int) -> _Mood:
        if lane not in self._moods:
            self.begin(lane, 0)
        return self._moods[lane]

    def _plan(self, state: npt.NDArray[np.float64], moods: list[_Mood]) -> FloatArray:
        """Roll the intended motion forward over the chunk, as if the arm followed exactly."""
        speed = np.array([mood.speed for mood in moods])
        gain = np.array([mood.gain_per_s for mood in moods])
        centred = np.array([mood.centred_mm for mood in moods])
        aim = np.array([mood.aim_mm for mood in moods]).reshape(-1, 2)
        x, y, z = (state[:, TIP][:, axis].copy() for axis in range(3))
        x -= aim[:, 0]
        y -= aim[:, 1]
        jammed = (z > -1.0) & (z < 0.6) & (state[:, FORCE][:, 2] > JAM_N)
        chunk = np.empty((len(state), self.horizon, 3), dtype=np.float32)
        for tick in range(self.horizon):
            aside = np.hypot(x, y)
            inside = z < -0.6
            # Slowing down along the line keeps the path straight where the speed limit binds.
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
        """Down to the hover height at once, further only on `go`; up when jammed."""
        to_hover = np.clip(8.0 * (HOVER_MM - z), -SPEED_MM_S, 6.0)
        down = np.where(go, np.minimum(-DESCENT_MM_S, to_hover), to_hover)
        return np.where(jammed & (z < HOVER_MM), 10.0, down)

    def _stray(self, mood: _Mood, chunk: FloatArray) -> None:
        """Hesitate and tremble, in place; draws the same number of random values whatever happens."""
        luck = mood.rng.random()
        tremor = mood.rng.normal(0.0, 1.0, (1, 3)) * self._manner.tremor_mm_s
        mood.pausing = luck >= mood.resume if mood.pausing else luck < mood.pause
        if mood.pausing:
            chunk[:] = 0.0
        chunk += (0.3 * tremor if mood.pausing else tremor).astype(np.float32)
