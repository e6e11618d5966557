"""A LeRobot robot with a camera improves a LeRobot policy with images: rollouts, learner, dataset and back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot")

from enpire.datasets.dataset_export import export_episodes
from enpire.datasets.lerobot_import import import_dataset
from enpire.home import Home, open_home
from enpire.ids import mint
from enpire.interfaces import Evidence, ImprovementJob
from enpire.policy_calls import LoadedPolicy
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.outbox import Outbox
from enpire.station.robot_session import RobotSession
from enpire.station.spool import Spool
from enpire.station.station_file import StationFile
from enpire.store.episodes import FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from enpire.store.pictures import NAME, Pictures
from enpire.types import FloatArray, IntArray, MaskArray, Order, Split, Start, Verdict
from enpire.wire.host_services import THIS_HOST
from enpire.wire.messages import Parcel
from tests.policies.tiny_act import write_act
from tests.robot_drivers.test_lerobot_robot import SPEC

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
MODULE = "tests.robot_drivers.test_lerobot_cameras"
TICKS = 12


class BusTask:
    """Twelve actions from the present position of the servos; odd starts succeed."""

    spec = replace(SPEC, limit_ticks=TICKS)

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        return Start(split=split, index=index, values=(), seed=index)

    def reset_skill(self) -> BusTask:
        return self

    def begin(self, lane: int, start: Start) -> None:
        self.odd = start.index % 2

    def step(self, state: FloatArray, lanes: IntArray) -> tuple[FloatArray, MaskArray]:
        return state[:, :2], np.ones(len(lanes), np.bool_)

    def start_error(self, state: FloatArray, start: Start) -> tuple[tuple[float, ...], bool]:
        return (), True

    def verifier(self) -> BusTask:
        return self

    digest, needs_images = "bus-1", False

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        return np.zeros(len(state), np.bool_)

    def judge(self, evidence: Evidence) -> Verdict:
        return Verdict(kind="success" if self.odd else "failure", confidence=1.0, source="verifier")


def station(root: Path) -> StationFile:
    robot = {"type": "fake_bus_robot", "id": "one", "calibration_dir": str(root)}
    return StationFile(
        name="bus", task=f"{MODULE}:BusTask", driver="lerobot", options={"robot": robot}, home=root / "bus"
    )


def roll_out(file: StationFile, version: Path, count: int) -> Sequence[Parcel]:
    """Episodes with a version as the station's spool has them, with the files of their images."""
    from policies.lerobot_policy import load

    spool = Spool(file.home / "spool", 0)
    camera_recorder = CameraRecorder(file.recording_rule, spool.pictures)
    outbox = Outbox(spool, THIS_HOST, print, camera_recorder)
    keeper = RobotSession(file, BusTask(), print, camera_recorder=camera_recorder)  # pyright: ignore[reportArgumentType]
    policy, lanes = LoadedPolicy(policy_id="a" * 64, policy=load(version), source=0), keeper.lanes
    for index in range(count):
        order = Order(
            order_id=mint(), campaign_id="C1", station=file.name, task=file.task, policy_id="a" * 64,
            start=BusTask().start("train", index, b""), purpose="collect", round=1,
        )  # fmt: skip
        lanes.begin(0, order, policy)
        while lanes.busy:
            lanes.sense()
            lanes.reset()
            lanes.verify()
            lanes.decide()
            lanes.act()
            time.sleep(0.005)
    outbox.add(lanes.take_ended())
    done = outbox.spool(to_the_last=True)
    keeper.close()
    camera_recorder.close()
    outbox.close()
    return [parcel for item in done if (parcel := spool.get(item.order.order_id)) is not None]


def stored(home: Home, file: StationFile, parcels: Sequence[Parcel]) -> list[Path]:
    """The same episodes in the store of the orchestrator."""
    spooled = file.home / "spool"
    home.incoming.mkdir()
    return FolderStore(home.episodes).put_many(
        Recording(
            episode=parcel.episode, arrays_file=parcel.arrays_file,
            pictures=(spooled / f"{parcel.episode.order.order_id}.pictures").rename(home.incoming / str(number)),
        )
        for number, parcel in enumerate(parcels)
    )  # fmt: skip


def test_a_policy_that_looks_is_improved_from_what_a_real_robot_saw(tmp_path: Path) -> None:
    from policies.lerobot_learner import LerobotHabc
    from policies.lerobot_policy import load

    home, file, parent = (
        open_home(tmp_path / "home"),
        station(tmp_path),
        write_act(tmp_path / "act", "wrist", (24, 32), 2, 20.0),
    )
    SqliteLedger(home.ledger).close()
    parcels = roll_out(file, parent, 6)
    assert [parcel.episode.outcome for parcel in parcels] == ["failure", "success"] * 3
    folders = stored(home, file, parcels)
    for folder in folders:
        film = Pictures(folder / NAME)
        assert film.cameras == ("wrist",)
        assert len(film.names) == TICKS + 1
        assert film.picture("wrist", 0).shape == (24, 32, 3)
    small = {
        "batch": 8, "least_steps": 6, "most_steps": 6, "critic_steps": 20, "critic_batch": 32, "critic_hidden": 16,
    }  # fmt: skip
    job = ImprovementJob(
        recipe={"name": "test", "learner": "lerobot", "settings": small}, task=file.task, parent=parent,
        episodes=folders, work=tmp_path / "work", output=tmp_path / "better", round=1, seed=2,
    )  # fmt: skip
    metrics = LerobotHabc().improve(job, lambda _: None)
    assert np.isfinite(metrics["loss"])
    assert load(job.output).needs_images
    again = roll_out(replace(file, home=tmp_path / "second"), job.output, 1)
    assert again[0].episode.pictures_sha256
    ids = [folder.name for folder in folders]
    made = export_episodes(home, ids, tmp_path / "set", cameras=True)
    assert (made.written, dict(made.left_out)) == (6, {})
    for one, folder in zip(import_dataset(tmp_path / "set"), folders, strict=True):
        film = Pictures(folder / NAME)
        assert one.uid == folder.name
        assert one.pictures is not None
        for tick, seen in enumerate(one.pictures()):
            assert np.abs(seen["wrist"].astype(int) - film.picture("wrist", tick)).mean() < 12
