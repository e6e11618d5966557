"""A planner for gym-pusht: it tries pushes in a copy of the environment's physics and takes the best one.

The block moves only while the pusher touches it (the environment's damping is 0), so its pose depends on the pusher's
path and hardly on its speed. A push is a straight line through a point of the T's outline; its gain is the logarithm of
the distance to the goal that it takes away, per period that the path and the push need. The planner draws nothing, and
its next command depends on little more than what it sees: such demonstrations are the easiest to imitate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from benchmarks.outside.pusht_paths import (
    ALONG,
    HIGH,
    LEAD,
    LOW,
    MIDDLE,
    PUSHER,
    STARTS,
    Paths,
    Vector,
    outside,
    rotation,
)
from enpire.types import FloatArray, IntArray, Observation

GOAL = (256.0, 256.0, math.pi / 4)
_SINE, _COSINE = math.sin(GOAL[2]), math.cos(GOAL[2])
RADIUS = 45.0
"""Pixels of error that one radian is worth."""
REACHED = 0.7
"""Error in pixels at which more precision no longer pays."""
FINE = 6.0
"""Length in pixels below which commands and errors are stretched: a policy sees and commands small ones precisely."""
REACH = float(np.log1p(110.0 / FINE))
"""Greatest command on each axis."""
PUSH_LEAD = 40.0
"""Distance of the target ahead of the pusher in a push, in pixels: 20 pixels in a period."""
PAST = 15.0
"""Pixels of error above the lowest of a push at which the model gives it up."""
LONGEST = 220.0
"""Pixels of the longest push."""
GAP = 6.0
"""Pixels of a push before the contact."""
SETTLE = 3.0
"""Periods in which the pusher comes to rest."""
PATIENCE = 40
"""Periods after which a push that is not reached is given up."""


def error(x: float, y: float, angle: float) -> float:
    """Distance of a pose from the goal in pixels; x and y in pixels."""
    sine, cosine = math.sin(angle) - _SINE, math.cos(angle) - _COSINE
    across = x - GOAL[0] - MIDDLE[1] * sine
    down = y - GOAL[1] + MIDDLE[1] * cosine
    return math.sqrt(across * across + down * down + (2.0 * RADIUS * math.sin((angle - GOAL[2]) / 2.0)) ** 2)


def stretched(away: Vector, fine: float) -> Vector:
    """A vector (n,) with the logarithm of its length: about its length / `fine` where that is small."""
    length = float(np.sqrt(away @ away))
    return away * (np.log1p(length / fine) / length) if length > 0.0 else away


def pixels(command: Vector) -> Vector:
    """The inverse of `stretched` with FINE: a command (2,) in pixels."""
    length = float(np.sqrt(command @ command))
    return command * (FINE * np.expm1(length) / length) if length > 0.0 else command


class InBlockFrame(gymnasium.Wrapper[Vector, Any, Any, Any]):
    """gym-pusht with the pusher, the goal and the commands in the block's frame; physics and success are its own.

    Observes 12 numbers: x and y of the block in pixels; in the block's frame, in pixels, x and y of the pusher and of
    the goal; cosine and sine of the angle to the goal; the logarithmic errors of the T's middle (x and y) and of its
    angle; the logarithmic gap between pusher and block. Takes the pusher's target minus its position in the block's
    frame, with the logarithm of its length.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap an environment that observes its state."""
        super().__init__(env)
        low = np.array([0.0, 0.0, *[-724.0] * 4, -1.0, -1.0, *[-8.0] * 4])
        high = np.array([512.0, 512.0, *[724.0] * 4, 1.0, 1.0, *[8.0] * 4])
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(-REACH, REACH, (2,), np.float32)
        self._pose, self._pusher = np.zeros(3), np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Begin again."""
        state, info = self.env.reset(seed=seed, options=options)
        return self._seen(state), info

    def step(self, action: Any) -> tuple[Vector, Any, bool, bool, dict[str, Any]]:
        """One period towards a target (2,)."""
        target = self._pusher + rotation(self._pose[2]) @ pixels(np.asarray(action, np.float64))
        state, reward, ended, cut, info = self.env.step(np.clip(target, 0.0, 512.0))
        return self._seen(state), reward, ended, cut, info

    def _seen(self, state: Vector) -> Vector:
        self._pusher, self._pose = np.asarray(state[:2], np.float64), np.asarray(state[2:5], np.float64)
        turn, left = rotation(self._pose[2]), rotation(GOAL[2] - self._pose[2])
        pusher, goal = (self._pusher - self._pose[:2]) @ turn, (GOAL[:2] - self._pose[:2]) @ turn
        angle = np.array([np.arctan2(left[1, 0], left[0, 0])])
        return np.array([
            *self._pose[:2], *pusher, *goal, left[0, 0], left[1, 0],
            *stretched(goal + left @ MIDDLE - MIDDLE, FINE), *stretched(angle, FINE / RADIUS),
            np.log1p(max(0.0, float(outside(pusher[None])[0]) - PUSHER) / FINE),
        ])  # fmt: skip


def _in_block_frame(**options: Any) -> gymnasium.Env[Any, Any]:
    return InBlockFrame(gymnasium.make("gym_pusht:gym_pusht/PushT-v0", **options).unwrapped)


gymnasium.register(id="PushTInBlockFrame-v0", entry_point=_in_block_frame, max_episode_steps=300)


class Model:
    """The environment's own physics, set to any pose."""

    def __init__(self) -> None:
        """One environment, never shown."""
        self._world: Any = gymnasium.make("gym_pusht:gym_pusht/PushT-v0", disable_env_checker=True).unwrapped
        self._world.reset(seed=0)
        # The environment counts contacts for its info, which takes half of a step.
        self._world.collision_handeler.post_solve = lambda *_: None

    def push(self, pose: Vector, pusher: Vector, along: Vector, longest: float) -> tuple[Vector, Vector]:
        """The pusher moves from `pusher` along `along` for `longest` pixels, or until the error has risen by PAST.

        Returns:
            (n,) pixels that the pusher has moved, and (n,) the block's error then.
        """
        world, step = self._world, 1.6 if longest > 80.0 else 0.8
        block, space, dt = world.block, world.space, world.dt
        block.angle, block.position = float(pose[2]), (float(pose[0]), float(pose[1]))
        block.velocity, block.angular_velocity = (0.0, 0.0), 0.0
        world.agent.position = (float(pusher[0]), float(pusher[1]))
        velocity = along * (step / dt)
        world.agent.velocity = (float(velocity[0]), float(velocity[1]))
        space.reindex_shapes_for_body(block)
        space.reindex_shapes_for_body(world.agent)
        moved, errors, lowest = list[float](), list[float](), math.inf
        for index in range(1, int(longest / step) + 1):
            space.step(dt)
            if index % 2 == 0:
                found = error(*block.position, block.angle)
                moved.append(index * step)
                errors.append(found)
                lowest = min(lowest, found)
                if found > lowest + PAST:
                    break
        return np.array(moved), np.array(errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A straight push, in the table's frame: from `start` along `along` until the pusher is `length` further."""

    start: Vector
    along: Vector
    length: float
    after: float
    """Expected error at its end."""


@dataclass(slots=True)
class Hand:
    """The planner's memory of one rollout."""

    push: Push | None = None
    touching: bool = False
    """The push has begun; before, the pusher is on its path to it."""
    waited: int = 0


class Planner:
    """Demonstrates gym-pusht."""

    horizon = execute = 1

    def __init__(self, seed: int) -> None:
        """`seed` changes nothing: the planner draws nothing."""
        del seed
        self._model, self._paths = Model(), Paths()
        self._hands: dict[int, Hand] = {}

    def begin(self, lane: int, seed: int) -> None:
        """A new rollout."""
        del seed
        self._hands[lane] = Hand()

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The commands (n, 1, 2), as `InBlockFrame` takes them."""
        return np.array([
            [self._command(self._hands[int(lane)], row)]
            for lane, row in zip(lanes, observation.state.astype(np.float64), strict=True)
        ], np.float32)  # fmt: skip

    def _command(self, hand: Hand, row: Vector) -> Vector:
        """The command (2,) for one row of the state."""
        pose = np.array([row[0], row[1], GOAL[2] - np.arctan2(row[7], row[6])])
        turn = rotation(pose[2])
        pusher = pose[:2] + turn @ row[2:4]
        return stretched((self._target(hand, pose, pusher) - pusher) @ turn, FINE)

    def _target(self, hand: Hand, pose: Vector, pusher: Vector) -> Vector:
        for _ in range(2):
            if hand.push is None:
                hand.push, hand.touching, hand.waited = self._choose(pose, pusher), False, 0
            push = hand.push
            gap = push.start - pusher
            if not hand.touching:
                hand.waited += 1
                if float(np.hypot(*gap)) > 1.0 + 0.1 * min(push.after, 30.0):
                    if hand.waited > PATIENCE:
                        hand.push = None
                    return self._paths.target(pose, pusher, push.start)
                hand.touching = True
            done = -float(gap @ push.along)
            length = self._best_length(pose, pusher, push, done)
            left = length - done
            if left > 0.5 + 0.1 * push.after:
                return push.start + min(done + PUSH_LEAD, length) * push.along
            hand.push = None
        return pusher

    def _best_length(self, pose: Vector, pusher: Vector, push: Push, done: float) -> float:
        """The length of a push that has begun, seen from the present state."""
        before = error(*pose)
        moved, errors = self._model.push(pose, pusher, push.along, min(LONGEST, 2.0 * before + 30.0))
        gains = (math.log(before + REACHED) - np.log(errors + REACHED)) / (moved / (PUSH_LEAD / 2.0) + 5.0)
        best = int(gains.argmax())
        return done + float(moved[best]) if gains[best] > 0.0 else done

    def _choose(self, pose: Vector, pusher: Vector) -> Push:
        """The push with the greatest gain in a period."""
        turn, before = rotation(pose[2]), error(*pose)
        best, found = -np.inf, None
        starts = pose[:2] + STARTS @ turn.T
        paths = self._paths.lengths(pose, pusher)
        longest = min(LONGEST, 2.0 * before + 30.0)
        for index in np.flatnonzero(np.isfinite(paths)):
            along = turn @ ALONG[index]
            # The gap is free: the model begins at the contact.
            moved, errors = self._model.push(pose, starts[index] + GAP * along, along, longest)
            ends = starts[index] + (moved[:, None] + GAP) * along
            errors[((ends < 17.0) | (ends > 495.0)).any(axis=1)] = np.inf
            periods = paths[index] / (LEAD / 2.5) + (moved + GAP) / (PUSH_LEAD / 2.0) + 2.0 * SETTLE
            gains = (math.log(before + REACHED) - np.log(errors + REACHED)) / periods
            if gains.max() > best:
                last = int(gains.argmax())
                best = float(gains[last])
                found = Push(start=starts[index], along=along, length=moved[last] + GAP, after=float(errors[last]))
        if found is None or best <= 0.0:
            away = pusher - pose[:2] - turn @ MIDDLE
            away = np.array([away[1], -away[0]]) / max(1.0, float(np.hypot(*away)))
            return Push(start=np.clip(pusher + 60.0 * away, LOW, HIGH), along=away, length=0.0, after=before)
        return found
