"""A station on ROS 2: a process that speaks only DDS sees and stops it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from enpire.station.station import Station
from enpire.store import versions
from enpire.wire.messages import ControlMessage, Orders
from robot_drivers.ros2_bridge import ros_name
from tests.fakes.point_task import point_order, point_station, write_policy

pytest.importorskip("cyclonedds")


def turns(station: Station, seen: Callable[[], object], patience_s: float = 20.0) -> None:
    until_s = time.monotonic() + patience_s
    while not seen():
        assert time.monotonic() < until_s, "waited in vain"
        station.turn()


def test_ros_tooling_sees_a_station_and_stops_it(tmp_path: Path, domain: int) -> None:
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic

    from robot_drivers.dds_link import RELIABLE, DdsLink, participant, taken
    from robot_drivers.dds_types import DiagnosticArray, String

    file = point_station(tmp_path, "cell-7", bridges={"ros2": {"domain": domain, "loopback": True}})
    policy_id = versions.publish(write_policy(tmp_path / "made"), file.home / "policies")
    station = Station(file, "inproc://nobody", lambda line: None)
    member = participant(domain, loopback=True)
    states = DataReader(member, Topic(member, "rt/enpire/cell_7/diagnostics", DiagnosticArray), RELIABLE)
    verdicts = DataReader(member, Topic(member, "rt/enpire/cell_7/verdict", String), RELIABLE)
    caller = DdsLink(domain, loopback=True).client("std_srvs/Trigger", "/enpire/cell_7/stop")
    refused: list[str] = []

    def stop() -> None:
        answer = caller.call({}, 20.0)
        if answer is None or not answer.success:
            refused.append(str(answer))

    heard: list[Any] = []
    try:
        turns(station, lambda: heard.extend(taken(states, DiagnosticArray)) or heard)
        [status] = heard[-1].status
        assert (status.level, status.hardware_id) == (0, "cell-7")
        assert {pair.key for pair in status.values} >= {"phase", "policy", "running"}
        turns(station, lambda: verdicts.get_matched_publications() and caller.ready())
        orders = (point_order(policy_id, 1, "cell-7"), point_order(policy_id, 2, "cell-7"))
        station._handle(Orders(orders=orders))  # pyright: ignore[reportPrivateUsage]
        told: list[Any] = []
        turns(station, lambda: told.extend(taken(verdicts, String)) or len(told) == 2)
        said = [json.loads(sample.data) for sample in told]
        assert {item["order_id"] for item in said} == {order.order_id for order in orders}
        assert all(item["outcome"] == "success" and item["policy_id"] == policy_id for item in said)
        asking = threading.Thread(target=stop)
        asking.start()
        turns(station, lambda: not asking.is_alive())
        heard.clear()
        turns(station, lambda: heard.extend(taken(states, DiagnosticArray)) or any(s.status[0].level for s in heard))
        assert [s.status[0].message for s in heard if s.status[0].level] == ["stopped"]
        said = station._heartbeat(1)  # pyright: ignore[reportPrivateUsage]
        assert (said.stopped, said.stop_by) == (True, "a node on ROS 2")
        asking = threading.Thread(target=stop)
        asking.start()
        turns(station, lambda: not asking.is_alive())
        newer = station._heartbeat(1)  # pyright: ignore[reportPrivateUsage]
        assert newer.stop_id not in {said.stop_id, ""}  # a second request is a newer stop
        for stop_ids, left in (((said.stop_id,), newer.stop_id), ((newer.stop_id,), "")):
            station._handle(ControlMessage(control="resume", stop_ids=stop_ids))  # pyright: ignore[reportPrivateUsage]
            assert station._heartbeat(1).stop_id == left  # pyright: ignore[reportPrivateUsage]
    finally:
        station.close()


def test_names_are_those_that_ros_allows() -> None:
    assert ros_name("cell-7.left") == "cell_7_left"
    assert ros_name("7up") == "_7up"
