"""Camera images are recorded at every command; an episode whose images cannot be kept ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.errors import FileProblem, StorageFull, UsageError
from enpire.gate.trials import DISK_FULL
from enpire.policy_calls import LoadedPolicy
from enpire.station.camera_recorder import MOST_WAITING, CameraRecorder, RecordingRule
from enpire.station.lanes import Lanes
from enpire.station.outbox import Outbox
from enpire.station.overlap import OverlappedChunks
from enpire.station.robot_session import RobotSession
from enpire.station.spool import Spool
from enpire.store import arrays
from enpire.store.pictures import Pictures
from enpire.types import FloatArray, ImageArray, IntArray, Observation
from enpire.wire.messages import Parcel
from tests.enpire.station.test_lanes import ORDERS, loaded, run_all
from tests.fakes.point_task import PointPolicy, PointRig, PointTask, point_station
from tests.faults.crashing_parts import at_once

ALL = RecordingRule(cameras="all")


class Shooting(PointRig):
    """A rig whose every observation has a new image of each camera."""

    cameras: tuple[str, ...] = ("front", "wrist")
    shots = 0

    def observe(self) -> Observation:
        seen = super().observe()
        self.shots += 1
        images = {
            camera: np.stack([self.picture(number, lane) for lane in range(self.lanes)])
            for number, camera in enumerate(self.cameras)
        }
        return Observation(stamp_ns=seen.stamp_ns, state=seen.state, images=images)

    def picture(self, number: int, lane: int) -> ImageArray:
        return np.full((16, 24, 3), (self.shots * 7 + number * 50 + lane * 20) % 256, np.uint8)


class Drawn(PointRig):
    """A simulation that renders images on request."""

    looks = 0

    def look(self, lane: int) -> Mapping[str, ImageArray]:
        self.looks += 1
        return {"top": np.full((16, 24, 3), self.looks % 256, np.uint8)}


class Looking(PointPolicy):
    """A policy that stores its images."""

    needs_images = True

    def __init__(self) -> None:
        super().__init__()
        self.saw: list[Mapping[str, ImageArray]] = []

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        self.saw.append({camera: images[0] for camera, images in observation.images.items()})
        return super().act(observation, lanes)


class Held(Executor):
    """A thread that waits until the test releases it."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks.append((future, lambda: fn(*args, **kwargs)))
        return future

    def let_go(self) -> None:
        for future, work in self.tasks:
            try:
                future.set_result(work())
            except (FileProblem, StorageFull) as problem:
                future.set_exception(problem)
        self.tasks.clear()


class Bench:
    """Lanes with a camera recorder, and the outbox of a station."""

    def __init__(self, folder: Path, rig: PointRig, rule: RecordingRule, worker: Executor | None = None) -> None:
        self.spool = Spool(folder / "spool", 0)
        given = {"worker": lambda: worker} if worker is not None else {}
        self.camera_recorder = CameraRecorder(rule, self.spool.pictures, **given)  # pyright: ignore[reportArgumentType]
        self.lanes = Lanes(PointTask(), rig, camera_recorder=self.camera_recorder)
        self.outbox = Outbox(self.spool, at_once(), print, self.camera_recorder, rig.lanes)

    def run(self, policy: LoadedPolicy, count: int = 1) -> list[Parcel]:
        """The episodes as the outbox delivers them."""
        self.outbox.add(run_all(self.lanes, ORDERS[:count], policy).values())
        durable = self.outbox.spool(to_the_last=True)
        self.camera_recorder.close()
        found = [self.spool.get(episode.order.order_id) for episode in durable]
        return [parcel for parcel in found if parcel is not None]

    def pictures(self, parcel: Parcel) -> Pictures:
        return Pictures(self.spool.pictures(parcel.episode.order.order_id))


def test_every_command_has_the_images_that_the_policy_used(tmp_path: Path) -> None:
    bench, policy = Bench(tmp_path, Shooting(PointTask.spec, 1), ALL), Looking()
    [parcel] = bench.run(loaded(policy))
    found, recorded = bench.pictures(parcel), arrays.unpack(parcel.arrays_file)
    ticks = parcel.episode.ticks
    assert parcel.episode.outcome == "success"
    assert len(parcel.episode.pictures_sha256) == 64
    assert found.cameras == ("front", "wrist")
    assert len(found.names) == 2 * (ticks + 1), "before every command, and after the last"
    decisions = [int(np.flatnonzero(recorded.chunk == index)[0]) for index in range(recorded.chunk.max() + 1)]
    assert len(policy.saw) == len(decisions) > 1
    for tick, saw in zip(decisions, policy.saw, strict=True):
        for camera in ("front", "wrist"):
            assert np.abs(found.picture(camera, tick).astype(int) - saw[camera]).max() <= 2


def test_a_simulation_renders_once_a_period(tmp_path: Path) -> None:
    rig, policy = Drawn(PointTask.spec, 1), Looking()
    bench = Bench(tmp_path, rig, RecordingRule(cameras=("top",), waits=True))
    [parcel] = bench.run(loaded(policy))
    assert rig.looks == parcel.episode.ticks + 1
    first = bench.pictures(parcel).picture("top", 0)
    assert np.abs(first.astype(int) - policy.saw[0]["top"]).max() <= 2


@pytest.mark.parametrize(
    ("looks", "policy_images", "recorded"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_policy_images_are_recorded_where_episodes_cannot_be_replayed(
    tmp_path: Path, *, looks: bool, policy_images: bool, recorded: bool
) -> None:
    bench = Bench(tmp_path, Shooting(PointTask.spec, 2), RecordingRule(policy_images=policy_images))
    for parcel in bench.run(loaded(Looking() if looks else PointPolicy()), 4):
        assert bool(parcel.episode.pictures_sha256) == recorded
        assert bench.spool.pictures(parcel.episode.order.order_id).is_file() == recorded


def test_only_the_named_cameras_are_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Shooting(PointTask.spec, 3), RecordingRule(cameras=("wrist",)))
    found = bench.run(loaded(), 6)
    assert len(found) == 6
    for parcel in found:
        assert bench.pictures(parcel).cameras == ("wrist",)
        assert len(bench.pictures(parcel).names) == parcel.episode.ticks + 1


def test_a_station_that_cannot_record_its_cameras_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="to record 'wrist', but the robot gives images of top;"):
        RecordingRule(cameras=("wrist",)).check(("top",))
    with pytest.raises(UsageError, match="to record 'all', but the robot gives images of no camera;"):
        RobotSession(point_station(tmp_path, record="all"), PointTask(), print)


def test_images_are_recorded_during_overlapped_inference(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Shooting(PointTask.spec, 1, {"period_s": 0.001}), ALL)
    chunks = lambda lanes, width: OverlappedChunks(lanes, width, 0.001)  # noqa: E731
    bench.lanes = Lanes(
        PointTask(),
        Shooting(PointTask.spec, 1, {"period_s": 0.001}),
        0,
        None,
        chunks,
        camera_recorder=bench.camera_recorder,
    )
    [parcel] = bench.run(loaded(Looking()))
    assert len(bench.pictures(parcel).names) == 2 * (parcel.episode.ticks + 1)


def test_a_camera_that_gives_nothing_ends_the_episode(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Shooting(PointTask.spec, 1), RecordingRule(cameras=("front", "side")))
    [parcel] = bench.run(loaded())
    assert (parcel.episode.outcome, parcel.episode.cause) == (
        "invalid", "its pictures cannot be kept: camera side gave none"
    )  # fmt: skip
    [parcel] = Bench(tmp_path / "b", PointRig(PointTask.spec, 1), ALL).run(loaded())
    assert parcel.episode.cause == "its pictures cannot be kept: no camera gave any"


def test_a_disk_that_refuses_ends_the_episode_in_the_middle(tmp_path: Path) -> None:
    held = Held()
    bench = Bench(tmp_path, Shooting(PointTask.spec, 1), ALL, held)
    lanes = bench.lanes
    lanes.begin(0, ORDERS[0], loaded())
    bench.camera_recorder._place = lambda order_id: tmp_path / "gone" / order_id  # pyright: ignore[reportPrivateUsage]
    for _ in range(8):
        lanes.sense()
        lanes.reset()
        lanes.verify()
        lanes.decide()
        lanes.act()
        held.let_go()
    assert not lanes.busy
    bench.outbox.add(lanes.take_ended())
    held.let_go()
    [episode] = bench.outbox.spool()
    assert episode.outcome == "invalid"
    assert episode.cause.startswith("its pictures cannot be kept: Cannot write")
    assert episode.ticks > 0
    assert not episode.pictures_sha256


def test_a_full_disk_aborts_the_episode(tmp_path: Path) -> None:
    held = Held()
    bench = Bench(tmp_path, Shooting(PointTask.spec, 1), ALL, held)
    bench.outbox.add(run_all(bench.lanes, ORDERS[:1], loaded()).values())
    assert bench.outbox.spool() == []
    assert bench.outbox.order_ids() == [ORDERS[0].order_id], "held until its pictures are durable"
    for future, _ in held.tasks[:-1]:
        future.set_result(None)
    held.tasks[-1][0].set_exception(StorageFull("no space"))
    [episode] = bench.outbox.spool()
    assert (episode.outcome, episode.cause, episode.confidence) == ("aborted", DISK_FULL, 0.0)


def test_an_episode_that_never_began_leaves_no_image_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Shooting(PointTask.spec, 2), ALL)
    for lane, order in enumerate(ORDERS[:2]):
        bench.lanes.begin(lane, order, loaded())
    bench.lanes.sense()
    bench.lanes.reset()
    bench.lanes.verify()
    bench.lanes.abort("stopped")
    bench.outbox.add(bench.lanes.take_ended())
    assert len(bench.outbox.spool(to_the_last=True)) == 2
    bench.camera_recorder.close()
    left = [path.name for path in (tmp_path / "spool").iterdir() if path.suffix != ".episode"]
    assert left == ["lock"]


class Huge(Shooting):
    """Images that take no memory here and report 64 MB each."""

    cameras = ("front",)

    def picture(self, number: int, lane: int) -> ImageArray:
        return np.broadcast_to(np.uint8(self.shots % 256), (4096, 5462, 3))

    def observe(self) -> Observation:
        seen = PointRig.observe(self)
        self.shots += 1
        return Observation(stamp_ns=seen.stamp_ns, state=seen.state, images={"front": self.picture(0, 0)[None]})


def test_waiting_images_are_bounded_and_the_control_loop_never_waits(tmp_path: Path) -> None:
    held = Held()
    bench = Bench(tmp_path, Huge(PointTask.spec, 1), ALL, held)
    ended = run_all(bench.lanes, ORDERS[:1], loaded())
    [parcel] = ended.values()
    assert parcel.episode.outcome == "invalid"
    assert "record fewer cameras" in parcel.episode.cause
    assert parcel.episode.ticks == 2 + MOST_WAITING // (4096 * 5462 * 3), "one beyond, and one that is not handed over"
    for future, _ in held.tasks:
        future.set_result("0" * 64)


def test_new_orders_need_disk_space_for_images_as_large_as_the_last(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Shooting(PointTask.spec, 3), ALL)
    bench.run(loaded(), 3)
    sizes = [path.stat().st_size for path in (tmp_path / "spool").glob("*.pictures")]
    assert bench.camera_recorder.largest == max(sizes) > 0
    assert bench.spool.room(max(sizes))
    assert not bench.spool.room(2**62)
