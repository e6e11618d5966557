"""Loads the driver file of a laboratory: one Python file with a function `robot(**options) -> Robot`."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from enpire.errors import EnpireError, FileProblem
from enpire.interfaces import Robot
from enpire.plugins import look_here

MEMBERS = ("spec", "connect", "observe", "act", "stop", "close")


def load_robot(path: Path, options: Mapping[str, object]) -> Robot:
    """Make the robot of a driver file; it is not connected yet. The file may import modules of the current folder.

    Raises:
        FileProblem: the file does not exist or fails, has no function `robot`, or this function returns no Robot.
        EnpireError: raised by the driver file itself.
    """
    if not path.is_file():
        raise FileProblem(f"The driver file {path} does not exist; check the path.")
    look_here()
    try:
        make = runpy.run_path(str(path)).get("robot")
    except SyntaxError as problem:
        raise FileProblem(f"The driver file {path} is not Python: {problem}.") from problem
    except EnpireError:
        raise
    except Exception as problem:
        raise FileProblem(f"The driver file {path} fails with {type(problem).__name__}: {problem}.") from problem
    if not callable(make):
        raise FileProblem(f"The driver file {path} needs a function robot(**options) that returns the robot.")
    try:
        made = make(**options)
    except TypeError as problem:
        raise FileProblem(f"The driver file {path} cannot make a robot of {dict(options)}: {problem}.") from problem
    if missing := [name for name in MEMBERS if not hasattr(made, name)]:
        raise FileProblem(f"The robot of {path} has no {', '.join(missing)}; a robot needs {', '.join(MEMBERS)}.")
    return cast("Robot", made)
