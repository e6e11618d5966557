"""Finds the cameras of this computer through LeRobot, and takes a still with each.

A camera is LeRobot's configuration of it, as it stands in a station file:
`{type: opencv, index_or_path: /dev/video0, width: 640, height: 480, fps: 30}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enpire.errors import RobotProblem
from enpire.files import is_mapping
from enpire.plugins import is_installed

USUAL_FPS = 30
"""For a camera that names no rate."""
WARM_S = 1
"""How long a camera adapts to the light before its still [s]."""


def find() -> list[Mapping[str, object]]:
    """Every camera that LeRobot's OpenCV and, where its package is installed, RealSense finds."""
    return [_configuration(about) for about in _described()]


def take_still(camera: Mapping[str, object], path: Path) -> None:
    """Write one image of a camera, in its own size, as PNG.

    Raises:
        RobotProblem: LeRobot cannot open the camera, or it gives no image.
    """
    from PIL import Image

    opened = _opened(camera)
    try:
        opened.connect()
        try:
            image = np.asarray(opened.read(), np.uint8)
        finally:
            opened.disconnect()
    except (OSError, RuntimeError, ValueError) as problem:
        raise RobotProblem(f"It gives no image: {' '.join(str(problem).split())[:200]}") from problem
    Image.fromarray(image).save(path, format="PNG")


def _described() -> Iterator[Mapping[str, Any]]:
    from lerobot.cameras.opencv import OpenCVCamera

    yield from OpenCVCamera.find_cameras()
    if is_installed("pyrealsense2"):
        from lerobot.cameras.realsense import RealSenseCamera

        yield from RealSenseCamera.find_cameras()


def _configuration(about: Mapping[str, Any]) -> Mapping[str, object]:
    profile = about.get("default_stream_profile")
    size: Mapping[object, object] = profile if is_mapping(profile) else {}
    place = {"type": "opencv", "index_or_path": about["id"]}
    if about["type"] == "RealSense":
        place = {"type": "intelrealsense", "serial_number_or_name": str(about["id"])}
    width, height = _number(size.get("width")), _number(size.get("height"))
    return {**place, "width": width, "height": height, "fps": _number(size.get("fps")) or USUAL_FPS}


def _number(value: object) -> int:
    return round(value) if isinstance(value, int | float) else 0


def _opened(camera: Mapping[str, object]) -> Any:
    if camera["type"] == "intelrealsense":
        from lerobot.cameras.realsense import RealSenseCamera, RealSenseCameraConfig

        number = str(camera["serial_number_or_name"])
        return RealSenseCamera(RealSenseCameraConfig(serial_number_or_name=number, warmup_s=WARM_S))
    from lerobot.cameras.opencv import OpenCVCamera, OpenCVCameraConfig

    place = camera["index_or_path"]
    path = place if isinstance(place, int) else Path(str(place))
    return OpenCVCamera(OpenCVCameraConfig(index_or_path=path, warmup_s=WARM_S))
