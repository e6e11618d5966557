import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.fleet.station_processes import StationProcesses, start_station
from enpire.verifiers import VerifierSettings
from tests.chaos.harness import children
from tests.fakes.fleet_harness import WAIT_S, FleetHarness
from tests.fakes.point_task import environment, point_order, point_station


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetHarness]:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    opened = FleetHarness(tmp_path)
    yield opened
    opened.close()


@pytest.mark.realtime
def test_two_stations_start_work_and_stop_together(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = harness.policy("p")
    said: list[str] = []
    files = [point_station(tmp_path, name) for name in ("alpha", "beta")]
    local = StationProcesses(files, harness.bind, tmp_path / "logs", said.append)
    try:
        local.start()
        harness.join(2)
        leases = {joined.station: joined.lease for joined in harness.joined()}
        assert set(leases) == {"alpha", "beta"}
        orders = [point_order(policy_id, index, name, lease) for name, lease in leases.items() for index in range(5)]
        for name in leases:
            harness.fleet.send(name, [order for order in orders if order.station == name])
        harness.until_all(orders)
        pids = [pid for name in leases for pid in children(os.getpid(), f"{name}.yaml")]
        assert len(pids) == 2
    finally:
        began = time.monotonic()
        local.stop()
    # Two seconds are promised; the margin is for a machine that is busy with other tests.
    assert time.monotonic() - began < 60
    assert all(not Path(f"/proc/{pid}").exists() for pid in pids)
    assert said == []
    assert "left (SIGTERM)" in local.log("alpha").read_text()


@pytest.fixture
def said() -> list[str]:
    """What the processes of `local` reported."""
    return []


@pytest.fixture
def local(harness: FleetHarness, tmp_path: Path, said: list[str]) -> Iterator[StationProcesses]:
    """One station, alpha, which has joined."""
    started = StationProcesses([point_station(tmp_path)], harness.bind, tmp_path / "logs", said.append)
    try:
        started.start()
        harness.join()
        yield started
    finally:
        started.stop()
        started.stop()


def test_a_station_that_ended_is_restarted_and_reported(
    harness: FleetHarness, local: StationProcesses, said: list[str]
) -> None:
    [alpha] = children(os.getpid(), "alpha.yaml")
    os.kill(alpha, signal.SIGKILL)
    deadline = time.monotonic() + WAIT_S
    while len(harness.joined()) < 2 and time.monotonic() < deadline:
        local.supervise()
        harness.poll()
    assert len(harness.joined()) == 2
    assert len(said) == 1
    assert "alpha ended with -9" in said[0]


def test_a_station_that_left_as_it_was_asked_to_is_not_restarted(
    harness: FleetHarness, local: StationProcesses, said: list[str]
) -> None:
    harness.fleet.control("alpha", "leave")
    [alpha] = children(os.getpid(), "alpha.yaml")
    os.waitid(os.P_PID, alpha, os.WEXITED | os.WNOWAIT)
    local.supervise(leaving=True)
    assert said == []
    local.supervise()
    assert "alpha ended with 0; it is started again" in said[0]


def test_a_station_gets_the_keys_of_its_verifiers_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the judge's")
    monkeypatch.setenv("OTHER_API_KEY", "nobody's")
    plain = point_station(tmp_path)
    seeing = replace(plain, verifiers=(VerifierSettings(name="anthropic", options={"model": "m"}),))
    for file, wanted in ((plain, False), (seeing, True)):
        station = start_station(file, "inproc://nobody", tmp_path / "logs")
        try:
            # It is empty for the moment in which one program becomes the next: sh, nice, python.
            while not (environment := Path(f"/proc/{station.pid}/environ").read_text()):
                time.sleep(0.01)
        finally:
            station.kill()
            station.wait()
        assert ("ANTHROPIC_API_KEY" in environment) == wanted
        assert "OTHER_API_KEY" not in environment
