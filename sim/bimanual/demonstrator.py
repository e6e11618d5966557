"""What the scripted experts of two-arm tasks share: behaviour parameters, and the motion of both arms in each lane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation, TaskSpec
from sim.behaviour import BehaviourParameters, EpisodeBehaviour, draw_behaviour
from sim.bimanual.arm_goals import Hand, Hands
from sim.bimanual.kinematics import JOINTS, Rows
from sim.bimanual.rig import ACTION, JOINT_RAD_S, SIDE_ACTION


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmBehaviour(BehaviourParameters):
    """Behaviour parameters of two-arm experts; as they stand: the clean expert."""

    slack: tuple[float, float] = (1.0, 1.0)
    """Factor on the errors that still count as aligned; 1 is careful. Drawn uniformly once per episode."""
    aim_m: float = 0.0
    """Standard deviation of a constant aiming error, per axis, in m."""
    aim_yaw_rad: float = 0.0
    """The same of the yaw, in rad, for experts that aim at an angle."""
    tremor_rad_s: float = 0.0
    """Standard deviation of the error of every joint's speed, in rad/s, drawn for each decision."""


CLEAN = ArmBehaviour()


@dataclass(slots=True, kw_only=True)
class ArmEpisode(EpisodeBehaviour):
    """The behaviour that one lane's episode drew."""

    slack: float
    aim_m: Rows = field(default_factory=lambda: np.zeros(3))
    """(3,) float64: aiming error in m."""
    aim_yaw_rad: float = 0.0


def draw_arm_episode(behaviour: ArmBehaviour, rng: np.random.Generator) -> ArmEpisode:
    """Draw one episode's speed, pauses and slack, in this order, without an aiming error."""
    drawn = draw_behaviour(behaviour, rng)
    return ArmEpisode(
        rng=rng, speed=drawn.speed, pause=drawn.pause, resume=drawn.resume, slack=float(rng.uniform(*behaviour.slack))
    )


class Demonstrator(ABC):
    """A policy that decides for each lane in turn. Its noise in a lane depends only on the seed given to `begin`."""

    horizon = 4
    execute = 2

    def __init__(self, spec: TaskSpec, seed: int, behaviour: ArmBehaviour) -> None:
        """Demonstrate a task; `seed` makes two experts differ that get the same episodes."""
        self._spec, self._seed, self._behaviour = spec, seed, behaviour
        self._episodes: dict[int, ArmEpisode] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed, pauses, slack and aim."""
        episode = draw_arm_episode(self._behaviour, np.random.Generator(np.random.PCG64([self._seed, seed, 37])))
        episode.aim_m = episode.rng.normal(0.0, 1.0, 3) * self._behaviour.aim_m
        self._episodes[lane] = self._prepared(episode)

    def _prepared(self, episode: ArmEpisode) -> ArmEpisode:
        """The episode with whatever else a task's expert remembers in it."""
        return episode

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named.

        Args:
            observation: state (len(lanes), state_dim) float32.
            lanes: (n,).

        Returns:
            (len(lanes), 4, 14) float32: for each arm six joint speeds in rad/s and the gripper's speed in mm/s.

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
        episodes = [self._episode(int(lane)) for lane in lanes]
        for row, episode in enumerate(episodes):
            self._decide(episode, state[row], hands.of(row, "left"), hands.of(row, "right"))
        commands = hands.commands()
        for row, episode in enumerate(episodes):
            chunk[row] = self._strayed(episode, commands[row])
        return chunk

    def _episode(self, lane: int) -> ArmEpisode:
        if lane not in self._episodes:
            self.begin(lane, 0)
        return self._episodes[lane]

    @abstractmethod
    def _decide(self, episode: ArmEpisode, state: Rows, left: Hand, right: Hand) -> None:
        """Give both hands of one lane their goals; state (state_dim,)."""

    def _strayed(self, episode: ArmEpisode, command: FloatArray) -> FloatArray:
        """The command (14,) at the episode's speed, with pauses and tremor; always draws 15 random numbers."""
        pauses = episode.pauses()
        arms = np.arange(len(command)) % SIDE_ACTION < JOINTS
        tremor = np.where(arms, episode.rng.normal(0.0, 1.0, len(command)) * self._behaviour.tremor_rad_s, 0.0)
        paced = np.where(arms, episode.speed, 1.0) * command * (not pauses) + tremor
        return np.where(arms, np.clip(paced, -JOINT_RAD_S, JOINT_RAD_S), paced).astype(np.float32)
