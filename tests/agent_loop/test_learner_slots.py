"""Training runs of branches at one time: those for which there is room, or the file's number."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from enpire.campaign.branch_plan import BranchPlan
from enpire.fleet.on_ray import RayStations
from enpire.fleet.station_processes import StationProcesses
from enpire.home import Home, open_home
from tests.agent_loop.test_branch_cpu_budget import EndlessFromTurn
from tests.agent_loop.test_branches import PLAN, opened, running


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.mark.parametrize(("written", "room", "together"), [(0, 1, 1), (0, 3, 3), (2, 1, 2), (1, 3, 1)])
def test_training_runs_at_one_time(home: Home, written: int, room: int, together: int) -> None:
    with running(home, replace(PLAN, slots=written, learner_s=1e6, robot_s=1e6)) as lab:
        lab.lab.learner_slots = lambda: room
        lab.lab.train = begin = EndlessFromTurn(turn=1, begun=[])
        branches = [opened(lab, lane, regime) for lane, regime in zip("abc", ("good", "bad", "same"), strict=True)]
        lab.until(lambda lab: len(begin.begun) == together)
        turns = iter(range(60))
        lab.until(lambda _: next(turns, None) is None)
        assert len(begin.begun) == together
        assert sorted(one.phase for one in branches) == ["queued"] * (3 - together) + ["training"] * together


def test_a_cluster_that_grows_has_room_for_more(home: Home) -> None:
    cluster = RayStations([], "tcp://127.0.0.1:1", home.root)
    cluster.cluster = grown = Cluster({"CPU": 1.0})
    with running(home, replace(PLAN, learner_s=1e6, robot_s=1e6)) as lab:
        lab.lab.learner_slots = lambda: cluster.learner_slots
        lab.lab.train = EndlessFromTurn(turn=1, begun=[])
        branches = [opened(lab, lane, regime) for lane, regime in zip("ab", ("good", "bad"), strict=True)]
        lab.until(lambda _: branches[0].phase == "training")
        assert branches[1].phase == "queued"
        grown.resources = {"CPU": 2.0}
        lab.until(lambda _: branches[1].phase == "training")
        assert branches[0].phase == "training"


def test_a_machine_has_room_for_one_on_each_core_of_this_process(tmp_path: Path) -> None:
    stations = StationProcesses([], "tcp://127.0.0.1:1", tmp_path)
    cores = os.sched_getaffinity(0)
    assert stations.learner_slots == len(cores)
    try:
        os.sched_setaffinity(0, [min(cores)])
        assert stations.learner_slots == 1
    finally:
        os.sched_setaffinity(0, cores)


@dataclass
class Cluster:
    """What the stations on Ray read of a cluster."""

    resources: Mapping[str, float]

    def cluster_resources(self) -> Mapping[str, float]:
        return self.resources


@pytest.mark.parametrize(
    ("resources", "slots"), [({"CPU": 12.0}, 12), ({"CPU": 12.0, "GPU": 3.0}, 3), ({"CPU": 0.5}, 1), ({}, 1)]
)
def test_a_cluster_has_room_for_one_on_each_gpu_or_else_on_each_core(
    tmp_path: Path, resources: Mapping[str, float], slots: int
) -> None:
    stations = RayStations([], "tcp://127.0.0.1:1", tmp_path)
    stations.cluster = Cluster(resources)
    assert stations.learner_slots == slots


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="slots must be at least 0"):
        BranchPlan(slots=-1)
