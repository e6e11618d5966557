"""The scripted experts of the marker task: carry the tip over the cup, straighten the marker, lower it.

The clean expert is fast and accurate. The demonstrating expert draws speed, aim and pauses in every episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enpire.errors import PolicyProblem
from enpire.types import FloatArray, IntArray, Observation
from sim.behaviour import BehaviourParameters, EpisodeBehaviour, draw_behaviour
from sim.so101.kinematics import Tips, joints_for, tips
from sim.tasks.marker_rig import ARM, CUP_M, GRIPPER, INSIDE_M, RIM_M, SQUEEZE_PERCENT, STATE, STICK_M

Rows = npt.NDArray[np.float64]

OVER_M, INTO_M = 0.02, 0.032
"""Height of the tip over the rim on its way to the cup, and its depth below the rim at the end."""
CARRY_M_S, LOWER_M_S, TURN_DEG_S = 0.16, 0.10, 45.0
UPRIGHT_DEG = 90.0
"""Roll of the hand at which the marker points down."""
LOST_DEG = 12.0
"""An arm that is farther from the plan than this was moved by another; the plan begins again where the arm is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerBehaviour(BehaviourParameters):
    """Behaviour parameters of the marker expert; as they stand: the clean expert."""

    centred_m: tuple[float, float] = (0.008, 0.008)
    """Largest distance from the cup's axis at which the tip goes down; drawn once per episode."""
    aim_m: float = 0.0
    """Standard deviation of a constant aiming error, per axis."""
    tremor_deg: float = 0.0
    """Standard deviation of the error of every commanded angle."""


CLEAN = MarkerBehaviour()
VARIED = MarkerBehaviour(
    speed=(0.3, 0.8), pause=(0.03, 0.12), pause_decisions=(2.0, 8.0), centred_m=(0.006, 0.014), aim_m=0.004,
    tremor_deg=0.2,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Episode(EpisodeBehaviour):
    """The behaviour that one lane's episode drew, and its plan."""

    centred_m: float
    aim_m: Rows
    """(2,)."""
    plan: Rows | None = None
    """(5,): tip in m, pitch and roll in degrees, as commanded last; None before the first decision."""


class MarkerExpert:
    """A policy over the sensed joints alone. Its noise in a lane depends only on the seed given to `begin`."""

    horizon = 8
    execute = 4

    def __init__(self, seed: int, behaviour: MarkerBehaviour, period_s: float) -> None:
        """Demonstrate; `seed` makes two experts differ that get the same episodes."""
        self._seed, self._behaviour, self._period_s = seed, behaviour, period_s
        self._episodes: dict[int, _Episode] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Draw this episode's speed, pauses, care and aim."""
        rng, behaviour = np.random.Generator(np.random.PCG64([self._seed, seed, 17])), self._behaviour
        drawn = draw_behaviour(behaviour, rng)
        self._episodes[lane] = _Episode(
            rng=rng, speed=drawn.speed, pause=drawn.pause, resume=drawn.resume,
            centred_m=float(rng.uniform(*behaviour.centred_m)), aim_m=rng.normal(0.0, 1.0, 2) * behaviour.aim_m,
        )  # fmt: skip

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 8, 6) float32 in degrees and %, for states (len(lanes), 6).

        Raises:
            PolicyProblem: the state has another width than the marker task has.
        """
        if observation.state.shape != (len(lanes), len(STATE)):
            raise PolicyProblem(
                f"The marker expert needs a state of shape ({len(lanes)}, {len(STATE)}), not {observation.state.shape}."
            )
        chunk = np.empty((len(lanes), self.horizon, len(STATE)), np.float32)
        for row, lane in enumerate(lanes):
            if int(lane) not in self._episodes:
                self.begin(int(lane), 0)
            chunk[row] = self._decide(self._episodes[int(lane)], observation.state[row, ARM].astype(np.float64))
        return chunk

    def _decide(self, episode: _Episode, joints_deg: Rows) -> FloatArray:
        """One chunk (8, 6); the plan is then where the arm shall be after `execute` periods."""
        if episode.plan is None or np.abs(_joints(episode.plan[None])[0] - joints_deg).max() > LOST_DEG:
            here = tips(joints_deg[None], STICK_M)
            episode.plan = np.array([*here.at_m[0], here.pitch_deg[0], here.roll_deg[0]])
        path, plan = np.empty((self.horizon, 5)), episode.plan
        paused = episode.pauses()
        for tick in range(self.horizon):
            plan = plan if paused else self._next(episode, plan)
            path[tick] = plan
        episode.plan = path[self.execute - 1]
        tremor_deg = self._behaviour.tremor_deg * episode.rng.normal(0.0, 1.0, (self.horizon, 5))
        chunk = np.full((self.horizon, len(STATE)), 0.5 * SQUEEZE_PERCENT, np.float32)
        chunk[:, :GRIPPER] = _joints(path) + tremor_deg
        return chunk

    def _next(self, episode: _Episode, plan: Rows) -> Rows:
        """The plan (5,) one period later."""
        reach = episode.speed * self._period_s
        offset = np.array(CUP_M) + episode.aim_m - plan[:2]
        aside_m, over_m = float(np.hypot(*offset)), float(plan[2]) - RIM_M
        go = aside_m <= episode.centred_m or (over_m < 0.0 and aside_m < INSIDE_M)
        # The tip first rises over the rim, and comes near the cup only at that height.
        clear = 1.0 if go else float(np.clip((over_m - 0.5 * OVER_M) / (0.5 * OVER_M), 0.0, 1.0))
        step = clear * CARRY_M_S * reach
        height_m = RIM_M - INTO_M if go else RIM_M + OVER_M
        turn_deg = TURN_DEG_S * reach
        after = plan.copy()
        after[:2] += offset * min(1.0, step / max(aside_m, 1e-9))
        after[2] += np.clip(height_m - plan[2], -LOWER_M_S * reach, LOWER_M_S * reach)
        after[3] += np.clip(-plan[3], -turn_deg, turn_deg)
        after[4] += np.clip(UPRIGHT_DEG - plan[4], -turn_deg, turn_deg)
        return after


def _joints(path: Rows) -> Rows:
    """Joints (n, 5) in degrees of plans (n, 5)."""
    return joints_for(Tips(at_m=path[:, :3], pitch_deg=path[:, 3], roll_deg=path[:, 4]), STICK_M)
