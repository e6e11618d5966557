"""Which points a camera sees: what stands in the way, and what lies beside the picture. Many rows at once.

Products are written out, so that a row's numbers do not depend on how many others are computed with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.bimanual.kinematics import Rows

Mask = npt.NDArray[np.bool_]
_BEFORE = 0.97
"""What stands in the last part of the way belongs to the target itself."""


def into(frame: Rows, vectors: Rows) -> Rows:
    """Vectors (n, ..., 3) of the world in frames (n, 3, 3) whose columns are the axes."""
    axes = frame.reshape((len(frame),) + (1,) * (vectors.ndim - 2) + (3, 3))
    x, y, z = vectors[..., :1], vectors[..., 1:2], vectors[..., 2:]
    return axes[..., 0, :] * x + axes[..., 1, :] * y + axes[..., 2, :] * z


def in_picture(eye: Rows, frame: Rows, points: Rows, widest: Rows | float) -> Mask:
    """Whether points (n, k, 3) lie in a square picture; `widest`: tangent of half the angle of view, (n, 1) or one.

    The camera stands at `eye` (n, 3) and looks along minus z of `frame` (n, 3, 3), as MuJoCo's cameras do.
    """
    seen = into(frame, points - eye[:, None])
    depth, aside = -seen[..., 2], np.abs(seen)
    return (depth > 0.01) & (np.maximum(aside[..., 0], aside[..., 1]) < widest * depth)


def behind_boxes(eye: Rows, points: Rows, middles: Rows, halves: Rows) -> Mask:
    """Whether any of some boxes stands between `eye` (n, 3) and points (n, k, 3), all in one frame.

    Boxes, by their middles and half sizes, are the same for every row, (b, 3), or each row has its own, (n, 1, b, 3).
    """
    way = points - eye[:, None]
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)[:, :, None]
    off = middles - eye[:, None, None]
    one, other = (off - halves) / way, (off + halves) / way
    near, far = np.minimum(one, other), np.maximum(one, other)
    enters = np.maximum(np.maximum(near[..., 0], near[..., 1]), near[..., 2])
    leaves = np.minimum(np.minimum(far[..., 0], far[..., 1]), far[..., 2])
    return np.logical_or.reduce((enters < leaves) & (leaves > 0.0) & (enters < _BEFORE), axis=-1)


def behind_balls(eye: Rows, points: Rows, middles: Rows, radii: Rows) -> Mask:
    """Whether any of the balls (n, b, 3), (b,) stands between `eye` (n, 3) and points (n, k, 3)."""
    way, off = points - eye[:, None], middles - eye[:, None]
    # Of each point (n, k, 1) and each ball (n, 1, b): how far along the way the ball is, and how near to it.
    along = way[:, :, None, 0] * off[:, None, :, 0]
    along += way[:, :, None, 1] * off[:, None, :, 1]
    along += way[:, :, None, 2] * off[:, None, :, 2]
    length, apart = _square(way)[:, :, None], _square(off)[:, None]
    share = np.minimum(np.maximum(along / np.maximum(length, 1e-12), 0.0), _BEFORE)
    return np.logical_or.reduce(apart + share * (share * length - 2.0 * along) < radii**2, axis=-1)


def _square(vectors: Rows) -> Rows:
    """Squared lengths of vectors (..., 3)."""
    return vectors[..., 0] ** 2 + vectors[..., 1] ** 2 + vectors[..., 2] ** 2
