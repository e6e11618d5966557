"""Writes an episode as an MCAP file with ROS 2 message types, for Foxglove and the tools of ROS 2.

Times are wall-clock times. Topics: /state and /action (JointState: name and position hold all numbers of the task, in
its units), /source, /intervention, /critics/NAME, /verdict, /cameras/NAME/compressed, and /rosout for all notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from enpire.datasets.ros2_definitions import DEFINITIONS
from enpire.datasets.timelines import EncodedImages, Level, Timeline, is_jpeg
from enpire.errors import MissingExtra
from enpire.types import Bounds, FloatArray

_LEVELS: Mapping[Level, int] = {"INFO": 20, "WARN": 30, "ERROR": 40}
"""Values of `level` in rcl_interfaces/msg/Log."""
type _Value = float | str | bytes | list[str] | list[float] | Mapping[str, _Value]
type Content = Mapping[str, _Value]
Message = tuple[int, str, str, Content]
"""(tick, topic, type, content)."""


def write_mcap(timeline: Timeline, images: Iterable[tuple[int, EncodedImages]], path: Path) -> None:
    """Write one episode to a new file.

    Args:
        timeline: of the episode.
        images: (tick, camera -> JPEG or PNG bytes), in order of ticks.
        path: of the file.

    Raises:
        MissingExtra: the package of MCAP is not installed.
    """
    try:
        from mcap_ros2.writer import Writer  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Writing .mcap needs MCAP ({error}): pip install 'enpire[mcap]'.") from error
    with path.open("wb") as file:
        writer: Any = Writer(file)
        schemas = {name: writer.register_msgdef(name, text) for name, text in DEFINITIONS.items()}
        writer.add_metadata("enpire", timeline.facts())
        for number, (tick, topic, kind, content) in enumerate(_messages(timeline, images)):
            at_ns = _time_ns(timeline, tick)
            writer.write_message(topic, schemas[kind], content, log_time=at_ns, publish_time=at_ns, sequence=number)
        writer.finish()


def _messages(timeline: Timeline, images: Iterable[tuple[int, EncodedImages]]) -> Iterator[Message]:
    arrays = timeline.arrays
    for tick, row in enumerate(arrays.state):
        yield tick, "/state", "sensor_msgs/msg/JointState", _numbers(timeline, tick, timeline.spec.state, row)
    for tick, row in enumerate(arrays.action):
        yield tick, "/action", "sensor_msgs/msg/JointState", _numbers(timeline, tick, timeline.spec.action, row)
    for tick, (source, human) in enumerate(zip(arrays.source.tolist(), timeline.human.tolist(), strict=True)):
        yield tick, "/source", "std_msgs/msg/UInt8", {"data": source}
        yield tick, "/intervention", "std_msgs/msg/Bool", {"data": human}
    for name in timeline.critics:
        for tick, value in timeline.decisions(name):
            yield tick, f"/critics/{name}", "std_msgs/msg/Float64", {"data": value}
    for note in timeline.notes:
        content: Content = {
            "stamp": _stamp(timeline, note.tick), "level": _LEVELS[note.level], "name": "enpire", "msg": note.text,
            "file": "", "function": "", "line": 0,
        }  # fmt: skip
        yield note.tick, "/rosout", "rcl_interfaces/msg/Log", content
    yield timeline.ticks, "/verdict", "std_msgs/msg/String", {"data": timeline.episode.outcome}
    for tick, seen in images:
        for camera, data in seen.items():
            form = "jpeg" if is_jpeg(data) else "png"
            content = {"header": _header(timeline, tick, camera), "format": form, "data": data}
            yield tick, f"/cameras/{camera}/compressed", "sensor_msgs/msg/CompressedImage", content


def _numbers(timeline: Timeline, tick: int, bounds: tuple[Bounds, ...], row: FloatArray) -> Content:
    names = [one.name for one in bounds]
    return {
        "header": _header(timeline, tick, ""), "name": names, "position": row.tolist(), "velocity": [], "effort": [],
    }  # fmt: skip


def _time_ns(timeline: Timeline, tick: int) -> int:
    return timeline.began_ns + round(tick * timeline.spec.period_s * 1e9)


def _stamp(timeline: Timeline, tick: int) -> Content:
    seconds, nanoseconds = divmod(_time_ns(timeline, tick), 10**9)
    return {"sec": seconds, "nanosec": nanoseconds}


def _header(timeline: Timeline, tick: int, frame: str) -> Content:
    return {"stamp": _stamp(timeline, tick), "frame_id": frame}
