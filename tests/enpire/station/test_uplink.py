"""An episode leaves the station's disk when the orchestrator has acknowledged it, and never before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from enpire.station.spool import Spool
from enpire.station.uplink import Uplink
from enpire.wire.host_services import THIS_HOST
from enpire.wire.messages import Acknowledge, Envelope, Hello, Message, Parcel, Refuse, Welcome
from tests.enpire.station.test_spool import parcel

LEASE = 7


class Line:
    """The socket of a station: keeps what it sends, gives what a test puts in."""

    address = "a line of this test"

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.number = 0
        self.incoming: list[Envelope] = []

    def receive(self, timeout_s: float) -> list[Envelope]:
        incoming, self.incoming = self.incoming, []
        return incoming

    def send(self, message: Message, lease: int = 0) -> bool:
        self.sent.append(message)
        return True

    def restart(self) -> None: ...

    def answer(self, message: Message, lease: int = LEASE) -> None:
        self.number += 1
        self.incoming.append(Envelope(message=message, lease=lease, number=self.number))


class Desk:
    """A spool with three episodes and an uplink that has its lease."""

    def __init__(self, folder: Path) -> None:
        self.spool, self.line = Spool(folder, 0), Line()
        parcels = [parcel(index) for index in range(3)]
        self.spool.put(*parcels)
        self.ids = [item.episode.order.order_id for item in parcels]
        self.uplink = Uplink(self.line, self.spool, _hello, print, THIS_HOST)  # pyright: ignore[reportArgumentType]
        self.uplink.keep_contact(lambda lease: pytest.fail("there is no lease yet"))
        self.line.answer(Welcome(greeting=1, heartbeat_s=0.5, silent_s=5.0, preview_port=0))
        self.uplink.hear(0.0)

    def on_disk(self) -> list[str]:
        return sorted(path.stem for path in self.spool.pictures("x").parent.glob("*.episode"))


def _hello(greeting: int) -> Hello:
    return Hello(station="alpha", greeting=greeting, lanes=1, running=(), spooled=())


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "spool")
    yield made
    made.uplink.close()
    made.spool.close()


def test_what_was_sent_stays_on_disk_until_it_is_acknowledged(desk: Desk) -> None:
    desk.uplink.ship()
    assert [message.episode.order.order_id for message in desk.line.sent if isinstance(message, Parcel)] == desk.ids
    desk.uplink.hear(0.0)
    assert desk.on_disk() == sorted(desk.ids)
    desk.line.answer(Acknowledge(order_ids=(desk.ids[1],)))
    desk.uplink.hear(0.0)
    assert desk.on_disk() == sorted([desk.ids[0], desk.ids[2]])
    assert desk.spool.ids() == (desk.ids[0], desk.ids[2])


def test_an_acknowledgement_of_another_lease_deletes_nothing(desk: Desk) -> None:
    desk.uplink.ship()
    desk.line.answer(Acknowledge(order_ids=tuple(desk.ids)), lease=LEASE + 1)
    desk.uplink.hear(0.0)
    assert desk.on_disk() == sorted(desk.ids)


def test_an_acknowledgement_after_a_lost_message_deletes_nothing(desk: Desk) -> None:
    desk.uplink.ship()
    desk.line.number += 1
    desk.line.answer(Acknowledge(order_ids=tuple(desk.ids)))
    desk.uplink.hear(0.0)
    assert desk.on_disk() == sorted(desk.ids)
    assert desk.uplink.lease == 0, "it says hello again"


def test_what_is_refused_is_kept_for_the_next_start(desk: Desk) -> None:
    desk.uplink.ship()
    desk.line.answer(Refuse(order_ids=(desk.ids[0],), why="no such campaign"))
    desk.uplink.hear(0.0)
    assert desk.on_disk() == sorted(desk.ids[1:])
    assert [path.stem for path in desk.spool.refused.glob("*.episode")] == [desk.ids[0]]


def test_a_damaged_episode_is_never_sent_whatever_of_it_is_damaged(desk: Desk) -> None:
    for order_id, position in zip(desk.ids, (0, 70, -1), strict=True):
        path = desk.spool.pictures(order_id).with_suffix(".episode")
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(bytes(content))
        assert desk.spool.get(order_id) is None, position
    desk.uplink.ship()
    assert not [message for message in desk.line.sent if isinstance(message, Parcel)]
    assert desk.on_disk() == []
