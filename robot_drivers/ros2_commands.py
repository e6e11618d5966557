"""Actions as messages of ROS 2: Float64MultiArray, JointTrajectory, Twist and TwistStamped."""

from __future__ import annotations

from collections.abc import Sequence

from enpire.errors import UsageError
from enpire.types import TaskSpec
from robot_drivers.ros2_link import Content, Ros2Settings

KINDS = {
    "Float64MultiArray": "std_msgs/Float64MultiArray", "JointTrajectory": "trajectory_msgs/JointTrajectory",
    "Twist": "geometry_msgs/Twist", "TwistStamped": "geometry_msgs/TwistStamped",
}  # fmt: skip
"""Command -> its message in ROS 2."""
FIELDS = ("position", "velocity", "effort")
"""Fields of a joint state that a number of the spec can be read from."""
_TWIST = tuple(f"{part}/{axis}" for part in ("linear", "angular") for axis in "xyz")


def joint_address(address: str, fields: Sequence[str] = FIELDS) -> tuple[str, str]:
    """(joint, field) of an address such as elbow/position; UsageError when it is none."""
    joint, _, what = address.rpartition("/")
    if not joint or what not in fields:
        raise UsageError(f"{address!r} must be a joint and one of {', '.join(fields)}, such as elbow/position.")
    return joint, what


class Commands:
    """Makes messages of actions."""

    def __init__(self, spec: TaskSpec, settings: Ros2Settings) -> None:
        """Look up where each action belongs.

        Raises:
            UsageError: an action has no place in the message; the text says which.
        """
        self.kind = KINDS[settings.commands]
        self._command = settings.commands
        self._names = [item.name for item in spec.action]
        self._reach_s = settings.trajectory_s or spec.period_s
        self._joints: list[str] = []
        self._field = "positions"
        self._axes: list[tuple[str, str]] = []
        if unknown := sorted(set(settings.actions) - set(self._names)):
            raise UsageError(f"actions: {unknown[0]} is no action of {spec.name}; it has {', '.join(self._names)}.")
        if settings.commands == "JointTrajectory":
            self._joints, self._field = _trajectory(self._names, settings)
        elif settings.commands != "Float64MultiArray":
            self._axes = _twist(self._names, settings)

    def message(self, values: Sequence[float]) -> Content:
        """The message of one action (action_dim,), in the units of the spec."""
        if self._command == "Float64MultiArray":
            return {"data": list(values)}
        if self._command == "JointTrajectory":
            seconds, rest = divmod(round(1e9 * self._reach_s), 10**9)
            point = {self._field: list(values), "time_from_start": {"sec": seconds, "nanosec": rest}}
            return {"joint_names": self._joints, "points": [point]}
        twist: dict[str, dict[str, float]] = {part: dict.fromkeys("xyz", 0.0) for part in ("linear", "angular")}
        for (part, axis), value in zip(self._axes, values, strict=True):
            twist[part][axis] = value
        return twist if self._command == "Twist" else {"twist": twist}


def _trajectory(names: Sequence[str], settings: Ros2Settings) -> tuple[list[str], str]:
    """Joints in the order of the actions, and the field of a trajectory point that contains them."""
    found = [
        joint_address(settings.actions.get(name) or settings.state.get(name) or f"{name}/position", FIELDS[:2])
        for name in names
    ]
    if len(kinds := {what for _, what in found}) != 1:
        raise UsageError("A JointTrajectory has positions or velocities for all joints; actions name both.")
    joints = [joint for joint, _ in found]
    if len(set(joints)) != len(joints):
        raise UsageError(f"actions: two of them name one joint ({', '.join(joints)}); name each once.")
    return joints, {"position": "positions", "velocity": "velocities"}[kinds.pop()]


def _twist(names: Sequence[str], settings: Ros2Settings) -> list[tuple[str, str]]:
    """(linear or angular, axis) in the order of the actions."""
    given = [settings.actions.get(name, "") for name in names]
    for name, address in zip(names, given, strict=True):
        if address not in _TWIST or given.count(address) > 1:
            raise UsageError(
                f"actions: {name} needs its own number of a Twist, one of {', '.join(_TWIST)}, not {address!r}."
            )
    return [(address.split("/")[0], address.split("/")[1]) for address in given]
