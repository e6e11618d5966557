"""A robot waits for a person behind the real guard process: the guard hears of it in every period, and it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from enpire.policy_calls import LoadedPolicy
from enpire.station.lanes import Lanes
from enpire.station.people import HoldStill
from enpire.types import PEOPLE, SOURCE_EXPERT
from robot_drivers.guard_client import GuardedClient
from robot_drivers.guard_settings import GuardSettings
from tests.fakes.point_person import Person
from tests.fakes.point_task import point_order
from tests.fakes.reach_task import ReachTask
from tests.robot_drivers.guarded_arm import HOME, acts

PERIODS = 40


def test_the_guard_hears_of_a_waiting_robot_in_every_period_and_a_release_frees_it(
    rig: GuardedClient, settings: GuardSettings
) -> None:
    person = LoadedPolicy(policy_id=PEOPLE, policy=HoldStill(ReachTask.spec), source=SOURCE_EXPERT)
    order = replace(point_order(PEOPLE, 3), purpose="demonstrate", supervised=True, start=HOME)
    lanes, log = Lanes(ReachTask(), rig, operator=Person([])), Path(str(settings.options["log"]))
    lanes.begin(0, order, person)
    before = len(acts(log))
    for _ in range(PERIODS):
        lanes.sense()
        lanes.reset()
        lanes.verify()
        lanes.decide()
        lanes.act()
    assert lanes.by_people(begun=False) == [order.order_id]
    assert len(acts(log)) - before >= PERIODS - 1, "every period after the reset"
    assert not rig.status()["tripped"]
    assert np.abs(rig.observe().state[0, :2]).max() < 0.05, "and it holds where it was"
    lanes.end_waits([order.order_id], "released")
    assert not lanes.busy
    assert [parcel.episode.cause for parcel in lanes.take_ended()] == ["released"]
    assert not rig.status()["tripped"]
