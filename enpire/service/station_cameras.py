"""The cameras of a LeRobot robot in its station file.

Only the value of `cameras` changes; comments and everything else in the file stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from enpire.errors import FileProblem, UsageError
from enpire.files import is_mapping, plain, read_yaml_text
from enpire.parts import TASKS
from enpire.station.station_file import read_station
from enpire.store import durable
from enpire.types import Json

__all__ = ["Camera", "camera_names", "write_cameras"]

type Camera = Mapping[str, Json]
"""LeRobot's configuration of a camera."""


def camera_names(path: Path) -> tuple[str, ...]:
    """The cameras that the robot of a station file needs: those of its task.

    Raises:
        UsageError: the file is none of yours, its robot is not one of LeRobot's, or its task has no cameras.
        EnpireError: the file or the task cannot be read.
    """
    if path.suffix not in {".yaml", ".yml"}:
        raise UsageError(f"{path} is no station file: name one that ends in .yaml, such as a copy of a shipped one.")
    file = read_station(path)
    if not is_mapping(_at(file.options, _robot_keys(file.options)[1:])):
        raise UsageError(f"The station {path} has no LeRobot robot under `options`; see docs/robots.md.")
    names = TASKS.make(file.task).spec.cameras
    if not names:
        raise UsageError(f"The task {file.task} of the station {path} has no cameras.")
    return names


def write_cameras(path: Path, cameras: Mapping[str, Camera]) -> None:
    """Give the robot of a station file these cameras: name -> LeRobot's configuration.

    Raises:
        UsageError: the names are not those of the task's cameras, or two of them are one camera.
        FileProblem: the file cannot be changed without changing anything else.
    """
    names = camera_names(path)
    if set(cameras) != set(names):
        raise UsageError(f"Name each camera of the task, and no other: {', '.join(names)}.")
    if len({str(camera) for camera in cameras.values()}) < len(cameras):
        raise UsageError("Two names have the same camera; give each name a camera of its own.")
    path = path.resolve()
    text = path.read_bytes().decode("utf-8")  # with its own ends of lines
    before = read_yaml_text(text, path)
    keys = _robot_keys(before["options"])
    changed = _changed(text, keys, cameras)
    if changed is None or not _changes_nothing_else(changed, path, before, (*keys, "cameras"), cameras):
        raise FileProblem(f"The cameras cannot be written into {path}; write them there yourself, under `robot`.")
    durable.write(path, changed.encode(), path.stat().st_mode & 0o777)


def _changes_nothing_else(
    changed: str, path: Path, before: object, at: tuple[str, ...], cameras: Mapping[str, Camera]
) -> bool:
    try:
        after = read_yaml_text(changed, path)
    except FileProblem:
        return False
    return _at(after, at) == plain(cameras) and _without(after, at) == _without(before, at)


def _without(content: object, at: tuple[str, ...]) -> object:
    """The content of a file without the value at some keys."""
    if not is_mapping(content):
        return content
    first, *rest = at
    kept = {key: value for key, value in content.items() if rest or key != first}
    return kept | ({first: _without(kept[first], tuple(rest))} if first in kept else {})


def _robot_keys(options: object) -> tuple[str, ...]:
    """Where a station file has LeRobot's configuration of its robot; behind a guard one level deeper."""
    guarded = is_mapping(options) and "guard" in options
    return ("options", "options", "robot") if guarded else ("options", "robot")


def _at(content: object, keys: tuple[str, ...]) -> object:
    for key in keys:
        content = content.get(key) if is_mapping(content) else None
    return content


def _changed(text: str, keys: tuple[str, ...], cameras: Mapping[str, Camera]) -> str | None:
    """The text of a station file with other cameras; None where it is not written plainly."""
    compose: Any = getattr(yaml, "compose")  # noqa: B009 - its stubs have no types
    node = compose(text, Loader=yaml.SafeLoader)
    for key in keys:
        node = _value(node, key)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return None
    written = yaml.safe_dump(plain(cameras), default_flow_style=True, sort_keys=False, width=10**6).strip()
    old = _value(node, "cameras")
    if old is not None:
        before, after = text[: old.start_mark.index], text[_end(old) :]
        return f"{before}{'' if before.endswith((' ', chr(10))) else ' '}{written}{after}"
    first: Any = node.value[0][0]
    at, column = first.start_mark.index, first.start_mark.column
    then = ", " if node.flow_style else "\n" + " " * column
    return f"{text[:at]}cameras: {written}{then}{text[at:]}"


def _value(node: Any, key: str) -> Any:
    pairs: list[tuple[Any, Any]] = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _end(node: Any) -> int:
    """Where the text of a node ends; a block ends with its last value, before comments that follow."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last: Any = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return int(node.end_mark.index)
