import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from enpire.errors import RobotProblem
from enpire.station.outbox import Outbox
from enpire.station.spool import Spool
from enpire.store import durable
from enpire.wire import messages
from enpire.wire.messages import Parcel
from tests.enpire.wire.test_messages import EPISODE
from tests.fakes.point_task import environment, point_order


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
    outbox = Outbox(spool, time.monotonic, said.append)
    outbox.add([lost, large])
    ended = outbox.spool()
    assert [episode.outcome for episode in ended] == ["invalid", "invalid"]
    assert [episode.pictures_sha256 for episode in ended] == ["", ""]
    assert "have 0 bytes" in ended[0].cause
    assert "have 101 bytes" in ended[1].cause
    assert not list((tmp_path / "spool").glob("*.pictures"))
    spool.close()


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
    began = time.perf_counter()
    for index in range(20):
        spool.put(parcel(index, bytes(20_000)))
    assert time.perf_counter() - began < 10.0
    spool.close()


def test_an_episode_that_is_too_large_to_send_ends_as_invalid_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "LARGEST", 10_000)
    spool, said = Spool(tmp_path / "spool"), list[str]()
    outbox = Outbox(spool, time.monotonic, said.append)
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
    outbox = Outbox(spool, time.monotonic, said.append)
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
