"""The scripted experts of GPU insertion: align the card over the slot, go down, press it in, lift it when jammed.

The demonstrating expert draws speed, aim and pauses in every episode.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from sim.bimanual.demonstrator import ArmBehaviour, ArmEpisode, draw_arm_episode
from sim.bimanual.kinematics import Rows, from_angles, rotation_between
from sim.bimanual.rig import ACTION, JOINT_RAD_S, commands_of, force_of
from sim.bimanual.servo import reach_of, shortened, speeds_for
from sim.tasks.gpu_rig import ANGLES, CARD, STATE
from sim.tasks.gpu_scene import SLOT_M

HOVER_MM = 1.5
"""Height of the lower edge over the rim at which the card waits until it is aligned."""
PRESS_MM = 1.5
"""Depth of the goal below the floor of the slot, which makes the arm press the card in."""
JAM_N = 9.0
"""Upward force near the rim from which the card counts as jammed on it."""


VARIED = ArmBehaviour(
    speed=(0.25, 0.7), pause=(0.06, 0.2), pause_decisions=(2.0, 8.0), slack=(1.0, 4.5), aim_m=1.5e-4,
    aim_yaw_rad=0.004, tremor_rad_s=0.01,
)  # fmt: skip


def card_twist(state: Rows, goal: Rows, gain_per_s: float, speed_m_s: Rows | float) -> Rows:
    """The twist (n, 6; m/s, rad/s) of the card towards a goal (n, 6; mm, rad) for states (n, state_dim)."""
    velocity = shortened(1e-3 * gain_per_s * (goal[:, :3] - state[:, CARD]), speed_m_s)
    turned = rotation_between(from_angles(state[:, ANGLES]), from_angles(goal[:, 3:]))
    return np.concatenate([velocity, shortened(gain_per_s * turned, 0.8)], axis=1)


def carry(state: Rows, twist: Rows) -> Rows:
    """Joint speeds (n, 6) in rad/s of the right arm for a twist (n, 6; m/s, rad/s) of the card that it holds."""
    now = reach_of("right", state.astype(np.float32))
    return speeds_for(now, twist, np.array(SLOT_M) + 1e-3 * state[:, CARD])


class GpuExpert:
    """A policy over the sensed state alone. Its noise in a lane depends only on the seed given to `begin`."""

    horizon = 4
    execute = 2

    def __init__(self, seed: int, behaviour: ArmBehaviour) -> None:
        """Demonstrate; `seed` makes two experts differ that get the same episodes."""
        self._seed, self._behaviour = seed, behaviour
        self._episodes: dict[int, ArmEpisode] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's aim, speed, pauses and slack."""
        rng = np.random.Generator(np.random.PCG64([self._seed, seed, 21]))
        aim = rng.normal(0.0, 1.0, 6)
        episode = draw_arm_episode(self._behaviour, rng)
        episode.aim_m = aim[:3] * (self._behaviour.aim_m, self._behaviour.aim_m, 0.0)
        episode.aim_yaw_rad = float(aim[5] * self._behaviour.aim_yaw_rad)
        self._episodes[lane] = episode

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 4, 14) float32 in rad/s and mm/s, for states (len(lanes), 41).

        Raises:
            PolicyProblem: the state has another width than GPU insertion has.
        """
        if observation.state.shape != (len(lanes), len(STATE)):
            raise PolicyProblem(
                f"The GPU expert needs a state of shape ({len(lanes)}, {len(STATE)}), not {observation.state.shape}."
            )
        episodes = [self._episode(int(lane)) for lane in lanes]
        chunk = np.zeros((len(lanes), self.horizon, len(ACTION)), dtype=np.float32)
        if not len(lanes):
            return chunk
        state = observation.state.astype(np.float64)
        speeds = carry(state, self._twist(state, episodes))
        for row, episode in enumerate(episodes):
            speeds[row] = self._strayed(episode, speeds[row])
        chunk[:, :, commands_of("right")] = np.clip(speeds, -JOINT_RAD_S, JOINT_RAD_S)[:, None]
        return chunk

    def _episode(self, lane: int) -> ArmEpisode:
        if lane not in self._episodes:
            self.begin(lane, 0)
        return self._episodes[lane]

    @staticmethod
    def _twist(state: Rows, episodes: list[ArmEpisode]) -> Rows:
        """The card's twist (n, 6; m/s, rad/s): over the slot, down into it, or up again."""
        speed, slack = np.array([one.speed for one in episodes]), np.array([one.slack for one in episodes])
        goal = np.array([[*(1e3 * one.aim_m), 0.0, 0.0, one.aim_yaw_rad] for one in episodes])
        off = state[:, CARD.start : ANGLES.stop] - goal
        height, force = state[:, CARD][:, 2], state[:, force_of("right")][:, 2]
        inside = height < -1.0
        jammed = (height > -1.0) & (height < 1.0) & (force > JAM_N)
        go = (inside | _aligned(off, slack)) & ~jammed
        goal[:, 2] = np.where(go, -8.0 - PRESS_MM, np.where(jammed, 4.0, HOVER_MM))
        twist = card_twist(state, goal, 6.0, 0.08)
        twist[:, :2] *= np.where(inside, 0.4, 1.0)[:, None]
        down = np.where(go, np.minimum(-0.012, np.maximum(twist[:, 2], -0.02)), twist[:, 2])
        # A seated card is pressed with a small constant speed until the force is high enough.
        twist[:, 2] = np.where(go & (height < -7.0), -0.006, down)
        return twist * speed[:, None]

    def _strayed(self, episode: ArmEpisode, speeds: Rows) -> Rows:
        """Joint speeds (6,) in rad/s with this decision's pause and tremor; always draws 7 random numbers."""
        pauses = episode.pauses()
        tremor = episode.rng.normal(0.0, 1.0, 6) * self._behaviour.tremor_rad_s
        return tremor if pauses else speeds + tremor


def _aligned(off: Rows, slack: Rows) -> npt.NDArray[np.bool_]:
    """Whether a card at the error (n, 6; mm, rad) may go down; tightest across the slot and in yaw."""
    tight = np.array([0.5, 0.3, np.inf, 0.03, 0.02, 0.008])
    return np.logical_and.reduce(np.abs(off) <= tight * slack[:, None], axis=1)
