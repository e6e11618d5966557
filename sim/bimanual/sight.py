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
    depth = -seen[..., 2]
    return (depth > 0.01) & (np.abs(seen[..., :2]).max(axis=-1) < widest * depth)


def behind_boxes(eye: Rows, points: Rows, middles: Rows, halves: Rows) -> Mask:
    """Whether any of the boxes (b, 3), (b, 3) stands between `eye` (n, 3) and points (n, k, 3), all in one frame."""
    way = points - eye[:, None]
    way = np.where(np.abs(way) < 1e-9, 1e-9, way)[:, :, None]
    one = (middles - halves - eye[:, None])[:, None] / way
    other = (middles + halves - eye[:, None])[:, None] / way
    enters = np.minimum(one, other).max(axis=-1)
    leaves = np.maximum(one, other).min(axis=-1)
    return ((enters < leaves) & (leaves > 0.0) & (enters < _BEFORE)).any(axis=-1)


def behind_balls(eye: Rows, points: Rows, middles: Rows, radii: Rows) -> Mask:
    """Whether any of the balls (n, b, 3), (b,) stands between `eye` (n, 3) and points (n, k, 3)."""
    way, off = (points - eye[:, None])[:, :, None], (middles - eye[:, None])[:, None]
    share = (way * off).sum(axis=-1) / np.maximum((way * way).sum(axis=-1), 1e-12)
    nearest = off - np.clip(share, 0.0, _BEFORE)[..., None] * way
    return ((nearest * nearest).sum(axis=-1) < radii**2).any(axis=-1)
