"""In which range a node over rclpy is found, with a stand-in for rclpy: ROS 2 reads the range from the environment."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import pytest

from robot_drivers.rclpy_node import RclpyNode

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The environment at each call of rclpy that starts something."""
    seen: list[dict[str, str]] = []

    class Anything:
        def __init__(self, **known: Any) -> None: ...

        def spin(self) -> None: ...

    def start(*names: str, **known: Any) -> Anything:
        seen.append(dict(os.environ))
        return Anything()

    rclpy, executors = ModuleType("rclpy"), ModuleType("rclpy.executors")
    rclpy.__dict__.update(Context=Anything, init=start, create_node=start)
    executors.__dict__.update(SingleThreadedExecutor=Anything)
    monkeypatch.setitem(sys.modules, "rclpy", rclpy)
    monkeypatch.setitem(sys.modules, "rclpy.executors", executors)
    for name in (RANGE, "CYCLONEDDS_URI"):
        monkeypatch.delenv(name, raising=False)
    return seen


@pytest.mark.parametrize(
    ("own", "loopback", "found"),
    [("", True, "LOCALHOST"), ("", False, ""), ("SUBNET", True, "SUBNET"), ("SUBNET", False, "SUBNET")],
)
def test_a_node_of_this_computer_alone_starts_in_the_range_in_which_stock_nodes_are_found(
    seen: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch, own: str, loopback: bool, found: str
) -> None:
    if own:
        monkeypatch.setenv(RANGE, own)
    RclpyNode("enpire_test", 7, loopback=loopback)
    assert [one.get(RANGE, "") for one in seen] == [found, found], "the context and the node"
    assert [one for one in seen if "CYCLONEDDS_URI" in one] == [], "another setting hides stock nodes"
    assert os.environ.get(RANGE, "") == own
