"""Which points a camera sees: the field of view and occlusion, for many rows at once.

A row's result does not depend on how many others are computed with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.bimanual.kinematics import Rows

Mask = npt.NDArray[np.bool_]
_BEFORE = 0.97
"""An obstacle in the last 3 % of the way to a point belongs to the target itself."""


def into(frame: Rows, vectors: Rows) -> Rows:
    """Vectors (n, k, 3) of the world, expressed in frames (n, 3, 3) whose columns are the axes."""
    return vectors @ frame


def in_picture(eye: Rows, frame: Rows, points: Rows, widest: Rows | float) -> Mask:
    """Whether points (n, k, 3) in m lie in a square field of view: (n, k) bool.

    The camera is at `eye` (n, 3) and looks along minus z of `frame` (n, 3, 3), as MuJoCo's cameras do. `widest` is the
    tangent of half the angle of view, (n, 1) or one number.
    """
    seen = into(frame, points - eye[:, None])
    depth, aside = -seen[..., 2], np.abs(seen)
    return (depth > 0.01) & (np.maximum(aside[..., 0], aside[..., 1]) < widest * depth)


def behind_boxes(eye: Rows, points: Rows, middles: Rows, halves: Rows) -> Mask:
    """Whether a box occludes points (n, k, 3) seen from `eye` (n, 3), all in one frame and in m: (n, k) bool.

    Boxes are given by their middles and half sizes: the same for every row, (1, b, 3), or one set per row, (n, b, 3).
    """
    way = _from(eye, points)
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)[:, None]
    off, half = _from(eye, middles)[:, :, None], halves.T[:, :, None]
    one, other = (off - half) / way, (off + half) / way
    near, far = np.minimum(one, other), np.maximum(one, other)
    enters = np.maximum(np.maximum(near[0], near[1]), near[2])
    leaves = np.minimum(np.minimum(far[0], far[1]), far[2])
    return np.logical_or.reduce((enters < leaves) & (leaves > 0.0) & (enters < _BEFORE)).T


def behind_balls(eye: Rows, points: Rows, middles: Rows, radii: Rows) -> Mask:
    """Whether a ball, middles (n, b, 3) and radii (b,) in m, occludes points (n, k, 3) seen from `eye` (n, 3)."""
    way, off = _from(eye, points), _from(eye, middles)
    # For each ball (b, 1, n) and each point (k, n): how far along the ray the ball is, and how near to it.
    along = _sum(way[:, None] * off[:, :, None])
    length, apart = _sum(way * way), _sum(off * off)[:, None]
    share = np.minimum(np.maximum(along / np.maximum(length, 1e-12), 0.0), _BEFORE)
    near = apart + share * (share * length - 2.0 * along) < (radii**2)[:, None, None]
    return np.logical_or.reduce(near).T


def _from(eye: Rows, places: Rows) -> Rows:
    """Places (n, k, 3) relative to `eye` (n, 3), as (3, k, n): with the rows last, NumPy is twice as fast."""
    return np.subtract(places.T, eye.T[:, None], order="C")


def _sum(parts: Rows) -> Rows:
    """The sum of three parts (3, ...)."""
    return parts[0] + parts[1] + parts[2]
