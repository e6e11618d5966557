"""A planner for gym-pusht: it tries pushes in a copy of the environment's physics and takes the best one.

The block moves only while the pusher touches it (the environment's damping is 0), so a push that begins at rest ends
in the simulated pose. A push is a straight line through a point of the T's outline; its gain is the logarithm of the
distance to the goal that it takes away, per period that the way and the push need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from enpire.types import FloatArray, IntArray, Observation

Vector = npt.NDArray[np.float64]

PUSHER = 15.0
"""Radius of the pusher in pixels, the unit of every length here."""
STANDOFF = PUSHER + 6.0
"""Distance of the pusher's centre from the point of contact before a push begins."""
CLEAR = PUSHER + 3.0
ROUND = 125.0
"""Radius of the circle around the block's middle on which the pusher changes sides."""
MIDDLE = np.array([0.0, 45.0])
"""Middle of the T in its own frame."""
BOXES = ((-60.0, 60.0, 0.0, 30.0), (-15.0, 15.0, 30.0, 120.0))
"""The T's two boxes in its own frame: x from, to; y from, to."""
GOAL = np.array([256.0, 256.0, np.pi / 4])
RADIUS = 45.0
"""Pixels of error that one radian is worth."""
REACHED = 0.5
"""Error in pixels at which more precision no longer pays."""
REACH = 60.0
"""Greatest command on each axis, in pixels."""
LEAD = 48.0
"""Distance of the target ahead of the pusher on its way, in pixels: 24 pixels in a period."""
SPEEDS = ((25.0, 16.0), (6.0, 6.0), (0.0, 2.5))
"""Error from which on a push has a speed, and that speed in pixels in a period."""
MOST_PUSH = 14
"""Periods of the longest push."""
_LOW, _HIGH = 22.0, 490.0
"""Where the pusher's centre can be, between the walls."""


def outline() -> tuple[Vector, Vector]:
    """Points (n, 2) on the T's outline in its own frame, and inward normals (n, 2)."""
    points: list[tuple[float, float]] = []
    normals: list[tuple[float, float]] = []
    for x in np.linspace(-56.0, 56.0, 13):
        points.append((float(x), 0.0))
        normals.append((0.0, 1.0))
    for x in (-54.0, -46.0, -38.0, 38.0, 46.0, 54.0):
        points.append((x, 30.0))
        normals.append((0.0, -1.0))
    for side in (-1.0, 1.0):
        for y in (7.0, 15.0, 23.0):
            points.append((side * 60.0, y))
            normals.append((-side, 0.0))
        for y in np.linspace(50.0, 116.0, 8):
            points.append((side * 15.0, float(y)))
            normals.append((-side, 0.0))
    for x in (-10.0, 0.0, 10.0):
        points.append((x, 120.0))
        normals.append((0.0, -1.0))
    return np.array(points), np.array(normals)


POINTS, NORMALS = outline()
TURNS = (0.0, -0.35, 0.35)
"""Directions of a push away from the normal, in radians."""


def rotation(angle: float) -> Vector:
    """The matrix (2, 2) from the T's frame to the table's."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def error(pose: Vector) -> float:
    """Distance of a pose (3,) from the goal in pixels."""
    away = MIDDLE @ (rotation(pose[2]) - rotation(GOAL[2])).T + pose[:2] - GOAL[:2]
    turn = np.sin((pose[2] - GOAL[2]) / 2.0) * 2.0
    return float(np.sqrt(away @ away + (RADIUS * turn) ** 2))


def outside(points: Vector) -> Vector:
    """Distance (n,) of points (n, 2), in the T's frame, from the T; 0 inside."""
    gaps = [
        np.hypot(
            np.maximum(np.maximum(left - points[:, 0], points[:, 0] - right), 0.0),
            np.maximum(np.maximum(low - points[:, 1], points[:, 1] - high), 0.0),
        )
        for left, right, low, high in BOXES
    ]
    return np.minimum(*gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A straight push: the pusher waits at `start` and moves along `along` for `periods` at `speed`."""

    start: Vector
    along: Vector
    speed: float
    periods: int


class InBlockFrame(gymnasium.Wrapper[Vector, Any, Any, Any]):
    """gym-pusht with the pusher, the goal and the commands in the block's frame; physics and success are its own.

    Observes 8 numbers: x and y of the block in pixels, cosine and sine of its angle, and in the block's frame the x and
    y of the pusher and of the goal. Takes the pusher's target minus its position, in pixels in the block's frame.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        """Wrap an environment that observes its state."""
        super().__init__(env)
        low = np.array([0.0, 0.0, -1.0, -1.0, -724.0, -724.0, -724.0, -724.0])
        high = np.array([512.0, 512.0, 1.0, 1.0, 724.0, 724.0, 724.0, 724.0])
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(-REACH, REACH, (2,), np.float32)
        self._pose, self._pusher = np.zeros(3), np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Begin again."""
        state, info = self.env.reset(seed=seed, options=options)
        return self._seen(state), info

    def step(self, action: Any) -> tuple[Vector, Any, bool, bool, dict[str, Any]]:
        """One period towards a target (2,)."""
        target = self._pusher + rotation(self._pose[2]) @ np.asarray(action, np.float64)
        state, reward, ended, cut, info = self.env.step(np.clip(target, 0.0, 512.0))
        return self._seen(state), reward, ended, cut, info

    def _seen(self, state: Vector) -> Vector:
        self._pusher, self._pose = np.asarray(state[:2], np.float64), np.asarray(state[2:5], np.float64)
        turn = rotation(self._pose[2])
        return np.array([
            *self._pose[:2], turn[0, 0], turn[1, 0],
            *((self._pusher - self._pose[:2]) @ turn), *((GOAL[:2] - self._pose[:2]) @ turn),
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

    def _place(self, pose: Vector, pusher: Vector) -> None:
        world = self._world
        world.block.angle = float(pose[2])
        world.block.position = tuple(pose[:2])
        world.block.velocity, world.block.angular_velocity = (0.0, 0.0), 0.0
        world.agent.position, world.agent.velocity = tuple(pusher), (0.0, 0.0)
        world.space.reindex_shapes_for_body(world.block)
        world.space.reindex_shapes_for_body(world.agent)

    def poses(self, pose: Vector, push: Push) -> Vector:
        """The block's poses (periods, 3) if the push ended after 1, 2, ... periods and the pusher came to rest."""
        self._place(pose, push.start)
        world, found = self._world, []
        here, speed = push.start, np.zeros(2)
        for period in range(1, push.periods + 1):
            target = push.start + period * push.speed * push.along
            for _ in range(10):
                speed = speed + (world.k_p * (target - here) - world.k_v * speed) * world.dt
                world.agent.velocity = (float(speed[0]), float(speed[1]))
                world.space.step(world.dt)
                here = here + speed * world.dt
            found.append((*world.block.position, world.block.angle))
        return np.array(found)


@dataclass(slots=True)
class Hand:
    """The planner's memory of one rollout."""

    draws: np.random.Generator
    pace: float
    push: Push | None = None
    done: int = -1
    """Periods of the push that have passed; -1 on the way to it."""
    waited: int = 0


class Planner:
    """Demonstrates gym-pusht. Each rollout has a pace of its own, and no two choose the same among good pushes."""

    horizon = execute = 1

    def __init__(self, seed: int) -> None:
        """`seed` decides paces and choices."""
        self._seed, self._model = seed, Model()
        self._hands: dict[int, Hand] = {}

    def begin(self, lane: int, seed: int) -> None:
        """A new rollout."""
        draws = np.random.default_rng([self._seed, seed])
        self._hands[lane] = Hand(draws=draws, pace=float(draws.uniform(0.7, 1.0)))

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """The pusher's targets minus its position (n, 1, 2), in pixels in the block's frame."""
        return np.array([
            [self._command(self._hands[int(lane)], row)]
            for lane, row in zip(lanes, observation.state.astype(np.float64), strict=True)
        ], np.float32)  # fmt: skip

    def _command(self, hand: Hand, row: Vector) -> Vector:
        """The command (2,) for one row of the state."""
        pose = np.array([row[0], row[1], np.arctan2(row[3], row[2])])
        turn = rotation(pose[2])
        pusher = pose[:2] + turn @ row[4:6]
        away = (self._target(hand, pose, pusher) - pusher) @ turn
        return away * min(1.0, REACH / float(np.abs(away).max() + 1e-9))

    def _target(self, hand: Hand, pose: Vector, pusher: Vector) -> Vector:
        if hand.push is None or hand.done >= hand.push.periods + 2:
            hand.push, hand.done, hand.waited = self._choose(hand, pose, pusher), -1, 0
        push = hand.push
        if hand.done < 0:
            hand.waited += 1
            if float(np.hypot(*(push.start - pusher))) > 3.0:
                if hand.waited > 60:
                    hand.push = None
                return self._step(pose, pusher, push.start, hand)
        hand.done = max(hand.done, 0) + 1
        return push.start + min(hand.done, push.periods) * push.speed * push.along

    def _choose(self, hand: Hand, pose: Vector, pusher: Vector) -> Push:
        """The push with the greatest gain in a period."""
        turn, before = rotation(pose[2]), error(pose)
        speed = next(speed for least, speed in SPEEDS if before >= least)
        best, found = -np.inf, None
        for point, normal in zip(POINTS, NORMALS, strict=True):
            for aside in TURNS:
                along = rotation(aside) @ normal
                start = pose[:2] + turn @ (point - STANDOFF * along)
                clear = outside((point - STANDOFF * along)[None])[0] >= CLEAR - 1.0
                if not clear or start.min() <= _LOW or start.max() >= _HIGH:
                    continue
                push = Push(start=start, along=turn @ along, speed=speed, periods=MOST_PUSH)
                after = np.array([error(item) for item in self._model.poses(pose, push)])
                ends = push.start + np.arange(1, MOST_PUSH + 1)[:, None] * speed * push.along
                after[((ends < 18.0) | (ends > 494.0)).any(axis=1)] = np.inf
                way = float(np.hypot(*(start - pusher))) * (1.0 if self._free(pose, pusher, start) else 1.8)
                periods = way / 20.0 + np.arange(1, MOST_PUSH + 1) + 4.0
                gains = np.log((before + REACHED) / (after + REACHED)) / periods
                gains *= 1.0 + 0.05 * hand.draws.standard_normal()
                if gains.max() > best:
                    best, last = float(gains.max()), int(gains.argmax())
                    found = Push(start=start, along=push.along, speed=speed, periods=last + 1)
        if found is None or best <= 0.0:
            away = pose[:2] + turn @ (MIDDLE + 100.0 * rotation(float(hand.draws.uniform(-3, 3)))[0])
            return Push(start=np.clip(away, _LOW, _HIGH), along=np.zeros(2), speed=0.0, periods=1)
        return found

    def _step(self, pose: Vector, pusher: Vector, goal: Vector, hand: Hand) -> Vector:
        """The next target on the way to a push: straight, or around the block."""
        if not self._free(pose, pusher, goal):
            middle = pose[:2] + rotation(pose[2]) @ MIDDLE
            out, aim = pusher - middle, goal - middle
            bearing, wanted = np.arctan2(out[1], out[0]), np.arctan2(aim[1], aim[0])
            ahead = np.arctan2(np.sin(wanted - bearing), np.cos(wanted - bearing))
            for step in (np.clip(ahead, -0.6, 0.6), np.clip(ahead, -0.3, 0.3), 0.0):
                ring = middle + ROUND * np.array([np.cos(bearing + step), np.sin(bearing + step)])
                ring = np.clip(ring, _LOW, _HIGH)
                if self._free(pose, pusher, ring):
                    break
            goal = ring
        away = goal - pusher
        distance = float(np.hypot(*away))
        return pusher + away * min(1.0, LEAD * hand.pace / max(distance, 1e-9)) if distance > 30.0 else goal

    @staticmethod
    def _free(pose: Vector, here: Vector, there: Vector) -> bool:
        """Whether the straight way keeps clear of the block, except where it only leaves it."""
        steps = np.linspace(0.0, 1.0, 16)[:, None]
        way = (here + steps * (there - here) - pose[:2]) @ rotation(pose[2])
        distance = outside(way)
        return bool((distance[1:] > np.minimum(CLEAR, distance[:-1] + 0.5)).all())
