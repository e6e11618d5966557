import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.ids import mint
from enpire.policy_calls import LoadedPolicy
from enpire.station.chunks import NOT_FINITE
from enpire.station.lanes import Lanes
from enpire.station.station import Station
from enpire.store import arrays
from enpire.types import never_began, refused
from enpire.wire.arrivals import Delivered, Heartbeat, Left, Refused
from tests.enpire.station.test_lanes import run_all
from tests.fakes.fleet_harness import WAIT_S, FleetHarness
from tests.fakes.point_task import PointPolicy, PointRig, PointTask, environment, point_order, point_station
from tests.fakes.waiting import has_ended


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[FleetHarness]:
    opened = FleetHarness(tmp_path)
    yield opened
    opened.close()


def test_orders_become_episodes_and_leave_ends_the_station(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    process = harness.start(point_station(tmp_path, lanes=4))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(30)]
    expert = [point_order("scripted:expert", index, lease=lease, purpose="demonstrate") for index in range(5)]
    harness.fleet.send("alpha", [*orders, *expert])
    harness.fleet.control("alpha", "deploy", policy_id)
    found = harness.until_all([*orders, *expert])
    assert Counter(item.episode.outcome for item in found.values()) == {"success": 35}
    for order in [*orders, *expert]:
        item = found[order.order_id]
        assert item.episode.order == order
        assert item.episode.ran_policy_id == order.policy_id
        assert item.episode.sha256 == hashlib.sha256(item.arrays_file).hexdigest()
        assert item.episode.ticks == len(arrays.unpack(item.arrays_file).action)
    here = run_all(
        Lanes(PointTask(), PointRig(PointTask.spec, 1)),
        orders[:3],
        LoadedPolicy(policy_id=policy_id, policy=PointPolicy(), source=0),
    )
    for order in orders[:3]:
        assert here[order.order_id].arrays_file == found[order.order_id].arrays_file
    harness.until(lambda: (beat := harness.beat()) is not None and beat.deployed == policy_id)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 0
    harness.until(lambda: any(isinstance(arrival, Left) for arrival in harness.arrivals))
    assert not list((tmp_path / "alpha" / "spool").glob("*.episode"))
    beat = harness.beat()
    assert beat is not None
    assert beat.seconds["rollout"] > 0.0


def test_a_killed_station_loses_nothing_durable_and_reports_its_running_orders(
    harness: FleetHarness, tmp_path: Path
) -> None:
    policy_id = harness.policy("p")
    file = point_station(tmp_path, lanes=2, options={"period_s": 0.005})
    process = harness.start(file)
    lease = harness.join()
    harness.acknowledging = False
    orders = [point_order(policy_id, index, lease=lease) for index in range(40)]
    harness.fleet.send("alpha", orders)
    harness.until(lambda: len(harness.delivered()) >= 5)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = harness.delivered()
    harness.acknowledging = True
    harness.arrivals.clear()
    harness.start(file)
    harness.join()
    [joined] = harness.joined()
    assert joined.lease > lease
    assert joined.running == ()
    assert set(before) <= set(joined.spooled)
    assert len(joined.spooled) < len(orders)
    harness.until(lambda: set(joined.spooled) <= set(harness.delivered()))
    for order_id, item in before.items():
        assert harness.delivered()[order_id].episode == item.episode
        assert harness.delivered()[order_id].arrays_file == item.arrays_file
    again = [point_order(policy_id, index, lease=joined.lease) for index in range(3)]
    harness.fleet.send("alpha", again)
    harness.until_all(again)


def test_a_restarted_orchestrator_gets_each_episode_once(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    harness.fleet.close()
    harness.open(harness.bind, silent_s=0.4)
    harness.start(point_station(tmp_path, lanes=2, options={"period_s": 0.005}))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(30)]
    harness.fleet.send("alpha", orders)
    harness.until(lambda: len(harness.delivered()) >= 3)
    harness.fleet.close()
    kept = set(harness.delivered())
    time.sleep(1.0)
    harness.open(harness.bind, first_lease=lease + 1, silent_s=5.0)
    harness.join()
    joined = harness.joined()[-1]
    assert joined.lease == lease + 1
    everything = {order.order_id for order in orders}
    assert everything - kept <= {*joined.running, *joined.spooled}
    harness.until_all(orders)
    harness.until(lambda: not list((tmp_path / "alpha" / "spool").glob("*.episode")))
    seen = Counter(arrival.episode.order.order_id for arrival in harness.arrivals if isinstance(arrival, Delivered))
    # Twice only where the acknowledgement was lost with the orchestrator; each time the same episode.
    assert set(seen) == everything
    assert all(count == 1 or order_id in kept for order_id, count in seen.items())


def test_stop_holds_until_resume_and_pause_finishes_running_orders(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    harness.start(point_station(tmp_path, lanes=2, options={"period_s": 0.02}))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(12)]
    harness.fleet.send("alpha", orders)
    harness.until(lambda: (beat := harness.beat()) is not None and beat.phase == "rollout")
    harness.fleet.control("alpha", "stop", "ann", ["S1"])
    harness.until(lambda: (beat := harness.beat()) is not None and beat.stopped and beat.phase == "stopped")
    beat = harness.beat()
    assert beat is not None
    assert beat.running == 0
    count = len(orders) - beat.queued
    harness.until(lambda: len(harness.delivered()) == count)
    stopped = [item.episode for item in harness.delivered().values() if item.episode.outcome == "aborted"]
    assert [episode.cause for episode in stopped] == ["stopped by ann"] * 2
    harness.fleet.control("alpha", "resume", "bob", ["S0"])  # it was sent before the stop by ann
    for _ in range(20):
        harness.poll()
    assert len(harness.delivered()) == count
    harness.fleet.control("alpha", "resume", "bob", ["S0", "S1"])
    harness.until(lambda: len(harness.delivered()) > count)
    harness.fleet.control("alpha", "pause")
    harness.until(lambda: (beat := harness.beat()) is not None and beat.paused and beat.running == 0)
    assert all(item.episode.outcome != "aborted" for item in list(harness.delivered().values())[count:])
    harness.fleet.control("alpha", "resume")
    harness.until_all(orders)


def test_queued_orders_are_released_and_running_ones_are_not(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    harness.start(point_station(tmp_path, lanes=1, options={"period_s": 0.02}))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(6)]
    harness.fleet.send("alpha", orders)
    harness.until(lambda: (beat := harness.beat()) is not None and beat.running == 1)
    harness.fleet.release("alpha", [order.order_id for order in orders])
    found = harness.until_all(orders)
    causes = Counter(found[order.order_id].episode.cause for order in orders)
    assert causes["released"] >= 3
    assert found[orders[0].order_id].episode.outcome == "success"
    released = [found[order.order_id] for order in orders if found[order.order_id].episode.cause == "released"]
    assert all(item.episode.outcome == "aborted" and item.arrays_file == b"" for item in released)


def test_a_policy_that_returns_nan_or_cannot_be_loaded_costs_only_its_own_episodes(
    harness: FleetHarness, tmp_path: Path
) -> None:
    good, bad = harness.policy("good"), harness.policy("bad", fault="nan")
    broken, unloadable = harness.policy("broken", noise="much"), harness.policy("unloadable", kind="nowhere:nothing")
    harness.start(point_station(tmp_path, lanes=3))
    lease = harness.join()
    missing = "d" * 64
    orders = [
        point_order(policy_id, index, lease=lease)
        for index in range(6)
        for policy_id in (bad, missing, good, broken, unloadable)
    ]
    harness.fleet.send("alpha", orders)
    found = harness.until_all(orders)
    for order in orders:
        episode = found[order.order_id].episode
        if order.policy_id == missing:
            assert episode.outcome == "aborted"
            assert "cannot be fetched" in episode.cause
        elif order.policy_id == bad and order.start.values[0] > 0.02:
            assert (episode.outcome, episode.cause) == ("aborted", NOT_FINITE)
        elif order.policy_id == broken:
            assert episode.outcome == "aborted"
            assert "policy failed" in episode.cause
        elif order.policy_id == unloadable:
            assert episode.outcome == "aborted"
            assert "nowhere" in episode.cause
        else:
            assert episode.outcome == "success"
    harness.until(lambda: (beat := harness.beat()) is not None and "cannot be fetched" in beat.alarm)


def test_a_policy_that_was_damaged_is_refused(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    weights = harness.versions / policy_id / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(b"\1" + whole[1:])
    harness.start(point_station(tmp_path))
    lease = harness.join()
    order = point_order(policy_id, 1, lease=lease)
    harness.fleet.send("alpha", [order])
    episode = harness.until_all([order])[order.order_id].episode
    assert episode.outcome == "aborted"
    assert never_began(episode.outcome, episode.cause)
    assert "refused" in episode.cause
    assert not (tmp_path / "alpha" / "policies" / policy_id).exists()


def test_a_pair_with_a_version_that_cannot_be_loaded_does_not_begin(harness: FleetHarness, tmp_path: Path) -> None:
    good, broken = harness.policy("p"), harness.policy("q", kind="no such kind")
    harness.start(point_station(tmp_path))
    lease = harness.join()
    order = replace(point_order(good, 1, lease=lease, purpose="gate"), gate_id="G", pair=1, side="champion")
    orders = [order, replace(order, order_id=mint(), policy_id=broken, side="candidate")]
    alone = point_order(good, 2, lease=lease)
    harness.fleet.send("alpha", [*orders, alone])
    found = harness.until_all([*orders, alone])
    champion, candidate = (found[order.order_id].episode for order in orders)
    assert champion.cause == "released: its pair cannot run here"
    assert refused(candidate.outcome, candidate.cause)
    assert "no such kind" in candidate.cause
    assert found[alone.order_id].episode.outcome == "success"


def test_a_robot_that_fails_comes_back(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    trigger = tmp_path / "broken"
    harness.start(point_station(tmp_path, lanes=2, options={"breaks_with": str(trigger), "period_s": 0.005}))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(20)]
    harness.fleet.send("alpha", orders)
    harness.until(lambda: len(harness.delivered()) >= 2)
    trigger.touch()
    harness.until(lambda: any(isinstance(item, Heartbeat) and "loose" in item.alarm for item in harness.arrivals))
    found = harness.until_all(orders)
    causes = Counter(item.episode.cause for item in found.values() if item.episode.outcome != "success")
    assert causes == {"robot: the point's wire is loose": 2}
    beat = harness.beat()
    assert beat is not None
    assert beat.seconds["fault"] > 0.0


def test_a_nearly_full_disk_refuses_orders_and_raises_an_alarm(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    harness.start(point_station(tmp_path, min_free_mb=2**40))
    lease = harness.join()
    harness.until(lambda: (beat := harness.beat()) is not None and "nearly full" in beat.alarm)
    order = point_order(policy_id, 1, lease=lease)
    harness.fleet.send("alpha", [order])
    episode = harness.until_all([order])[order.order_id].episode
    assert (episode.outcome, episode.cause) == ("aborted", "released: the station's disk is nearly full")


def test_real_time_keeps_the_rate(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    harness.start(point_station(tmp_path, lanes=1, pace="realtime", reset="robot", options={"reset_by_robot": True}))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(2)]
    harness.fleet.send("alpha", orders)
    for item in harness.until_all(orders).values():
        assert item.episode.outcome == "success"
        assert item.episode.reset_attempts == 1
        # Never faster than the rate; how much slower depends on the machine.
        assert item.episode.ended_s - item.episode.began_s >= (item.episode.ticks - 1) / PointTask.spec.rate_hz


def test_a_zombie_with_the_same_name_ends_itself(harness: FleetHarness, tmp_path: Path) -> None:
    first = harness.start(point_station(tmp_path / "one"))
    harness.join()
    harness.start(point_station(tmp_path / "two"))
    harness.join()
    harness.until(lambda: first.poll() is not None)
    assert first.returncode == 1
    assert any(isinstance(item, Refused) and "replaced" in item.why for item in harness.arrivals)


def test_no_station_outlives_a_killed_parent(harness: FleetHarness, tmp_path: Path) -> None:
    program = (
        "import os, sys, time; from pathlib import Path; from enpire.fleet.station_processes import StationProcesses\n"
        "from tests.chaos.harness import children\n"
        "from tests.fakes.point_task import point_station\n"
        "root = Path(sys.argv[1]); local = StationProcesses([point_station(root)], sys.argv[2], root / 'logs')\n"
        "local.start()\n"
        "while not (found := children(os.getpid(), 'alpha.yaml')): time.sleep(0.01)\n"
        "print(*found, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), harness.bind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as parent:
        assert parent.stdout is not None
        station = int(parent.stdout.readline())
        harness.join()
        parent.kill()
    harness.until(lambda: has_ended(station))


def test_a_robot_with_its_own_stop_waits_until_the_stop_is_released(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    button = tmp_path / "button"
    button.touch()
    harness.start(point_station(tmp_path, lanes=2, options={"button": str(button)}))
    lease = harness.join()
    orders = [point_order(policy_id, index, lease=lease) for index in range(4)]
    harness.fleet.send("alpha", orders)
    harness.until(lambda: (beat := harness.beat()) is not None and beat.stopped and "holds a stop" in beat.alarm)
    harness.fleet.control("alpha", "resume")
    for _ in range(20):
        harness.poll()
    assert not harness.delivered()
    button.unlink()
    found = harness.until_all(orders)
    assert {item.episode.outcome for item in found.values()} == {"success"}


def test_a_station_prints_the_address_that_does_not_answer(tmp_path: Path) -> None:
    said: list[str] = []
    address = f"ipc://{tmp_path}/nobody"
    station = Station(point_station(tmp_path), address, said.append)
    try:
        deadline = time.monotonic() + WAIT_S
        while not said and time.monotonic() < deadline:
            station.turn()
    finally:
        station.close()
    assert said == [f"waiting for {address}, where no orchestrator answers yet"]
