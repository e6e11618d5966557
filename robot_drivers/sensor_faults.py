"""Sensor faults that last as long as a stop: the conformance checks see whether the robot stops without its sensors.

A station never uses them: only the checks set a fault, in the rig that they opened or in the settings of its guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol, cast, runtime_checkable

from enpire.errors import RobotProblem, UsageError

SensorFault = Literal["", "no observation", "camera gone", "camera stale"]
"""no observation: `observe` and `look` of the driver raise. The others need a driver with `HasCameras`."""


@runtime_checkable
class HasCameras(Protocol):
    """A driver whose cameras the checks may break."""

    def with_cameras(self, fault: Literal["gone", "stale"]) -> AbstractContextManager[None]:
        """Give the robot broken cameras for the length of the block."""
        ...


def check_possible(driver: object, fault: SensorFault) -> None:
    """Refuse a fault that this driver cannot be given.

    Raises:
        UsageError: the fault is one of cameras, and the driver has no `with_cameras`.
    """
    if fault.startswith("camera") and not isinstance(driver, HasCameras):
        raise UsageError(f"{type(driver).__name__} has no `with_cameras`, so its cameras cannot be broken for a check.")


@contextmanager
def broken_sensors(driver: object, fault: SensorFault) -> Iterator[None]:
    """Break the sensors of a driver for the length of the block."""
    if fault == "no observation":
        with _silenced(driver, "observe"), _silenced(driver, "look"):
            yield
    elif fault:
        kind = cast("Literal['gone', 'stale']", fault.removeprefix("camera "))
        with cast("HasCameras", driver).with_cameras(kind):
            yield
    else:
        yield


@contextmanager
def _silenced(driver: object, method: str) -> Iterator[None]:
    def silent(*_: object) -> None:
        raise RobotProblem("The sensors are broken for this check.")

    if not hasattr(driver, method):
        yield
        return
    setattr(driver, method, silent)
    try:
        yield
    finally:
        delattr(driver, method)
