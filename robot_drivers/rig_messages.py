"""What a rig behind a wire is asked and answers: one pair for every transport, `answer` at the side of the robot."""

from __future__ import annotations

from dataclasses import asdict
from typing import Protocol

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem, TransportProblem
from enpire.fields import Fields
from enpire.files import parse
from enpire.interfaces import Rig
from enpire.types import MaskArray, Start, TaskSpec
from enpire.wire.rpc import Message, array_out, floats_in, mask_in, observation_out

BOUNDLESS = 1e30
"""Stands for an infinite bound on the wire: the reader of files refuses numbers that are not finite."""


_SENSOR_STD = "sight"
"""Key of `Bounds.sensor_std` in a message; rigs of earlier versions use it too."""


class MonitoredRig(Rig, Protocol):
    """A rig that knows which lanes left the envelope, and whose stop holds until it is resumed."""

    violated: MaskArray
    clipped: npt.NDArray[np.int64]
    offences: list[str]

    @property
    def stopped(self) -> bool:
        """Whether a stop holds."""
        ...

    @property
    def stale(self) -> str:
        """One sentence on a sensor that stands still."""
        ...

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may put a simulated scene into its start at once."""

    def resume(self) -> None:
        """Allow motion again."""


def spec_out(spec: TaskSpec) -> Message:
    """A spec for a message."""
    content = asdict(spec)
    for bounds in (*content["state"], *content["action"]):
        bounds["low"] = max(bounds["low"], -BOUNDLESS)
        bounds["high"] = min(bounds["high"], BOUNDLESS)
        bounds[_SENSOR_STD] = bounds.pop("sensor_std")
    return content


def spec_in(content: object) -> TaskSpec:
    """A spec out of a message."""
    try:
        return parse(TaskSpec, _as_fields(content), "The spec of the robot behind the wire")
    except FileProblem as problem:
        raise TransportProblem(str(problem)) from problem


def _as_fields(content: object) -> object:
    """The message with the key `sight` of each number renamed to the field `sensor_std`."""
    if isinstance(content, dict):
        return {("sensor_std" if key == _SENSOR_STD else key): _as_fields(value) for key, value in content.items()}
    return [_as_fields(item) for item in content] if isinstance(content, list | tuple) else content


def answer(rig: MonitoredRig, verb: str, message: Fields) -> Message:
    """What a rig says to a question (spec, teleport, place, observe, act, look); errors are the rig's own."""
    if verb == "spec":
        return {"spec": spec_out(rig.spec), "lanes": rig.lanes}
    if verb == "teleport":
        rig.set_teleport(message.flag("allowed"))
        return {}
    if verb == "place":
        rig.place(message.whole("lane", 0, rig.lanes - 1), start_in(message.get("start")))
        return {}
    if verb == "observe":
        return observation_out(rig.observe())
    if verb == "act":
        return {"sent": array_out(rig.act(floats_in(message, "action"), mask_in(message, "moving")))}
    if verb == "look":
        pictures = rig.look(message.whole("lane", 0, rig.lanes - 1))
        return {"images": {camera: array_out(picture) for camera, picture in pictures.items()}}
    raise TransportProblem(f"A robot cannot be asked to {verb!r}; it can spec, teleport, place, observe, act, look.")


def start_in(content: object) -> Start:
    """A start out of a message."""
    try:
        return parse(Start, content, "The start of a robot behind the wire")
    except FileProblem as problem:
        raise TransportProblem(str(problem)) from problem
