"""The outbox on a full disk, and episodes that wait for their images."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, override

import pytest

from enpire.errors import StorageFull
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.outbox import Outbox
from enpire.station.spool import Spool
from enpire.wire import messages
from enpire.wire.host_services import HostServices
from enpire.wire.messages import Parcel
from tests.enpire.station.test_spool import parcel
from tests.fakes.point_task import point_order
from tests.faults.crashing_parts import AtOnce, at_once


class Disk(Spool):
    """A spool whose disk is full while a test says so."""

    full = False
    asked: int | None = None

    def write(self, *parcels: Parcel) -> None:
        if self.full:
            raise StorageFull("the disk is full")
        super().write(*parcels)

    def room(self, pictures: int = 0) -> bool:
        self.asked = pictures
        return not self.full


class Cameras(CameraRecorder):
    """A recorder whose episodes are complete when a test says so, or when it is waited for."""

    done = False

    def completed(self, parcel: Parcel, *, wait: bool = False) -> Parcel | None:
        return parcel if self.done or wait else None


def test_a_refused_write_is_tried_again_after_two_seconds(tmp_path: Path) -> None:
    now, said = [100.0], list[str]()
    with closing(Disk(tmp_path / "spool")) as spool:
        outbox, items = Outbox(spool, at_once(lambda: now[0]), said.append), [parcel(index) for index in range(2)]
        ids = [item.episode.order.order_id for item in items]
        spool.full = True
        outbox.add(items)
        assert (outbox.spool(), outbox.order_ids(), said) == ([], ids, ["the disk is full"])
        now[0] += 1.9
        assert (outbox.spool(), said) == ([], ["the disk is full"]), "not before two seconds"
        now[0] += 0.1
        assert (outbox.spool(), said) == ([], ["the disk is full"] * 2)
        spool.full = False
        assert outbox.spool() == []
        now[0] += 2.0
        assert [episode.order.order_id for episode in outbox.spool()] == ids
        assert (outbox.order_ids(), spool.ids()) == ([], tuple(ids))


class WhenAsked(AtOnce):
    """A helper whose writes are made when a test says so, or when their result is waited for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Callable[[], object], Future[Any]]] = []

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        held = Held(self)
        self.asked.append((partial(fn, *args, **kwargs), held))
        return held

    def work(self) -> None:
        """Make all writes."""
        for write, held in self.asked:
            try:
                held.set_result(write())
            except StorageFull as full:
                held.set_exception(full)
        self.asked.clear()


class Held(Future[Any]):
    """The write that a `WhenAsked` has not made yet."""

    def __init__(self, helper: WhenAsked) -> None:
        super().__init__()
        self._helper = helper

    @override
    def result(self, timeout: float | None = None) -> Any:
        self._helper.work()
        return super().result(timeout)


def test_a_robot_waits_for_no_write_and_the_episodes_that_end_meanwhile_share_the_next_one(
    tmp_path: Path,
) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        helper, items = WhenAsked(), [parcel(index) for index in range(5)]
        outbox = Outbox(spool, HostServices(helper=lambda: helper), print)
        ids = [item.episode.order.order_id for item in items]
        outbox.add(items[:1])
        assert (outbox.spool(), len(helper.asked)) == ([], 1)
        for item in items[1:4]:
            outbox.add([item])
            assert (outbox.spool(), len(helper.asked)) == ([], 1), "one write at a time"
        assert (outbox.order_ids(), spool.ids()) == (ids[:4], ()), "none is announced before it is durable"
        helper.work()
        assert spool.ids() == (), "the thread of the robot announces, not the helper"
        assert ([one.order.order_id for one in outbox.spool()], spool.ids()) == (ids[:1], tuple(ids[:1]))
        assert (len(helper.asked), outbox.order_ids()) == (1, ids[1:4])
        outbox.add(items[4:])
        assert [one.order.order_id for one in outbox.spool(to_the_last=True)] == ids[1:], "the last call waits"
        assert (outbox.order_ids(), spool.ids()) == ([], tuple(ids))


def test_each_episode_has_a_last_try_of_its_own_after_a_refused_write_of_several(tmp_path: Path) -> None:
    class Nearly(Disk):
        refuses = ""

        def write(self, *parcels: Parcel) -> None:
            if len(parcels) > 1 or self.refuses in [one.episode.order.order_id for one in parcels]:
                raise StorageFull("the disk has space for one")
            super().write(*parcels)

    with closing(Nearly(tmp_path / "spool")) as spool:
        helper, items = WhenAsked(), [parcel(index) for index in range(3)]
        outbox = Outbox(spool, HostServices(helper=lambda: helper), lambda _: None)
        spool.full = True
        outbox.add(items[:1])
        assert outbox.spool() == []
        helper.work()
        spool.full = False
        outbox.add(items[1:])
        assert [one.order for one in outbox.spool(to_the_last=True)] == [item.episode.order for item in items]
        outbox.add([parcel(3), parcel(4)])
        assert len(outbox.spool(to_the_last=True)) == 2
        last = [parcel(index) for index in (5, 6, 7)]
        spool.refuses = last[1].episode.order.order_id
        outbox.add(last)
        assert len(outbox.spool(to_the_last=True)) == 2, "one that is refused leaves the others their try"
        assert outbox.order_ids() == [spool.refuses]


def test_there_is_no_room_while_a_write_is_refused_and_room_again_with_the_write(tmp_path: Path) -> None:
    now = [100.0]
    with closing(Disk(tmp_path / "spool")) as spool:
        outbox = Outbox(spool, at_once(lambda: now[0]), lambda _: None)
        outbox.add([parcel(0)])
        assert outbox.room()
        spool.full = True
        assert (outbox.spool(), outbox.room()) == ([], False)
        spool.full = False
        now[0] += 2.0
        assert not outbox.room(), "the refused episode still waits"
        assert (len(outbox.spool()), outbox.room()) == (1, True)


def test_a_nearly_full_disk_delays_no_episode_and_the_end_of_a_station_waits_for_nothing(tmp_path: Path) -> None:
    now = [100.0]
    with closing(Disk(tmp_path / "spool")) as spool:
        outbox = Outbox(spool, at_once(lambda: now[0]), lambda _: None)
        spool.full = True
        assert not outbox.room(), "nearly full: less than the reserve is free"
        spool.full = False
        outbox.add([parcel(0)])
        assert len(outbox.spool()) == 1
        spool.full = True
        outbox.add([parcel(1)])
        assert outbox.spool() == []
        spool.full = False
        assert len(outbox.spool(to_the_last=True)) == 1, "the last try, whenever the disk refused before"


def test_room_is_looked_at_every_two_seconds_and_a_refused_order_takes_none(tmp_path: Path) -> None:
    now = [100.0]
    with closing(Disk(tmp_path / "spool")) as spool:
        cameras = Cameras()
        cameras.largest = 7
        outbox = Outbox(spool, at_once(lambda: now[0]), lambda _: None, cameras, lanes=3)
        assert (outbox.room(), spool.asked) == (True, 21)
        spool.full = True
        now[0] += 2.0
        assert outbox.room(), "two seconds are not over"
        now[0] += 0.1
        assert not outbox.room()
        spool.full = False
        now[0] += 2.1
        assert outbox.room()
        outbox.refuse(point_order("a" * 64, 0), "x" * 2000)
        now[0] += 2.1
        assert outbox.room(), "a refused order that waits to be written needs no space for new orders"
        refused_s = now[0] - 2.1
        [episode] = outbox.spool()
        assert (episode.outcome, episode.cause, episode.confidence, episode.ticks) == ("aborted", "x" * 1000, 0.0, 0)
        assert episode.began_s == episode.ended_s == refused_s


def test_an_episode_waits_for_its_pictures_except_at_the_end(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        cameras = Cameras()
        outbox = Outbox(spool, at_once(), lambda _: None, cameras)
        for index in range(3):
            outbox.add([parcel(index)])
        assert (outbox.spool(), len(outbox.order_ids()), len(spool)) == ([], 3, 0)
        cameras.done = True
        assert (len(outbox.spool()), outbox.order_ids(), len(spool)) == (3, [], 3)
        cameras.done = False
        outbox.add([parcel(3)])
        assert len(outbox.spool(to_the_last=True)) == 1


UNSPEAKABLE = "\udc80"
"""Text that no message can hold."""


def test_an_episode_that_cannot_be_delivered_without_its_record_either_ends_its_order_as_aborted(
    tmp_path: Path,
) -> None:
    said = list[str]()
    with closing(Spool(tmp_path / "spool")) as spool:
        outbox = Outbox(spool, at_once(lambda: 7.0), said.append)
        bad, good = parcel(0), parcel(1)
        bad = replace(bad, episode=replace(bad.episode, ran_policy_id=UNSPEAKABLE))
        outbox.add([bad, good])
        first, second = outbox.spool(to_the_last=True)
        assert (first.order, first.outcome) == (bad.episode.order, "aborted")
        assert first.cause.startswith("its episode cannot be delivered, even without its record: A Parcel message")
        assert (first.ticks, first.began_s, first.ended_s) == (0, 7.0, 7.0)
        assert second == good.episode
        assert spool.ids() == tuple(one.episode.order.order_id for one in (bad, good))
        assert len(said) == 2, "once for the record, once for the episode"
        assert said[1].startswith(f"order '{bad.episode.order.order_id}' is reported as aborted: its episode cannot")


def test_an_order_that_cannot_be_named_to_the_orchestrator_is_said_once_and_holds_up_no_other(tmp_path: Path) -> None:
    said = list[str]()
    with closing(Spool(tmp_path / "spool")) as spool:
        outbox = Outbox(spool, at_once(lambda: 7.0), said.append)
        bad, good = parcel(0), parcel(1)
        order = replace(bad.episode.order, task=UNSPEAKABLE)
        outbox.add([replace(bad, episode=replace(bad.episode, order=order)), good])
        assert list(outbox.spool(to_the_last=True)) == [good.episode]
        assert (outbox.order_ids(), len(spool)) == ([], 1)
        assert said[-1].startswith(f"order '{order.order_id}' ends without a report, because it cannot be sent: ")
        outbox.add([replace(bad, episode=replace(bad.episode, ran_policy_id=UNSPEAKABLE))])
        [again] = outbox.spool(to_the_last=True)
        assert again.outcome == "aborted", "the next episode has all its tries"


def test_each_episode_has_all_its_tries_whatever_became_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "LARGEST", 10_000)
    with closing(Spool(tmp_path / "spool")) as spool:
        outbox = Outbox(spool, at_once(lambda: 7.0), lambda _: None)
        large = [parcel(index, b"x" * 20_000) for index in range(3)]
        lost = [replace(one, episode=replace(one.episode, order=replace(one.episode.order, task=UNSPEAKABLE)))
                for one in map(parcel, (3, 4))]  # fmt: skip
        outbox.add([large[0], large[1], *lost, large[2]])
        assert [(one.outcome, one.order) for one in outbox.spool()] == [
            ("invalid", one.episode.order) for one in large
        ], "the time on the robot and the version that ran are kept with an episode without its record"
