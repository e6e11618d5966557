"""Projection of points of the world into the images of the station's calibrated cameras."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import ImageArray
from sim.bimanual.kinematics import TOOL_M, Rows, Side, reach
from sim.bimanual.station_model import TOP_AXES, TOP_FOVY_DEG, TOP_M, WRIST_AXES, WRIST_FOVY_DEG, WRIST_M


def top_pixels(points_m: Rows, size: int) -> Rows:
    """Column and row (n, 2) of points (n, 3) in m in the top camera's square image of `size` pixels; nan behind it."""
    return _pixels(points_m, np.array(TOP_M), _frame(TOP_AXES), TOP_FOVY_DEG, size)


def wrist_pixels(side: Side, joints: Rows, points_m: Rows, size: int) -> Rows:
    """The same in the image of a wrist camera, for the arm's joints (6,) in rad."""
    now = reach(side, joints[None])
    link = now.at_m[0] - TOOL_M * now.turn[0, :, 0]
    return _pixels(
        points_m, link + now.turn[0] @ np.array(WRIST_M), now.turn[0] @ _frame(WRIST_AXES), WRIST_FOVY_DEG, size
    )


def cut_out(picture: ImageArray, pixels: Rows, margin_px: int) -> tuple[ImageArray, Rows]:
    """The part of an image (height, width, 3) around pixels (n, 2), with a margin, and the pixels (n, 2) in it."""
    limits = np.array([picture.shape[1], picture.shape[0]])
    seen = pixels[np.asarray(np.isfinite(pixels)).all(axis=1)]
    if not len(seen):
        return picture[:1, :1], pixels
    low = np.clip(seen.min(axis=0).astype(np.intp) - margin_px, 0, limits - 1)
    high = np.clip(seen.max(axis=0).astype(np.intp) + margin_px + 1, low + 1, limits)
    return picture[low[1] : high[1], low[0] : high[0]], pixels - low


def share_at(mask: npt.NDArray[np.bool_], pixels: Rows, reach_px: tuple[int, int] = (0, 0)) -> float:
    """Share of the pixels (n, 2) at which an image's mask (rows, columns) is true; outside of the image it is false.

    Returns the largest share over all shifts by up to `reach_px` columns and rows, as a camera may have moved a little
    since its calibration.
    """
    inside = np.asarray(np.isfinite(pixels)).all(axis=1, keepdims=True)
    places = np.where(inside, pixels, -1e6).astype(np.intp)
    across, down = (np.arange(-reach, reach + 1) for reach in reach_px)
    columns = places[None, None, :, 0] + across[:, None, None]
    rows = places[None, None, :, 1] + down[None, :, None]
    fits = (columns >= 0) & (columns < mask.shape[1]) & (rows >= 0) & (rows < mask.shape[0])
    held = mask[np.where(fits, rows, 0), np.where(fits, columns, 0)] & fits
    return float(held.mean(axis=2).max())


def _frame(axes: tuple[float, ...]) -> Rows:
    """The camera's axes as columns, from MJCF's `xyaxes`."""
    right, up = np.array(axes[:3], dtype=np.float64), np.array(axes[3:], dtype=np.float64)
    right /= float(np.sqrt(right @ right))
    up -= float(up @ right) * right
    up /= float(np.sqrt(up @ up))
    return np.stack([right, up, np.cross(right, up)], axis=1)


def _pixels(points_m: Rows, eye: Rows, frame: Rows, fovy_deg: float, size: int) -> Rows:
    seen = (points_m - eye) @ frame
    depth = np.where(seen[:, 2] < -1e-3, -seen[:, 2], np.nan)
    scale = 0.5 * size / np.tan(0.5 * np.deg2rad(fovy_deg))
    return np.stack([0.5 * size + scale * seen[:, 0] / depth, 0.5 * size - scale * seen[:, 1] / depth], axis=1)
