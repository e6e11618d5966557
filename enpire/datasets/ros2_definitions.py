"""Definitions of the ROS 2 messages in exported MCAP files, as `ros2 interface show` has them."""

from __future__ import annotations

from collections.abc import Mapping

_LINE = "=" * 80
_TIME = f"{_LINE}\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
_HEADER = f"{_LINE}\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n{_TIME}"

DEFINITIONS: Mapping[str, str] = {
    "std_msgs/msg/Bool": "bool data\n",
    "std_msgs/msg/UInt8": "uint8 data\n",
    "std_msgs/msg/Float64": "float64 data\n",
    "std_msgs/msg/String": "string data\n",
    "sensor_msgs/msg/JointState": (
        f"std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n{_HEADER}"
    ),
    "sensor_msgs/msg/CompressedImage": f"std_msgs/Header header\nstring format\nuint8[] data\n{_HEADER}",
    "rcl_interfaces/msg/Log": (
        "byte DEBUG=10\nbyte INFO=20\nbyte WARN=30\nbyte ERROR=40\nbyte FATAL=50\n"
        "builtin_interfaces/Time stamp\nuint8 level\nstring name\nstring msg\nstring file\nstring function\n"
        f"uint32 line\n{_TIME}"
    ),
}
"""Type -> its definition, with those of the types in it."""
