"""Floods of messages: a poll stays short, other peers are served, and few rows are written."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import zmq

from enpire.fleet.zmq_transport import ZmqFleet
from enpire.wire.arrivals import Arrival, Heartbeat, Joined, Refused
from enpire.wire.host_services import HostServices
from enpire.wire.messages import Goodbye, encode
from enpire.wire.private_socket import private_address
from enpire.wire.socket_limits import LARGEST
from enpire.wire.zmq_link import StationLink
from tests.enpire.fleet.test_zmq_transport import WAIT_S, beat, hello, join, say, until
from tests.fakes.waiting import until as happens


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ZmqFleet]:
    opened = ZmqFleet(private_address(tmp_path, "fleet"), tmp_path / "versions", tmp_path / "incoming")
    yield opened
    opened.close()


def test_a_flood_of_invalid_messages_is_reported_a_bounded_number_of_times(fleet: ZmqFleet) -> None:
    context = zmq.Context()
    hostile = context.socket(zmq.DEALER)
    hostile.connect(fleet.address)
    for index in range(500):
        hostile.send(encode(Goodbye(cause=str(index)), lease=index))
    reported = len(until(fleet, Refused))
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        reported += len(fleet.poll(0.02))
    assert reported <= 50
    context.destroy(linger=0)


class HurriedClock:
    """A clock whose every reading takes ten milliseconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.01
        return self.now_s


def test_a_flood_blocks_no_poll_for_long(tmp_path: Path) -> None:
    clock = HurriedClock()
    fleet = ZmqFleet(
        private_address(tmp_path, "fleet"), tmp_path / "v", tmp_path / "incoming", host=HostServices(clock=clock)
    )
    context = zmq.Context()
    hostile = context.socket(zmq.DEALER)
    hostile.connect(fleet.address)
    for size in range(40):
        hostile.send(bytes(1 + size))
    time.sleep(0.5)  # all of it waits
    counts: list[int] = []
    happens(lambda: sum(counts) >= 40, "all refusals", turn=lambda: counts.append(len(fleet.poll(0.0))))
    assert max(counts) <= 5
    assert sum(counts) == 40
    for size in (*[1] * 100, 99):
        hostile.send(bytes(size))
    time.sleep(0.5)
    assert fleet.poll(0.02) == (), "nothing new to tell, and its time is over"
    until(fleet, Refused)
    clock.now_s += 60.0
    [told] = fleet.poll(0.0)
    assert isinstance(told, Refused)
    assert "100 more refusals within 60 s" in told.why
    context.destroy(linger=0)
    fleet.close()


def test_a_peer_that_sends_too_much_is_disconnected(fleet: ZmqFleet) -> None:
    link = StationLink(fleet.address, "alpha")
    lease = join(fleet, link).lease
    context = zmq.Context()
    hostile = context.socket(zmq.DEALER)
    watched = hostile.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    hostile.connect(fleet.address)
    hostile.send(bytes(LARGEST + 1))
    assert watched.poll(int(1000 * WAIT_S))
    say(link, beat("alpha"), lease)
    assert not [arrival for arrival in until(fleet, Heartbeat) if isinstance(arrival, Refused)], "it was never read"
    hostile.disable_monitor()
    watched.close()
    context.destroy(linger=0)
    link.close()


def test_endless_hellos_are_accepted_once_a_second(tmp_path: Path) -> None:
    now_s = [1000.0]
    host = HostServices(clock=lambda: now_s[0])
    fleet = ZmqFleet(private_address(tmp_path, "fleet"), tmp_path / "v", tmp_path / "incoming", host=host)
    link, other = StationLink(fleet.address, "alpha"), StationLink(fleet.address, "beta")
    lease = join(fleet, other).lease
    for greeting in range(1, 201):
        say(link, hello("alpha", greeting))
    arrivals = [*until(fleet, Joined)]
    time.sleep(0.3)  # most of the others wait now, and no time passes for the fleet
    say(other, beat("beta"), lease)
    arrivals += until(fleet, Heartbeat)
    assert [item.lease for item in arrivals if isinstance(item, Joined)] == [lease + 1]
    now_s[0] += 1.0
    assert join(fleet, link, 300).lease == lease + 2
    link.close()
    other.close()
    fleet.close()


def test_many_joining_stations_are_spread_over_polls_and_none_is_lost(fleet: ZmqFleet) -> None:
    context = zmq.Context()
    crowd = context.socket(zmq.DEALER)
    crowd.connect(fleet.address)
    names = [f"station-{number}" for number in range(80)]
    for name in names:
        crowd.send(encode(hello(name)))
    time.sleep(0.5)  # all of it waits
    seen: list[Sequence[Arrival]] = []
    deadline = time.monotonic() + WAIT_S
    while sum(map(len, seen)) < len(names) and time.monotonic() < deadline:
        seen.append(fleet.poll(0.05))
    assert [arrival.station for poll in seen for arrival in poll if isinstance(arrival, Joined)] == names
    assert max(map(len, seen)) <= 32
    context.destroy(linger=0)
