"""A campaign on a Ray cluster of two machines (both are this one): stations and learner there, one ledger here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enpire.errors import TransportProblem, UsageError
from enpire.fleet import on_ray
from enpire.store.ledger import SqliteLedger
from tests.chaos.harness import Orchestrator, Witness, audit, until
from tests.chaos.point_lab import write_campaign
from tests.enpire.fleet.point_task import environment, point_station

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore::FutureWarning")]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head and a second machine, two cores each."""
    os.environ.update(environment() | {"RAY_USAGE_STATS_ENABLED": "0"})
    from ray.cluster_utils import Cluster

    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    made.second = made.add_node(num_cpus=2)
    yield made
    made.shutdown()


def kinds(home: Path) -> set[str]:
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        return {event.kind for event in ledger.events()}
    finally:
        ledger.close()


@pytest.mark.parametrize("lost", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_campaign_runs_on_a_cluster_and_goes_on_when_a_machine_of_it_is_lost(
    tmp_path: Path, cluster: Any, lost: bool
) -> None:
    home = tmp_path / "home"
    campaign = write_campaign(tmp_path / "files", budget={"wall_s": 0, "rounds": 1})
    lab = Orchestrator(campaign, home, "--on", "ray", RAY_ADDRESS=cluster.address)
    witness = Witness([home / "stations" / f"sim-{number}" / "spool" for number in (1, 2)])
    witness.start()
    lab.start()
    try:
        until(lambda: len(witness.seen) > 10 or not lab.alive, "episodes from the cluster")
        if lost:
            cluster.remove_node(cluster.second, allow_graceful=False)
        assert lab.process is not None
        assert lab.process.wait(120) == 3, lab.said()[-3000:]
    finally:
        lab.kill_all()
        witness.stop()
    found = audit(home, witness)
    assert found.problems() == []
    assert found.outcomes["success"] > 10
    assert {"learner ended", "deployed", "gate decided"} <= kinds(home)
    assert "2 node(s), 4 cores" in lab.said()


def test_an_address_that_other_machines_cannot_reach_is_refused() -> None:
    assert on_ray.reachable("tcp://0.0.0.0:7000", "10.0.0.1", {"10.0.0.1"}) == "tcp://127.0.0.1:7000"
    assert on_ray.reachable("tcp://0.0.0.0:7000", "10.0.0.1", {"10.0.0.1", "10.0.0.2"}) == "tcp://10.0.0.1:7000"
    with pytest.raises(UsageError, match=r"10\.0\.0\.2.*set stations\.bind"):
        on_ray.reachable("tcp://127.0.0.1:7000", "10.0.0.1", {"10.0.0.1", "10.0.0.2"})


def test_a_station_on_another_machine_keeps_its_state_on_that_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    file = replace(point_station(tmp_path), home=Path("/nowhere/stations/sim-1"))
    actor = on_ray.StationActor(file, "tcp://127.0.0.1:9", Path("/nowhere/stations/logs"), None, on_ray.__version__)
    try:
        until(lambda: list((tmp_path / "disk").glob("enpire-*/*/*/spool")), "the station's own folder")
    finally:
        actor.end()
    assert actor.poll() is not None
    assert not Path("/nowhere").exists()


def test_a_machine_with_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TransportProblem, match="install the same"):
        on_ray.StationActor(point_station(tmp_path), "tcp://127.0.0.1:9", tmp_path / "logs", None, "0.0.0")
