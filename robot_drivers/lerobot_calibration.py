"""The ranges that a LeRobot arm was calibrated for, as limits on its actions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from enpire.errors import UsageError
from enpire.types import TaskSpec

if TYPE_CHECKING:
    from lerobot.robots import Robot as LeRobot


def within_calibration(robot: LeRobot, spec: TaskSpec) -> TaskSpec:
    """The spec with the positions of joints limited to their calibrated ranges.

    Raises:
        UsageError: a joint cannot reach the range of the task at all.
    """
    ranges = calibrated_ranges(robot)
    limited = []
    for item in spec.action:
        low, high = ranges.get(item.name, (item.low, item.high))
        if low > item.high or high < item.low:
            raise UsageError(
                f"{robot} is calibrated for {item.name} from {low:.4g} to {high:.4g}, but the task {spec.name} uses "
                f"{item.low:.4g} to {item.high:.4g} {item.unit}; calibrate it again, or correct the task's bounds."
            )
        limited.append(replace(item, low=max(low, item.low), high=min(high, item.high)))
    return replace(spec, action=tuple(limited))


def calibrated_ranges(robot: LeRobot) -> dict[str, tuple[float, float]]:
    """LeRobot's name of a position -> its calibrated range in LeRobot's unit; empty for robots without such a bus."""
    bus: Any = getattr(robot, "bus", None)
    motors, calibration = getattr(bus, "motors", None), getattr(bus, "calibration", None)
    if not isinstance(motors, dict) or not isinstance(calibration, dict):
        return {}
    found: dict[str, tuple[float, float]] = {}
    for name, motor in motors.items():
        if name not in calibration:
            continue
        match getattr(getattr(motor, "norm_mode", None), "name", ""):
            case "DEGREES":
                ticks = calibration[name].range_max - calibration[name].range_min
                half = ticks / 2 * 360 / (bus.model_resolution_table[motor.model] - 1)
                found[f"{name}.pos"] = -half, half
            case "RANGE_M100_100":
                found[f"{name}.pos"] = -100.0, 100.0
            case "RANGE_0_100":
                found[f"{name}.pos"] = 0.0, 100.0
            case _:
                pass
    return found
