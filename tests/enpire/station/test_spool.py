import dataclasses
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from enpire.errors import EnpireError, RobotProblem, TransportProblem
from enpire.station.outbox import Outbox
from enpire.station.spool import Spool
from enpire.store import durable
from enpire.wire import messages
from enpire.wire.messages import Alive, Parcel, PicturesPart, WantPictures, encode
from tests.enpire.wire.test_messages import EPISODE
from tests.fakes.point_task import environment, point_order
from tests.faults.crashing_parts import at_once


def parcel(index: int, data: bytes = b"frames") -> Parcel:
    return Parcel(episode=dataclasses.replace(EPISODE, order=point_order("a" * 64, index)), arrays_file=data)


def test_an_episode_stays_until_it_is_deleted_also_after_a_restart(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    parcels = [parcel(index) for index in range(3)]
    for item in parcels:
        spool.put(item)
    ids = [item.episode.order.order_id for item in parcels]
    spool.delete(ids[1])
    spool.close()
    again = Spool(tmp_path / "spool")
    assert again.ids() == (ids[0], ids[2])
    assert again.get(ids[2]) == parcels[2]
    assert ids[1] not in again
    again.close()


def with_pictures(spool: Spool, index: int, content: bytes = b"pictures") -> Parcel:
    """A parcel with its image file in place."""
    item = parcel(index)
    durable.write(spool.pictures(item.episode.order.order_id), content)
    episode = dataclasses.replace(item.episode, pictures_sha256=hashlib.sha256(content).hexdigest())
    return dataclasses.replace(item, episode=episode)


def test_images_are_kept_and_deleted_with_their_episode(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    item = with_pictures(spool, 0)
    order_id = item.episode.order.order_id
    spool.put(item)
    durable.write(spool.pictures("never-announced"), b"half an episode")
    spool.close()
    again = Spool(tmp_path / "spool")
    assert again.get(order_id) == item
    assert again.pictures(order_id).read_bytes() == b"pictures"
    assert not again.pictures("never-announced").exists()
    again.delete(order_id)
    assert not again.pictures(order_id).exists()
    again.close()


def test_an_episode_whose_pictures_cannot_be_sent_ends_as_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enpire.station.spool.LARGEST_PICTURES", 100)
    spool, said = Spool(tmp_path / "spool"), list[str]()
    lost, large = with_pictures(spool, 0), with_pictures(spool, 1, bytes(101))
    spool.pictures(lost.episode.order.order_id).unlink()
    outbox = Outbox(spool, at_once(), said.append)
    outbox.add([lost, large])
    ended = outbox.spool()
    assert [episode.outcome for episode in ended] == ["invalid", "invalid"]
    assert [episode.pictures_sha256 for episode in ended] == ["", ""]
    assert "have 0 bytes" in ended[0].cause
    assert "have 101 bytes" in ended[1].cause
    assert not list((tmp_path / "spool").glob("*.pictures"))
    spool.close()


def test_what_a_killed_process_half_wrote_is_removed_at_the_next_start(tmp_path: Path) -> None:
    Spool(tmp_path / "spool").close()
    (tmp_path / "spool" / f"{durable.STAGED}half").write_bytes(b"half an episode")
    with closing(Spool(tmp_path / "spool")):
        assert {path.name for path in (tmp_path / "spool").iterdir()} == {"lock"}


def test_a_second_process_on_the_same_spool_is_refused(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    with pytest.raises(RobotProblem, match="Another process"):
        Spool(tmp_path / "spool")
    spool.close()
    Spool(tmp_path / "spool").close()


def test_a_damaged_episode_is_set_aside_with_its_pictures_and_never_delivered(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    item = with_pictures(spool, 0)
    spool.put(item)
    path = next((tmp_path / "spool").glob("*.episode"))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    assert spool.get(item.episode.order.order_id) is None
    assert spool.ids() == ()
    spool.close()
    again = Spool(tmp_path / "spool")
    assert again.ids() == ()
    kept = (tmp_path / "spool" / "damaged").iterdir()
    assert {file.name for file in kept} == {path.name, f"{path.stem}.pictures"}
    again.close()


def test_there_is_no_room_with_less_free_space_than_required(tmp_path: Path) -> None:
    with_room, without = Spool(tmp_path / "a", 1), Spool(tmp_path / "b", 2**62)
    assert with_room.room()
    assert not without.room()
    with_room.close()
    without.close()


def test_ids_are_those_of_the_episodes_in_the_order_of_their_making(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        parcels = [parcel(index) for index in range(4)]
        for at in (2, 0, 3, 1):
            spool.put(parcels[at])
        ids = [item.episode.order.order_id for item in parcels]
        assert (len(spool), set(spool.ids())) == (4, set(ids))
        assert [order_id in spool for order_id in (*ids, "other")] == [True] * 4 + [False]
        spool.put()
        assert len(spool) == 4
    with closing(Spool(tmp_path / "spool")) as again:
        assert again.ids() == tuple(sorted(ids))


def test_an_episode_that_is_not_in_the_spool_moves_nothing(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        item = with_pictures(spool, 0)
        for name in ("damaged", "refused", "elsewhere"):
            durable.write(spool.pictures(name), b"pictures")
        spool.delete("elsewhere")
        spool.refuse("refused")
        assert spool.get("damaged") is None
        assert {path.name for path in (tmp_path / "spool").glob("*.pictures")} == {
            f"{name}.pictures" for name in ("damaged", "refused", "elsewhere", item.episode.order.order_id)
        }
        assert not spool.refused.exists()


def test_pictures_go_wherever_their_episode_goes(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        pictured, refused, deleted = (with_pictures(spool, index) for index in range(3))
        plain = parcel(3)
        spool.put(pictured, refused, deleted, plain)
        kept, sent_back, gone, alone = (one.episode.order.order_id for one in (pictured, refused, deleted, plain))
        assert [spool.has_pictures(one) for one in (kept, sent_back, gone, alone)] == [True, True, True, False]
        spool.refuse(sent_back)
        spool.delete(gone)
        assert [spool.has_pictures(one) for one in (kept, sent_back, gone)] == [True, False, False]
        assert spool.pictures(kept).is_file()
        assert {path.name for path in spool.refused.iterdir()} == {f"{sent_back}.episode", f"{sent_back}.pictures"}
    with closing(Spool(tmp_path / "spool")) as again:
        assert set(again.ids()) == {kept, sent_back, alone}, "another orchestrator may accept what one refused"
        assert [again.has_pictures(one) for one in (kept, sent_back, alone)] == [True, True, False]
        assert again.get(sent_back) == refused
        again.close()
        again.close()


def test_an_episode_without_pictures_leaves_no_picture_file(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        item = parcel(0)
        durable.write(spool.pictures(item.episode.order.order_id), b"of an aborted recording")
        spool.put(item)
        assert not spool.pictures(item.episode.order.order_id).exists()


@pytest.mark.parametrize(("size", "fits"), [(0, False), (1, True), (100, True), (101, False)])
def test_pictures_have_a_size_that_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fits: bool
) -> None:
    monkeypatch.setattr("enpire.station.spool.LARGEST_PICTURES", 100)
    with closing(Spool(tmp_path / "spool")) as spool:
        item = with_pictures(spool, 0, bytes(size))
        if fits:
            spool.put(item)
        else:
            with pytest.raises(TransportProblem, match=f"have {size} bytes"):
                spool.put(item)
        assert len(spool) == int(fits)


def test_parts_of_pictures_are_those_that_were_asked_for(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        item = with_pictures(spool, 0, b"0123456789")
        order_id = item.episode.order.order_id
        spool.put(item)
        for offset, size, data in ((0, 4, b"0123"), (4, 3, b"456"), (8, 5, b"89"), (10, 1, b"")):
            part = spool.part(WantPictures(order_id=order_id, offset=offset, size=size))
            assert part == PicturesPart(order_id=order_id, offset=offset, total=10, data=data)


def test_a_file_of_another_message_or_of_none_is_set_aside(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "spool")) as spool:
        items = [parcel(index) for index in range(3)]
        spool.put(*items)
        ids = [item.episode.order.order_id for item in items]
        for order_id, body in zip(ids, (encode(Alive()), b"no message", None), strict=True):
            path = spool.pictures(order_id).with_suffix(".episode")
            path.unlink()
            if body is not None:
                path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        assert [spool.get(order_id) for order_id in ids] == [None] * 3
        assert spool.ids() == ()
        assert {path.stem for path in (tmp_path / "spool" / "damaged").iterdir()} == set(ids[:2])


def test_room_is_for_the_pictures_of_new_orders_too(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with closing(Spool(tmp_path / "spool", free // 2)) as spool:
        assert spool.room()
        assert spool.room(free // 4)
        assert not spool.room(free)
    with closing(Spool(tmp_path / "other")) as spool:
        assert spool.room(free - 2**29)
        assert not spool.room(free - 2**27), "256 MiB stay free"


def test_a_spool_whose_lock_cannot_be_made_says_where(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(EnpireError, match=str(tmp_path / "lock")):
        Spool(tmp_path)


def test_what_was_announced_survives_kill_minus_nine(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from enpire.station.spool import Spool;"
        "from tests.enpire.station.test_spool import parcel\n"
        "spool = Spool(Path(sys.argv[1]))\n"
        "for index in range(100000):\n"
        "    item = parcel(index, bytes(5000)); spool.put(item)\n"
        "    print(item.episode.order.order_id, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "spool")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        announced = [process.stdout.readline().decode().strip() for _ in range(30)]
        os.kill(process.pid, signal.SIGKILL)
        announced += process.stdout.read().decode().split("\n")[:-1]
    spool = Spool(tmp_path / "spool")
    assert set(announced) <= set(spool.ids())
    for order_id in spool.ids():
        assert spool.get(order_id) is not None
    assert not list((tmp_path / "spool").glob(".staged-*"))
    spool.close()


def test_putting_one_episode_is_fast(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    began = time.process_time()
    for index in range(20):
        spool.put(parcel(index, bytes(20_000)))
    assert time.process_time() - began < 5.0
    spool.close()


def test_an_episode_that_is_too_large_to_send_ends_as_invalid_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "LARGEST", 10_000)
    spool, said = Spool(tmp_path / "spool"), list[str]()
    outbox = Outbox(spool, at_once(), said.append)
    outbox.add([parcel(0, b"x" * 20_000), parcel(1)])
    large, small = outbox.spool()
    assert large.outcome == "invalid"
    assert "cannot be delivered" in large.cause
    kept = spool.get(large.order.order_id)
    assert kept is not None
    assert kept.arrays_file == b""
    assert small.outcome == EPISODE.outcome
    assert "without its record" in said[0]
    spool.close()


def test_an_episode_that_cannot_be_read_ends_as_invalid_and_is_delivered(tmp_path: Path) -> None:
    spool, said = Spool(tmp_path / "spool"), list[str]()
    outbox = Outbox(spool, at_once(), said.append)
    item = parcel(0)
    odd = dataclasses.replace(item.episode, confidence=float("nan"), attempts=(-1,), achieved_start=(1e30,))
    outbox.add([dataclasses.replace(item, episode=odd)])
    [end] = outbox.spool()
    assert end.outcome == "invalid"
    assert "cannot be delivered: An episode, field 'confidence'" in end.cause
    kept = spool.get(end.order.order_id)
    assert kept is not None
    assert kept.episode == end
    spool.close()
