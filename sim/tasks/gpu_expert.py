"""The scripted experts of GPU insertion: align the card over the slot, go down, press it home, lift it when jammed.

The demonstrating expert draws its own speed, aim and hesitation in every episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from sim.bimanual.kinematics import Rows, from_angles, rotation_between
from sim.bimanual.rig import ACTION, JOINT_RAD_S, commands_of, force_of
from sim.bimanual.servo import reach_of, shortened, speeds_for
from sim.tasks.gpu_rig import ANGLES, CARD, STATE
from sim.tasks.gpu_scene import SLOT_M

HOVER_MM = 1.5
"""Height of the lower edge over the rim at which the card waits until it is aligned."""
PRESS_MM = 1.5
"""How far below the floor the card is aimed: what presses it home."""
JAM_N = 9.0
"""Force from below near the rim that means the card stands on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How far the demonstrations stray from clean ones; every range is drawn uniformly once an episode."""

    speed: tuple[float, float] = (0.25, 0.7)
    """Factor on all speeds."""
    pause: tuple[float, float] = (0.06, 0.2)
    """Probability, per decision, that a pause begins."""
    pause_decisions: tuple[float, float] = (2.0, 8.0)
    aligned: tuple[float, float] = (1.0, 4.5)
    """Factor on the misalignment at which the descent begins: 1 is careful."""
    aim_mm: float = 0.15
    """Standard deviation of a constant aiming error, per axis."""
    aim_yaw_rad: float = 0.004
    tremor_rad_s: float = 0.01
    """Standard deviation of the error of every joint's speed."""


CLEAN = Manner(
    speed=(1.0, 1.0), pause=(0.0, 0.0), aligned=(1.0, 1.0), aim_mm=0.0, aim_yaw_rad=0.0, tremor_rad_s=0.0
)  # fmt: skip


@dataclass(slots=True)
class _Mood:
    """What one lane's episode drew."""

    rng: np.random.Generator
    speed: float
    pause: float
    resume: float
    aligned: float
    aim: Rows
    pausing: bool = False


def card_twist(state: Rows, goal: Rows, gain_per_s: float, speed_m_s: Rows | float) -> Rows:
    """The twist (n, 6) of the card from its sensed pose towards a goal (n, 6; mm and rad)."""
    velocity = shortened(1e-3 * gain_per_s * (goal[:, :3] - state[:, CARD]), speed_m_s)
    turned = rotation_between(from_angles(state[:, ANGLES]), from_angles(goal[:, 3:]))
    return np.concatenate([velocity, shortened(gain_per_s * turned, 0.8)], axis=1)


def carry(state: Rows, twist: Rows) -> Rows:
    """Joint speeds (n, 6) of the right arm for a twist of the card that it holds."""
    now = reach_of("right", state.astype(np.float32))
    return speeds_for(now, twist, np.array(SLOT_M) + 1e-3 * state[:, CARD])


class GpuExpert:
    """A policy over the sensed state alone. Its noise in a lane depends only on the seed given to `begin`."""

    horizon = 4
    execute = 2

    def __init__(self, seed: int, manner: Manner) -> None:
        """Demonstrate in a manner; `seed` keeps two experts apart that see the same episodes."""
        self._seed, self._manner = seed, manner
        self._moods: dict[int, _Mood] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed, aim and hesitation."""
        manner = self._manner
        rng = np.random.Generator(np.random.PCG64([self._seed, seed, 21]))
        aim = rng.normal(0.0, 1.0, 6) * (manner.aim_mm, manner.aim_mm, 0.0, 0.0, 0.0, manner.aim_yaw_rad)
        self._moods[lane] = _Mood(
            rng=rng,
            speed=float(rng.uniform(*manner.speed)),
            pause=float(rng.uniform(*manner.pause)),
            resume=1.0 / float(rng.uniform(*manner.pause_decisions)),
            aligned=float(rng.uniform(*manner.aligned)),
            aim=aim,
        )

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named, (len(lanes), 4, 14).

        Raises:
            PolicyProblem: the state has another width than GPU insertion has.
        """
        if observation.state.shape != (len(lanes), len(STATE)):
            raise PolicyProblem(
                f"The GPU expert needs a state of shape ({len(lanes)}, {len(STATE)}), not {observation.state.shape}."
            )
        moods = [self._mood(int(lane)) for lane in lanes]
        chunk = np.zeros((len(lanes), self.horizon, len(ACTION)), dtype=np.float32)
        if not len(lanes):
            return chunk
        speeds = carry(observation.state.astype(np.float64), self._twist(observation.state.astype(np.float64), moods))
        for row, mood in enumerate(moods):
            speeds[row] = self._strayed(mood, speeds[row])
        chunk[:, :, commands_of("right")] = np.clip(speeds, -JOINT_RAD_S, JOINT_RAD_S)[:, None]
        return chunk

    def _mood(self, lane: int) -> _Mood:
        if lane not in self._moods:
            self.begin(lane, 0)
        return self._moods[lane]

    @staticmethod
    def _twist(state: Rows, moods: list[_Mood]) -> Rows:
        """Where the card shall move now: over the slot, down into it, or up again."""
        speed, loose = np.array([mood.speed for mood in moods]), np.array([mood.aligned for mood in moods])
        goal = np.array([mood.aim for mood in moods])
        off = state[:, CARD.start : ANGLES.stop] - goal
        height, force = state[:, CARD][:, 2], state[:, force_of("right")][:, 2]
        inside = height < -1.0
        jammed = (height > -1.0) & (height < 1.0) & (force > JAM_N)
        go = (inside | _aligned(off, loose)) & ~jammed
        goal[:, 2] = np.where(go, -8.0 - PRESS_MM, np.where(jammed, 4.0, HOVER_MM))
        twist = card_twist(state, goal, 6.0, 0.08)
        twist[:, :2] *= np.where(inside, 0.4, 1.0)[:, None]
        down = np.where(go, np.minimum(-0.012, np.maximum(twist[:, 2], -0.02)), twist[:, 2])
        # A card that is home is pressed with a steady, small speed until the force says so.
        twist[:, 2] = np.where(go & (height < -7.0), -0.006, down)
        return twist * speed[:, None]

    def _strayed(self, mood: _Mood, speeds: Rows) -> Rows:
        """Hesitate and tremble; draws the same number of random values whatever happens."""
        luck = mood.rng.random()
        tremor = mood.rng.normal(0.0, 1.0, 6) * self._manner.tremor_rad_s
        mood.pausing = luck >= mood.resume if mood.pausing else luck < mood.pause
        return tremor if mood.pausing else speeds + tremor


def _aligned(off: Rows, loose: Rows) -> npt.NDArray[np.bool_]:
    """Whether a card (n, 6) off its goal may go down: tightest across the slot and in yaw."""
    tight = np.array([0.5, 0.3, np.inf, 0.03, 0.02, 0.008])
    return np.logical_and.reduce(np.abs(off) <= tight * loose[:, None], axis=1)
