"""The images of an episode arrive complete or not at all, with faults of the network and the disks."""

import hashlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.errors import StorageFull
from enpire.fleet import uploads as uploading
from enpire.fleet.uploads import LEAST, MOST, Uploads
from enpire.wire.arrivals import Announced, Delivered, Refused
from enpire.wire.messages import LARGEST_PICTURES, PicturesPart, WantPictures
from tests.enpire.store.test_durable import a_full_disk
from tests.enpire.wire.test_messages import EPISODE
from tests.fakes.point_task import point_order
from tests.faults.crashing_parts import AtOnce

CONTENT = random.Random(1).randbytes(3 * MOST + 12_345)


class Wire:
    """Uploads, their requests, and stations that reply from memory, in virtual time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now_s = folder, 100.0
        self.asked: list[tuple[str, WantPictures]] = []
        self.stations: dict[str, dict[str, bytes]] = {}
        self.uploads = self.open()

    def open(self, worker: Executor | None = None) -> Uploads:
        self.asked.clear()
        self.uploads = Uploads(self.folder, worker or AtOnce(), lambda: self.now_s, self._hear)
        return self.uploads

    def announce(self, station: str, content: bytes = CONTENT, claims: bytes = CONTENT) -> Announced:
        order = replace(point_order("a" * 64, len(self.asked)), station=station)
        self.stations.setdefault(station, {})[order.order_id] = content
        episode = replace(EPISODE, order=order, pictures_sha256=hashlib.sha256(claims).hexdigest())
        return Announced(station=station, lease=3, episode=episode, arrays_file=b"frames")

    def fetch(self, station: str, content: bytes = CONTENT, claims: bytes = CONTENT) -> Announced:
        announced = self.announce(station, content, claims)
        self.uploads.fetch(announced)
        return announced

    def part(self, station: str, want: WantPictures) -> PicturesPart:
        content = self.stations[station][want.order_id]
        data = content[want.offset : want.offset + want.size]
        return PicturesPart(order_id=want.order_id, offset=want.offset, total=len(content), data=data)

    def answer(self, took_s: float = 0.01) -> None:
        """The oldest request, after a while."""
        station, want = self.asked.pop(0)
        self.now_s += took_s
        self.uploads.arrived(station, self.part(station, want))

    def run(self, took_s: float = 0.01, enough: Callable[[], bool] = lambda: False) -> list[Delivered | Refused]:
        """Reply until there is no request left."""
        told = [*self.uploads.step()]
        while (self.asked or self.uploads.writing) and not enough():
            if self.asked:
                self.answer(took_s)
            told += self.uploads.step()
        return told

    def _hear(self, station: str, want: WantPictures) -> None:
        self.asked.append((station, want))


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    made = Wire(tmp_path / "incoming")
    yield made
    made.uploads.close()


def held(wire: Wire, announced: Announced) -> int:
    path = wire.folder / announced.episode.order.order_id
    return path.stat().st_size if path.exists() else 0


def whole(announced: Announced, told: list[Delivered | Refused]) -> None:
    """Assert that this one episode was delivered with its images."""
    [delivered] = told
    assert isinstance(delivered, Delivered)
    assert (delivered.station, delivered.lease, delivered.episode) == (announced.station, 3, announced.episode)
    assert delivered.arrays_file == b"frames"
    assert delivered.pictures is not None
    assert delivered.pictures.read_bytes() == CONTENT


def test_images_arrive_complete_and_each_part_is_requested_once(wire: Wire) -> None:
    announced = wire.fetch("alpha")
    wire.uploads.fetch(announced)
    sizes: list[int] = []
    told = wire.run(enough=lambda: bool(sizes.append(wire.asked[0][1].size)))
    whole(announced, told)
    assert sizes[0] == LEAST
    assert max(sizes) == MOST
    assert wire.run() == []


@pytest.mark.parametrize("how", ["a new lease", "a new process"])
def test_an_upload_resumes_at_the_next_byte(wire: Wire, how: str) -> None:
    announced = wire.fetch("alpha")
    wire.run(enough=lambda: held(wire, announced) > MOST)
    stood = held(wire, announced)
    if how == "a new lease":
        wire.uploads.forget("alpha")
        wire.asked.clear()
    else:
        wire.open()
    assert wire.run() == [], "of a station that is gone nothing is asked"
    wire.uploads.fetch(announced)
    wire.uploads.step()
    assert [want.offset for _, want in wire.asked] == [stood]
    whole(announced, wire.run())


def test_a_complete_file_is_only_checked(wire: Wire) -> None:
    announced = wire.fetch("alpha")
    whole(announced, wire.run())
    wire.open().fetch(announced)
    wire.uploads.step()
    assert [want.offset for _, want in wire.asked] == [len(CONTENT)]
    whole(announced, wire.run())


def test_a_file_damaged_here_is_fetched_again(wire: Wire) -> None:
    announced = wire.announce("alpha")
    wire.folder.mkdir()
    (wire.folder / announced.episode.order.order_id).write_bytes(bytes(MOST))
    wire.uploads.fetch(announced)
    complaint, *told = wire.run()
    assert isinstance(complaint, Refused)
    assert "are fetched again: their bytes do not match their hash." in complaint.why
    whole(announced, told)


def test_wrong_bytes_end_the_order_after_the_second_try(wire: Wire) -> None:
    announced = wire.fetch("alpha", content=CONTENT[:-1] + b"\x00")
    complaint, end = wire.run()
    assert isinstance(complaint, Refused)
    assert isinstance(end, Delivered)
    assert (end.episode.outcome, end.episode.sha256, end.episode.pictures_sha256) == ("invalid", "", "")
    assert end.episode.cause == "its pictures cannot be had: their bytes do not match their hash"
    assert (end.arrays_file, end.pictures) == (b"", None)
    assert not held(wire, announced)
    assert wire.run() == []


def twice(part: PicturesPart) -> PicturesPart:
    return replace(part, data=CONTENT[part.offset : part.offset + 2 * LEAST])


def more(part: PicturesPart) -> PicturesPart:
    return replace(part, data=part.data + bytes(part.total))


@pytest.mark.parametrize(
    ("lie", "sentence"),
    [
        (lambda part: replace(part, total=LARGEST_PICTURES + 1), "they are 2147483649 bytes, and at most 2147483648"),
        (lambda part: replace(part, total=part.total - part.offset % 7), "they were 3158073 bytes, and are 31580"),
        (more, "of 3158073 came in one part"),
        (lambda part: replace(part, data=b""), "bytes 0 to 0 of 3158073 came in one part"),
        (twice, f"{2 * LEAST} bytes came in one part, and at most {LEAST} were asked for"),
    ],
    ids=["too large", "another size", "beyond the end", "nothing", "more than asked for"],
)
def test_invalid_parts_do_not_fill_the_disk(
    wire: Wire, lie: Callable[[PicturesPart], PicturesPart], sentence: str
) -> None:
    announced = wire.fetch("alpha")
    told = [*wire.uploads.step()]
    for _ in range(20):
        if wire.asked:
            station, want = wire.asked.pop(0)
            wire.uploads.arrived(station, lie(wire.part(station, want)))
            told += wire.uploads.step()
    complaint, end = told
    assert isinstance(complaint, Refused)
    assert sentence in complaint.why
    assert isinstance(end, Delivered)
    assert end.episode.outcome == "invalid"
    assert sentence in end.episode.cause
    assert not held(wire, announced)


def test_repeated_early_and_unrequested_parts_change_nothing(wire: Wire) -> None:
    announced = wire.fetch("alpha")
    other = wire.announce("beta")
    wire.run(enough=lambda: len(wire.asked) == 4)
    parts = [wire.part(station, want) for station, want in wire.asked]
    before = held(wire, announced)
    for part in (parts[1], parts[3]):
        wire.uploads.arrived("alpha", part)
    wire.uploads.arrived("beta", parts[0])
    unasked = WantPictures(order_id=other.episode.order.order_id, offset=0, size=LEAST)
    wire.uploads.arrived("beta", wire.part("beta", unasked))
    wire.uploads.step()
    assert held(wire, announced) == before
    for part in (parts[0], parts[0], *parts[1:], *parts):
        wire.uploads.arrived("alpha", part)
    del wire.asked[:4]
    whole(announced, wire.run())
    assert [path.name for path in wire.folder.iterdir()] == [announced.episode.order.order_id]


def test_lost_parts_are_requested_again(wire: Wire) -> None:
    announced = wire.fetch("alpha")
    wire.run(enough=lambda: len(wire.asked) == 4)
    first = wire.asked[0][1].offset
    wire.asked.clear()
    wire.now_s += 4.9
    assert wire.run() == []
    wire.now_s += 0.2
    wire.uploads.step()
    assert [(want.offset, want.size) for _, want in wire.asked] == [(first, LEAST)], "one, and a small one"
    whole(announced, wire.run())


def test_a_late_large_part_is_taken_after_a_smaller_request(wire: Wire) -> None:
    announced = wire.fetch("alpha")
    wire.run(enough=lambda: wire.asked[0][1].size == MOST)
    late, largest = wire.asked[0]
    wire.asked.clear()
    wire.now_s += 5.2
    wire.uploads.step()
    assert wire.asked[0][1].size == LEAST
    wire.uploads.arrived(late, wire.part(late, largest))
    whole(announced, wire.run())


def test_few_parts_are_pending_at_once_and_stations_take_turns(wire: Wire) -> None:
    names = [f"station-{number}" for number in range(12)]
    for name in names:
        wire.fetch(name)
        wire.fetch(name)
    most = 0
    served: list[str] = []

    def look() -> bool:
        nonlocal most
        most = max(most, len(wire.asked))
        served.append(wire.asked[0][0])
        return False

    told = wire.run(enough=look)
    assert most == 8
    assert {name: served[:48].count(name) for name in names} == dict.fromkeys(names, 4)
    assert [type(item) for item in told] == [Delivered] * 24
    for _ in range(9):
        wire.fetch("greedy")
    assert len(wire.run()) == 4


def test_on_a_slow_network_the_parts_are_small(wire: Wire) -> None:
    wire.fetch("alpha", bytes(30 * MOST))
    wire.run(enough=lambda: wire.asked[-1][1].size == MOST)
    sizes: list[int] = []
    wire.run(took_s=1.2, enough=lambda: bool(sizes.append(wire.asked[-1][1].size)) or sizes[-1] == LEAST)
    assert sizes[0] == MOST
    assert sizes[-1] == LEAST


def test_an_upload_waits_for_space_and_reports_it_once(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "KEEP_FREE", 2**62)
    announced = wire.fetch("alpha")
    [complaint] = wire.run()
    assert isinstance(complaint, Refused)
    assert f"wait: {len(CONTENT) - LEAST} more bytes need" in complaint.why
    assert wire.run() == []
    monkeypatch.undo()
    whole(announced, wire.run())


def test_a_disk_that_fills_up_keeps_the_parts_before(wire: Wire) -> None:
    announced = wire.fetch("alpha")
    wire.run(enough=lambda: held(wire, announced) > MOST)
    stood = held(wire, announced)
    with a_full_disk(stood + 1000), pytest.raises(StorageFull, match="The disk refused to write"):
        wire.run()
    assert held(wire, announced) == stood
    wire.open().fetch(announced)
    whole(announced, wire.run())
