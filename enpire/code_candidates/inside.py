"""What the rooms do first: limit the process, write the candidate's files, load one of them by its path."""

from __future__ import annotations

import importlib.util
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import ModuleType

from enpire.code_candidates.frames import Frames
from enpire.errors import PolicyProblem
from enpire.field_reader import Fields
from enpire.files import parse
from enpire.processes.child_process import die_with_parent
from enpire.processes.room_limits import RoomLimits, limit_this_process

CODE = "code.json"
"""File of a version with the candidate's code: path -> text."""
LONGEST_WHY = 1000


def enter(arguments: list[str]) -> tuple[Frames, Fields]:
    """The channel of this room and its first message, after the limits of this process were set."""
    die_with_parent()
    frames = Frames(socket.socket(fileno=int(arguments[0])))
    first = frames.receive()
    if first is None:
        sys.exit(0)
    limit_this_process(parse(RoomLimits, first.get("limits"), "The limits of the room"))
    return frames, first


def write_code(files: Mapping[str, str], work: Path) -> Path:
    """Write a candidate's files into a folder of the room, and let its modules import each other; the folder."""
    folder = work / "code"
    for place, text in files.items():
        path = folder / PurePosixPath(place)  # the surface allows no other folder than skills
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    return folder


def write_sent(first: Fields) -> Path:
    """Write the files that a room's first message has, as `write_code` does; the folder."""
    return write_code({path: str(text) for path, text in first.mapping("files").items()}, Path(first.text("work")))


def load(folder: Path, name: str) -> ModuleType:
    """The module of a candidate's file; whatever its code raises goes through."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise PolicyProblem(f"the candidate has no {name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def described(problem: BaseException, folder: Path) -> str:
    """An exception of a candidate's code with its place there, on one line."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = next((one for one in reversed(frames) if one.filename.startswith(str(folder))), None)
    where = f" ({Path(place.filename).name}, line {place.lineno})" if place else ""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:LONGEST_WHY] + where
