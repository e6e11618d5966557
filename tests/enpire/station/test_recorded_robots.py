"""Robots with cameras: the fake arm behind its guard records the images that its policy uses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.ids import mint
from enpire.store import arrays, versions
from enpire.store.pictures import Pictures
from enpire.types import Order, Purpose
from tests.fakes.fleet_harness import FleetHarness
from tests.fakes.reach_task import MODULE, ReachTask, reach_station, seen_joints, write_camera_policy


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[FleetHarness]:
    opened = FleetHarness(tmp_path)
    yield opened
    opened.close()


def order_of(policy_id: str, index: int, lease: int, purpose: Purpose = "collect") -> Order:
    return Order(
        order_id=mint(), campaign_id="C1", station="arm", task=f"{MODULE}:ReachTask", policy_id=policy_id,
        start=ReachTask().start("train", index, b""), purpose=purpose, round=1, lease=lease,
    )  # fmt: skip


def test_an_arm_with_a_camera_records_the_images_that_its_policy_used(harness: FleetHarness, tmp_path: Path) -> None:
    policy_id = versions.publish(write_camera_policy(tmp_path / "eyes"), harness.versions)
    harness.start(reach_station(tmp_path))
    lease = harness.join()
    looking = [order_of(policy_id, index, lease) for index in range(2)]
    blind = order_of("scripted:expert", 2, lease, "demonstrate")
    harness.fleet.send("arm", [*looking, blind])
    found = harness.until_all([*looking, blind])
    for order in looking:
        item = found[order.order_id]
        assert (item.episode.outcome, item.episode.cause) == ("success", "")
        assert item.pictures is not None
        assert hashlib.sha256(item.pictures.read_bytes()).hexdigest() == item.episode.pictures_sha256
        film, recorded = Pictures(item.pictures), arrays.unpack(item.arrays_file)
        assert film.cameras == ("top",)
        assert len(film.names) == item.episode.ticks + 1
        for tick in range(item.episode.ticks):
            # The camera shows what the sensors said at the same moment, and the policy acted on it.
            shown = seen_joints(film.picture("top", tick))
            assert np.abs(shown - recorded.state[tick, :2]).max() < 4 / 48 + 0.02
            assert np.abs(recorded.action[tick] - shown / 2).max() < 4 / 48
    assert found[blind.order_id].episode.outcome == "success"
    assert found[blind.order_id].pictures is None


def test_a_station_records_all_cameras_when_its_file_asks_for_it(harness: FleetHarness, tmp_path: Path) -> None:
    harness.start(replace(reach_station(tmp_path), record=("top",)))
    order = order_of("scripted:expert", 2, harness.join(), "demonstrate")
    harness.fleet.send("arm", [order])
    item = harness.until_all([order])[order.order_id]
    assert item.pictures is not None
    assert len(Pictures(item.pictures).names) == item.episode.ticks + 1
