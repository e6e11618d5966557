"""The T of gym-pusht: its outline, where pushes begin, and the shortest paths of the pusher around it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

PUSHER = 15.0
"""Radius of the pusher in pixels, the unit of every length here."""
STANDOFF = PUSHER + 7.0
"""Distance of the pusher's centre from the point of contact before a push begins."""
CLEAR = PUSHER + 3.0
"""Distance of the pusher's centre from the T on its path."""
MIDDLE = (0.0, 45.0)
"""Middle of the T in its own frame."""
BOXES = ((-60.0, 60.0, 0.0, 30.0), (-15.0, 15.0, 30.0, 120.0))
"""The T's two boxes in its own frame: x from, to; y from, to."""
LEAD = 84.0
"""Distance of the target ahead of the pusher on its path, in pixels: 42 pixels in a period."""
LOW, HIGH = 22.0, 490.0
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


def _starts() -> tuple[Vector, Vector]:
    """In the T's frame: where pushes begin (n, 2), and their directions (n, 2)."""
    starts, along = [], []
    for point, normal in zip(POINTS, NORMALS, strict=True):
        for aside in TURNS:
            direction = rotation(aside) @ normal
            start = point - STANDOFF * direction
            if outside(start[None])[0] >= CLEAR - 1.0:
                starts.append(start)
                along.append(direction)
    return np.array(starts), np.array(along)


STARTS, ALONG = _starts()


def free(here: Vector, there: Vector) -> npt.NDArray[np.bool_]:
    """Whether straight lines, in the T's frame, keep clear of the T, except where they only leave it.

    (..., 2) and (..., 2) -> (...).
    """
    steps = np.linspace(0.0, 1.0, 16)[:, None]
    paths = here[..., None, :] + steps * (there - here)[..., None, :]
    distance = outside(paths.reshape(-1, 2)).reshape(paths.shape[:-1])
    clear = distance[..., 1:] > np.minimum(CLEAR - 1.5, distance[..., :-1] + 0.3)
    return np.asarray(clear.all(axis=-1), np.bool_)


class Paths:
    """Shortest paths around the T, over points beside its corners."""

    def __init__(self) -> None:
        """Find which of the points, and which starts of pushes, see each other; all in the T's frame."""
        side = CLEAR + 6.0
        self.points = np.array([
            (-60.0 - side, -side), (60.0 + side, -side), (60.0 + side, 30.0 + side), (15.0 + side, 120.0 + side),
            (-15.0 - side, 120.0 + side), (-60.0 - side, 30.0 + side), (0.0, -side - 6.0), (0.0, 126.0 + side),
            (15.0 + side, 36.0 + side), (-15.0 - side, 36.0 + side),
        ])  # fmt: skip
        self._between = self._distance(self.points, self.points)
        self._to_starts = self._distance(self.points, STARTS)

    @staticmethod
    def _distance(here: Vector, there: Vector) -> Vector:
        """Lengths (n, m) of the straight lines between (n, 2) and (m, 2); infinite where the T is between."""
        first, last = np.broadcast_arrays(here[:, None], there[None])
        return np.where(free(first, last), np.hypot(*np.moveaxis(last - first, -1, 0)), np.inf)

    def _over_points(self, pose: Vector, seen: Vector) -> tuple[Vector, list[int]]:
        """Lengths (n,) of the shortest paths from the pusher to the points, and the first point of each.

        `seen`: (n,), the straight ones.
        """
        at = pose[:2] + self.points @ rotation(pose[2]).T
        barred = ((at < LOW) | (at > HIGH)).any(axis=1)
        length, first = np.where(barred, np.inf, seen), list(range(len(seen)))
        for _ in range(len(seen)):
            through = length[:, None] + self._between
            through[:, barred] = np.inf
            shorter = through.min(axis=0)
            better = np.flatnonzero(shorter < length - 1e-9)
            if not len(better):
                break
            by = through.argmin(axis=0)
            first = [first[by[i]] if i in better else first[i] for i in range(len(seen))]
            length = np.minimum(length, shorter)
        return length, first

    def lengths(self, pose: Vector, pusher: Vector) -> Vector:
        """Length (n,) of the path from the pusher to each of STARTS; infinite where there is none between the walls."""
        turn = rotation(pose[2])
        here = ((pusher - pose[:2]) @ turn)[None]
        length, _ = self._over_points(pose, self._distance(here, self.points)[0])
        found = np.minimum(self._distance(here, STARTS)[0], (length[:, None] + self._to_starts).min(axis=0))
        at = pose[:2] + STARTS @ turn.T
        return np.where(((at < LOW) | (at > HIGH)).any(axis=1), np.inf, found)

    def target(self, pose: Vector, pusher: Vector, goal: Vector) -> Vector:
        """The pusher's next target on the path to `goal`, all (2,) in the table's frame."""
        turn = rotation(pose[2])
        here, there = ((item - pose[:2]) @ turn for item in (pusher, goal))
        lead = LEAD
        if not free(here, there):
            length, first = self._over_points(pose, self._distance(here[None], self.points)[0])
            length = length + self._distance(self.points, there[None])[:, 0]
            if np.isfinite(length.min()):
                there = self.points[first[int(length.argmin())]]
                lead = max(24.0, min(LEAD, float(np.hypot(*(there - here)))))
            else:  # Touching the block in a corner of the table: away from it.
                there = here + (here - MIDDLE)
        away = there - here
        distance = float(np.hypot(*away))
        return pose[:2] + turn @ (here + away * min(1.0, lead / max(distance, 1e-9)))
