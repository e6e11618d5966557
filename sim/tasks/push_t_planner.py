"""A greedy planner of quasi-static pushes on a T, for the expert and for the reset.

A push at a contact with inward normal n and lever arm c moves the block by n and turns it by c / rho^2, both divided by
1 + c^2 / rho^2 (ellipsoidal limit surface with characteristic radius rho, no sliding at the contact).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim.tasks.push_t_rig import (
    BAR_HALF_MM,
    BAR_Y_MM,
    NEAR_MM,
    NEAR_RAD,
    PUSHER_MM,
    SPEED_MM_S,
    STEM_HALF_MM,
    STEM_Y_MM,
    TURN_MM,
)

Vector = npt.NDArray[np.float64]

_WEIGHTS = np.array([1.0 / NEAR_MM**2, 1.0 / NEAR_MM**2, 1.0 / NEAR_RAD**2])
_STANDOFF_MM = PUSHER_MM + 9.0
"""Distance from the contact at which the pusher waits before a push."""
_CLEAR_MM = PUSHER_MM + 4.0
"""Least distance of the pusher's centre from the block on a free path."""
_ROUND_MM = 112.0
"""Radius of the circle around the block on which the pusher moves to another side."""


def _contacts() -> tuple[Vector, Vector]:
    """Points on the T's outline, (n, 2) in mm from its centre of mass, and their inward normals."""
    points: list[tuple[float, float]] = []
    normals: list[tuple[float, float]] = []
    top, low = BAR_Y_MM + BAR_HALF_MM[1], BAR_Y_MM - BAR_HALF_MM[1]
    foot = STEM_Y_MM - STEM_HALF_MM[1]
    for x in np.linspace(-52.0, 52.0, 9):
        points.append((float(x), top))
        normals.append((0.0, -1.0))
    for x in (-50.0, -40.0, -30.0, 30.0, 40.0, 50.0):
        points.append((x, low))
        normals.append((0.0, 1.0))
    for side in (-1.0, 1.0):
        for y in (BAR_Y_MM - 7.0, BAR_Y_MM + 7.0):
            points.append((side * BAR_HALF_MM[0], y))
            normals.append((-side, 0.0))
        for y in np.linspace(foot + 5.0, low - 16.0, 6):
            points.append((side * STEM_HALF_MM[0], float(y)))
            normals.append((-side, 0.0))
    for x in (-8.0, 0.0, 8.0):
        points.append((x, foot))
        normals.append((0.0, 1.0))
    return np.array(points), np.array(normals)


_POINTS, _NORMALS = _contacts()
_LEVERS = _POINTS[:, 0] * _NORMALS[:, 1] - _POINTS[:, 1] * _NORMALS[:, 0]
_SHARE = 1.0 / (1.0 + (_LEVERS / TURN_MM) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Sensed pose of the block and position of the pusher."""

    block_mm: Vector
    angle_rad: float
    pusher_mm: Vector


@dataclass(slots=True)
class PushPlanner:
    """Pushes a T towards one pose; keeps its contact from call to call."""

    goal_mm: Vector = field(default_factory=lambda: np.zeros(2))
    goal_rad: float = 0.0
    push_mm_s: float = 70.0
    walk_mm_s: float = 230.0
    contact: int = -1
    """Index of the contact in use; -1 when one must be chosen."""
    pushing: bool = False

    def error(self, view: View) -> Vector:
        """(3,): x, y in mm and angle in rad of the block relative to its goal."""
        turn = view.angle_rad - self.goal_rad
        away = view.block_mm - self.goal_mm
        return np.array([away[0], away[1], np.arctan2(np.sin(turn), np.cos(turn))])

    def cost(self, view: View) -> float:
        """Squared error in units of the tolerances; below 1, each number is within its tolerance."""
        error = self.error(view)
        return float((_WEIGHTS * error * error).sum())

    def command(self, view: View, period_s: float) -> Vector:
        """The pusher's velocity for the next period, (2,) in mm/s."""
        twists = self._twists(view.angle_rad)
        if self.contact < 0 or self._exhausted(view, twists):
            self.contact, self.pushing = self._choose(view, twists), False
        turn = _turn(view.angle_rad)
        point = view.block_mm + turn @ _POINTS[self.contact]
        normal = turn @ _NORMALS[self.contact]
        if not self.pushing:
            wait = point - _STANDOFF_MM * normal
            if float(np.hypot(*(wait - view.pusher_mm))) > 5.0:
                return self.walk(view, wait, period_s)
            self.pushing = True
        return self._push(view, point, normal)

    def _twists(self, angle_rad: float) -> Vector:
        """Motion of the block per mm of push at every contact, (contacts, 3): mm, mm, rad."""
        normals = _NORMALS @ _turn(angle_rad).T
        return np.column_stack([normals * _SHARE[:, None], _LEVERS / TURN_MM**2 * _SHARE])

    def _exhausted(self, view: View, twists: Vector) -> bool:
        """Whether a push at the chosen contact no longer lowers the cost, or the contact was lost."""
        if not self.pushing:
            return False
        slope = float((_WEIGHTS * self.error(view) * twists[self.contact]).sum())
        turn = _turn(view.angle_rad)
        offset = view.pusher_mm - view.block_mm - turn @ _POINTS[self.contact]
        normal = turn @ _NORMALS[self.contact]
        aside = abs(float(offset[0] * normal[1] - offset[1] * normal[0]))
        return slope > -1e-4 or aside > 12.0

    def _choose(self, view: View, twists: Vector) -> int:
        """The contact whose best push lowers the cost most, with a penalty for the way to it."""
        error = self.error(view)
        slope = (twists * _WEIGHTS * error).sum(axis=1)
        curve = (twists * _WEIGHTS * twists).sum(axis=1)
        gain = np.where(slope < 0.0, slope * slope / curve, 0.0)
        points = view.block_mm + (_POINTS - _STANDOFF_MM * _NORMALS) @ _turn(view.angle_rad).T
        walk = np.hypot(*(points - view.pusher_mm).T)
        return int(np.argmax(gain * np.exp(-walk / 600.0)))

    def _push(self, view: View, point: Vector, normal: Vector) -> Vector:
        """Velocity (2,) along the normal, corrected to its line, slower near the best length of the push."""
        offset = view.pusher_mm - point
        along = float(offset @ normal)
        aside = offset - along * normal
        speed = self.push_mm_s if along > -PUSHER_MM - 3.0 else min(2.0 * self.push_mm_s, 160.0)
        return speed * self._ease(view) * normal - 4.0 * aside

    def _ease(self, view: View) -> float:
        twist = self._twists(view.angle_rad)[self.contact]
        slope = -float((_WEIGHTS * self.error(view) * twist).sum())
        left_mm = slope / float((_WEIGHTS * twist * twist).sum())
        return float(np.clip(left_mm / 12.0, 0.25, 1.0))

    def walk(self, view: View, target: Vector, period_s: float) -> Vector:
        """Velocity (2,) in mm/s to a target (2,) in mm: straight on a free path, else around the block."""
        here = view.pusher_mm
        if self._free(view, here, target):
            goal = target
        else:
            out = here - view.block_mm
            radius = float(np.hypot(*out))
            aim = target - view.block_mm
            bearing, wanted = np.arctan2(out[1], out[0]), np.arctan2(aim[1], aim[0])
            ahead = np.arctan2(np.sin(wanted - bearing), np.cos(wanted - bearing))
            step = float(np.clip(ahead, -0.3, 0.3)) if radius > _ROUND_MM - 14.0 else 0.0
            goal = view.block_mm + _ROUND_MM * np.array([np.cos(bearing + step), np.sin(bearing + step)])
            if step == 0.0:
                goal = self._leave(view, goal)
        away = goal - here
        distance = float(np.hypot(*away))
        return away / max(distance, 1e-9) * min(self.walk_mm_s, distance / period_s * 0.6)

    def _leave(self, view: View, outward: Vector) -> Vector:
        """Away from the side that the pusher still touches, before it moves outward."""
        if self._free(view, view.pusher_mm, outward):
            return outward
        local = _turn(view.angle_rad).T @ (view.pusher_mm - view.block_mm)
        nearest = int(np.argmin(np.hypot(*(_POINTS - PUSHER_MM * _NORMALS - local).T)))
        return view.pusher_mm - 30.0 * (_turn(view.angle_rad) @ _NORMALS[nearest])

    @staticmethod
    def _free(view: View, here: Vector, there: Vector) -> bool:
        """Whether the straight path keeps clear of the block, except where it only leaves it."""
        steps = np.linspace(0.0, 1.0, 14)[:, None]
        way = (here + steps * (there - here) - view.block_mm) @ _turn(view.angle_rad)
        distance = outside_mm(way)
        return bool((distance[1:] > np.minimum(_CLEAR_MM, distance[:-1] + 0.5)).all())


def _turn(angle_rad: float) -> Vector:
    """Rotation matrix (2, 2) from the block's frame to the table's."""
    cosine, sine = np.cos(angle_rad), np.sin(angle_rad)
    return np.array([[cosine, -sine], [sine, cosine]])


def pushed(view: View, pusher_mm: Vector) -> View:
    """The view after the pusher moved straight to `pusher_mm` (2,) without sliding on the block."""
    for share in np.linspace(0.25, 1.0, 4):
        here = view.pusher_mm + share * (pusher_mm - view.pusher_mm)
        turn = _turn(view.angle_rad)
        point, normal, gap_mm = _touched(turn.T @ (here - view.block_mm))
        depth_mm = max(0.0, PUSHER_MM - gap_mm)
        lever = float(point[0] * normal[1] - point[1] * normal[0])
        moved_mm = depth_mm / (1.0 + (lever / TURN_MM) ** 2)
        view = View(
            block_mm=view.block_mm + moved_mm * (turn @ normal),
            angle_rad=view.angle_rad + moved_mm * lever / TURN_MM**2,
            pusher_mm=view.pusher_mm,
        )
    return View(block_mm=view.block_mm, angle_rad=view.angle_rad, pusher_mm=pusher_mm)


def _touched(place: Vector) -> tuple[Vector, Vector, float]:
    """(nearest point (2,) of the T to a pusher at `place` (2,), inward normal (2,), gap); mm, block's frame."""
    nearest = np.array([[0.0, BAR_Y_MM], [0.0, STEM_Y_MM]])
    halves = np.array([BAR_HALF_MM, STEM_HALF_MM])
    points = nearest + np.clip(place - nearest, -halves, halves)
    gaps = np.hypot(*(place - points).T)
    best = int(np.argmin(gaps))
    inward = (points[best] - place) / gaps[best] if gaps[best] > 1e-6 else np.zeros(2)
    return points[best], inward, float(gaps[best])


def outside_mm(points: Vector) -> Vector:
    """Distance (n,) in mm of points (n, 2) in mm, in the block's frame, from the T; 0 inside."""
    return np.minimum(_box_distance(points, BAR_HALF_MM, BAR_Y_MM), _box_distance(points, STEM_HALF_MM, STEM_Y_MM))


def _box_distance(points: Vector, half_mm: tuple[float, float], y_mm: float) -> Vector:
    """Distance (n,) in mm of points (n, 2) in the block's frame from one of its boxes; 0 inside."""
    gap = np.maximum(np.abs(points - (0.0, y_mm)) - half_mm, 0.0)
    return np.hypot(gap[:, 0], gap[:, 1])


def limit_speed(command: Vector) -> Vector:
    """Scale a command (2,) in mm/s so that no axis exceeds the limit."""
    most = float(np.abs(command).max())
    return command * (SPEED_MM_S / most) if most > SPEED_MM_S else command
