"""Finds the cameras of this computer through LeRobot, and takes a still with each.

A camera is LeRobot's configuration of it, as it stands in a station file:
`{type: opencv, index_or_path: /dev/video0, width: 640, height: 480, fps: 30}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from enpire.errors import MissingExtra, RobotProblem
from enpire.files import is_mapping
from enpire.plugins import is_installed

SIZE = ("width", "height", "fps")
"""What a camera says about its images. Where it gives no whole number, the camera's own value is used."""
WARM_S = 1
"""How long a camera adapts to the light before its still [s]."""


def find() -> list[Mapping[str, object]]:
    """Every camera that LeRobot's OpenCV and, where its package is installed, RealSense finds.

    Raises:
        MissingExtra: LeRobot is not installed.
    """
    return [_configuration(about) for about in _described()]


def take_still(camera: Mapping[str, object], path: Path) -> None:
    """Write one image of a camera, opened as the station will open it, as PNG.

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
    if not is_installed("lerobot"):
        raise MissingExtra("Cameras are found through LeRobot, which is not installed: pip install 'enpire[lerobot]'.")
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
    return {**place, **{name: whole for name in SIZE if (whole := _whole(size.get(name)))}}


def _whole(value: object) -> int:
    """A whole number, as LeRobot's configuration takes it; 0 for any other, such as a rate of 29.97 Hz."""
    return int(value) if isinstance(value, int | float) and value > 0 and float(value).is_integer() else 0


def _opened(camera: Mapping[str, Any]) -> Any:
    size = {name: camera[name] for name in SIZE if name in camera}
    if len(size) < len(SIZE) and camera["type"] == "intelrealsense":
        size = {}  # LeRobot takes all three of a RealSense camera, or none
    if camera["type"] == "intelrealsense":
        from lerobot.cameras.realsense import RealSenseCamera, RealSenseCameraConfig

        number = str(camera["serial_number_or_name"])
        return RealSenseCamera(RealSenseCameraConfig(serial_number_or_name=number, warmup_s=WARM_S, **size))
    from lerobot.cameras.opencv import OpenCVCamera, OpenCVCameraConfig

    place = camera["index_or_path"]
    path = place if isinstance(place, int) else Path(str(place))
    return OpenCVCamera(OpenCVCameraConfig(index_or_path=path, warmup_s=WARM_S, **size))
