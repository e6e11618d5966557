"""The requests to a rig in another process and their answers, the same for every transport."""

from __future__ import annotations

from dataclasses import asdict
from typing import Protocol

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem, TransportProblem
from enpire.field_reader import Fields
from enpire.files import parse
from enpire.interfaces import Rig
from enpire.types import MaskArray, Start, TaskSpec
from enpire.wire.rpc import Message, array_out, floats_in, mask_in, observation_out

BOUNDLESS = 1e30
"""Stands for an infinite bound in a message: the parser refuses numbers that are not finite."""


_SENSOR_STD = "sight"
"""Key of `Bounds.sensor_std` in a message; rigs of earlier versions use it too."""


class MonitoredRig(Rig, Protocol):
    """A rig that reports which lanes left the envelope, and whose stop holds until it is resumed."""

    violated: MaskArray
    clipped: npt.NDArray[np.int64]
    offences: list[str]

    @property
    def stopped(self) -> bool:
        """Whether the robot is stopped."""
        ...

    @property
    def stale(self) -> str:
        """One sentence on a sensor whose value does not change; empty when all do."""
        ...

    def set_teleport(self, allowed: bool) -> None:
        """Whether `place` may teleport a simulated scene to its start."""

    def resume(self) -> None:
        """Allow motion again."""


def spec_out(spec: TaskSpec) -> Message:
    """Encode a spec."""
    content = asdict(spec)
    for bounds in (*content["state"], *content["action"]):
        bounds["low"] = max(bounds["low"], -BOUNDLESS)
        bounds["high"] = min(bounds["high"], BOUNDLESS)
        bounds[_SENSOR_STD] = bounds.pop("sensor_std")
    return content


def spec_in(content: object) -> TaskSpec:
    """Decode a spec; TransportProblem when it is malformed."""
    try:
        return parse(TaskSpec, _as_fields(content), "The spec that the robot sent")
    except FileProblem as problem:
        raise TransportProblem(str(problem)) from problem


def _as_fields(content: object) -> object:
    """The message, with the former key of each sensor standard deviation renamed to the field `sensor_std`."""
    if isinstance(content, dict):
        return {("sensor_std" if key == _SENSOR_STD else key): _as_fields(value) for key, value in content.items()}
    return [_as_fields(item) for item in content] if isinstance(content, list | tuple) else content


def answer(rig: MonitoredRig, method: str, message: Fields) -> Message:
    """Answer a request (spec, teleport, place, observe, act or look) with the rig.

    Raises:
        TransportProblem: there is no such request, or its content is malformed.
        EnpireError: raised by the rig.
    """
    if method == "spec":
        return {"spec": spec_out(rig.spec), "lanes": rig.lanes}
    if method == "teleport":
        rig.set_teleport(message.flag("allowed"))
        return {}
    if method == "place":
        rig.place(message.whole("lane", 0, rig.lanes - 1), start_in(message.get("start")))
        return {}
    if method == "observe":
        return observation_out(rig.observe())
    if method == "act":
        return {"sent": array_out(rig.act(floats_in(message, "action"), mask_in(message, "moving")))}
    if method == "look":
        images = rig.look(message.whole("lane", 0, rig.lanes - 1))
        return {"images": {camera: array_out(image) for camera, image in images.items()}}
    raise TransportProblem(f"A robot has no request {method!r}; it has spec, teleport, place, observe, act and look.")


def start_in(content: object) -> Start:
    """Decode a start; TransportProblem when it is malformed."""
    try:
        return parse(Start, content, "The start that was sent to the robot")
    except FileProblem as problem:
        raise TransportProblem(str(problem)) from problem
