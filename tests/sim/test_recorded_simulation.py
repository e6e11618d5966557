"""A simulated station that records its cameras keeps what a replay of the episode shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from enpire.ids import mint
from enpire.policy_calls import LoadedPolicy
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.outbox import Outbox
from enpire.station.robot_session import RobotSession
from enpire.station.spool import Spool
from enpire.station.station_file import StationFile
from enpire.store.arrays import unpack
from enpire.store.pictures import Pictures
from enpire.types import SOURCE_EXPERT, Order
from enpire.wire.host_services import THIS_HOST
from sim import cameras, replay
from sim.tasks.pin_insertion import PinInsertion

SEED = 7


def test_recorded_is_what_a_replay_shows(tmp_path: Path) -> None:
    if why := cameras.why_no_images():
        pytest.skip(why)
    task = PinInsertion()
    file = StationFile(
        name="sim", task="pin_insertion", home=tmp_path, lanes=2, pace="fast", reset="teleport", seed=SEED, record="all"
    )
    spool = Spool(tmp_path / "spool", 0)
    camera_recorder = CameraRecorder(file.recording_rule, spool.pictures)
    outbox = Outbox(spool, THIS_HOST, print, camera_recorder, file.lanes)
    keeper = RobotSession(file, task, print, camera_recorder=camera_recorder)
    expert = LoadedPolicy(policy_id="scripted:expert", policy=task.expert(1), source=SOURCE_EXPERT)
    for lane in range(2):
        order = Order(
            order_id=mint(), campaign_id="C1", station="sim", task="pin_insertion", policy_id="scripted:expert",
            start=task.start("train", lane, b""), purpose="demonstrate", round=0,
        )  # fmt: skip
        keeper.lanes.begin(lane, order, expert)
    for _ in range(16):
        keeper.lanes.sense()
        keeper.lanes.reset()
        keeper.lanes.verify()
        keeper.lanes.decide()
        keeper.lanes.act()
    keeper.lanes.abort("enough")
    outbox.add(keeper.lanes.take_ended())
    ended = outbox.spool(to_the_last=True)
    camera_recorder.close()
    outbox.close()
    keeper.close()
    assert len(ended) == 2
    for episode in ended:
        parcel = spool.get(episode.order.order_id)
        assert parcel is not None
        found = Pictures(spool.pictures(episode.order.order_id))
        whole = replace(episode, arrays=unpack(parcel.arrays_file))
        assert len(found.names) == 2 * (episode.ticks + 1)
        for tick, seen in enumerate(replay.frames(task, SEED, whole)):
            for camera, image in seen.items():
                assert np.abs(found.picture(camera, tick).astype(int) - image).mean() < 3
