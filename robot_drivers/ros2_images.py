"""Camera images of ROS 2 as (height, width, 3) uint8, RGB: compressed ones, and raw ones in four encodings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from enpire.errors import RobotProblem
from enpire.store import pictures
from enpire.types import ImageArray

ENCODINGS = {"rgb8": 3, "bgr8": 3, "mono8": 1, "16UC1": 2}
"""Encoding of a sensor_msgs/Image -> bytes per pixel."""


def decode_compressed(message: Any) -> ImageArray:
    """A sensor_msgs/CompressedImage (JPEG, PNG) as (height, width, 3) uint8; RobotProblem when it is unreadable."""
    try:
        return pictures.opened(bytes(message.data))
    except OSError as problem:
        raise RobotProblem(
            f"A camera on ROS 2 published an unreadable image: {problem}; check its driver."
        ) from problem


def decode_raw(message: Any, depth_m: float) -> ImageArray:
    """A sensor_msgs/Image as (height, width, 3) uint8.

    A 16UC1 image is a distance in mm; it becomes gray, black at 0 and white from `depth_m` [m] on.

    Raises:
        RobotProblem: its encoding is not supported, or its size does not fit its data.
    """
    height, width, encoding = int(message.height), int(message.width), str(message.encoding)
    if encoding not in ENCODINGS:
        raise RobotProblem(
            f"A camera on ROS 2 publishes images with the encoding {encoding!r}; allowed are {', '.join(ENCODINGS)}."
        )
    row, step = width * ENCODINGS[encoding], int(message.step)
    data = np.frombuffer(bytes(message.data), np.uint8)
    if not 0 < height * width <= pictures.MOST_PIXELS or step < row or len(data) < height * step:
        raise RobotProblem(
            f"A camera on ROS 2 published {len(data)} bytes for {height} rows of {step} bytes, {width} pixels in"
            f" {encoding}; check its driver."
        )
    rows = data[: height * step].reshape(height, step)[:, :row]
    if encoding in {"rgb8", "bgr8"}:
        colours = rows.reshape(height, width, 3)
        return np.ascontiguousarray(colours if encoding == "rgb8" else colours[:, :, ::-1])
    gray = rows if encoding == "mono8" else _gray(rows, bool(message.is_bigendian), depth_m)
    return np.repeat(gray[:, :, None], 3, axis=2)


def _gray(rows: npt.NDArray[np.uint8], big_endian: bool, depth_m: float) -> npt.NDArray[np.uint8]:
    """Distances in mm, two bytes per pixel (height, 2 * width), as gray (height, width) uint8."""
    near_mm = np.ascontiguousarray(rows).view(np.dtype(">u2" if big_endian else "<u2"))
    return np.clip(near_mm.astype(np.float32) * (255.0 / (1e3 * depth_m)), 0, 255).astype(np.uint8)
