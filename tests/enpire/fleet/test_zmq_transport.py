import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

from enpire.codec import PURPOSES
from enpire.errors import TransportProblem, UsageError
from enpire.fleet.zmq_transport import ZmqFleet
from enpire.store import versions
from enpire.types import never_began
from enpire.wire.arrivals import Arrival, Delivered, Fleet, Heartbeat, Joined, Left, Refused
from enpire.wire.host_services import HostServices
from enpire.wire.messages import (
    PART,
    Acknowledge,
    ControlMessage,
    Fenced,
    Goodbye,
    Hello,
    Message,
    Orders,
    Parcel,
    PolicyMissing,
    PolicyPart,
    Refuse,
    Rejoin,
    Release,
    WantPolicy,
    Welcome,
    decode,
    encode,
)
from enpire.wire.private_socket import private_address
from enpire.wire.zmq_link import StationLink
from tests.enpire.wire.test_messages import ALL, EPISODE
from tests.fakes.point_task import point_order, write_policy

WAIT_S = 300.0


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ZmqFleet]:
    opened = ZmqFleet(private_address(tmp_path, "fleet"), tmp_path / "versions", tmp_path / "incoming", first_lease=7)
    yield opened
    opened.close()


@pytest.fixture
def links() -> Iterator[Callable[[ZmqFleet, str], StationLink]]:
    opened: list[StationLink] = []

    def make(fleet: ZmqFleet, name: str) -> StationLink:
        opened.append(StationLink(fleet.address, name))
        return opened[-1]

    yield make
    for link in opened:
        link.close()


def until(fleet: ZmqFleet, kind: type[Arrival]) -> Sequence[Arrival]:
    """All arrivals up to the first of a kind."""
    seen: list[Arrival] = []
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        seen.extend(fleet.poll(0.05))
        if any(isinstance(arrival, kind) for arrival in seen):
            return seen
    raise AssertionError(f"no {kind} came, only {seen}")


def say(link: StationLink, message: Message, lease: int = 0) -> None:
    deadline = time.monotonic() + WAIT_S
    while not link.send(message, lease):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def hear(link: StationLink, kind: type[Message]) -> list[Message]:
    heard: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        heard.extend(envelope.message for envelope in link.receive(0.05))
        if any(isinstance(message, kind) for message in heard):
            return heard
    raise AssertionError(f"no {kind} was heard, only {heard}")


def hello(name: str, greeting: int = 1, running: tuple[str, ...] = ()) -> Hello:
    return Hello(station=name, greeting=greeting, lanes=4, running=running, spooled=("01S",))


def join(fleet: ZmqFleet, link: StationLink, greeting: int = 1) -> Joined:
    """Say hello as a station does: once a second, until it is welcomed."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        say(link, hello(link.name, greeting))
        listen_until = time.monotonic() + 1.1
        while time.monotonic() < listen_until:
            for arrival in fleet.poll(0.05):
                if isinstance(arrival, Joined):
                    hear(link, Welcome)
                    return arrival
    raise AssertionError(f"{link.name} was not heard")


def beat(name: str) -> Heartbeat:
    return Heartbeat(
        station=name, lease=0, phase="rollout", seconds={"rollout": 1.0}, queued=0, running=1, deployed=""
    )  # fmt: skip


def test_it_is_a_fleet_at_a_real_address(fleet: ZmqFleet) -> None:
    as_protocol: Fleet = fleet
    assert as_protocol.poll(0.0) == ()
    assert fleet.address.startswith("ipc:///")
    assert Path(fleet.address.removeprefix("ipc://")).is_socket()
    with pytest.raises(TransportProblem, match="Cannot listen.*another process listens there"):
        ZmqFleet(fleet.address, Path(), Path())


def test_leases_rise_and_orders_acknowledgements_releases_and_controls_arrive(fleet: ZmqFleet, links) -> None:
    link = links(fleet, "alpha")
    first = join(fleet, link)
    assert (first.station, first.lanes, first.lease, first.spooled) == ("alpha", 4, 7, ("01S",))
    second = join(fleet, link, 2)
    assert second.lease == 8
    order = point_order("a" * 64, 1, lease=8)
    fleet.send("alpha", [order])
    fleet.acknowledge("alpha", ["01S"])
    fleet.refuse("alpha", ["01T"], "another ledger")
    fleet.release("alpha", ["01R"])
    fleet.control("alpha", "stop", "ann")
    heard = hear(link, ControlMessage)
    assert heard == [
        Orders(orders=(order,)), Acknowledge(order_ids=("01S",)), Refuse(order_ids=("01T",), why="another ledger"),
        Release(order_ids=("01R",)), ControlMessage(control="stop", argument="ann", stop_ids=()),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="dance"):
        fleet.control("alpha", "dance")


def test_a_station_of_an_earlier_version_gets_extra_rollouts_as_collection(fleet: ZmqFleet, links) -> None:
    for name, known, sent in (("earlier", {}, "collect"), ("present", {"purposes": " ".join(PURPOSES)}, "extra")):
        link = links(fleet, name)
        say(link, replace(hello(name), facts=known))
        [joined] = [item for item in until(fleet, Joined) if isinstance(item, Joined)]
        gate = point_order("a" * 64, 1, lease=joined.lease)
        extra = replace(gate, order_id="01X", purpose="extra")
        fleet.send(name, [gate, extra])
        orders = next(item for item in hear(link, Orders) if isinstance(item, Orders)).orders
        assert orders == (gate, replace(extra, purpose=sent))


def test_an_episode_and_a_heartbeat_arrive_under_the_lease(fleet: ZmqFleet, links) -> None:
    link = links(fleet, "alpha")
    lease = join(fleet, link).lease
    say(link, beat("somebody-else"), lease)
    [heard] = [item for item in until(fleet, Heartbeat) if isinstance(item, Heartbeat)]
    assert (heard.station, heard.lease) == ("alpha", lease)
    say(link, Parcel(episode=EPISODE, arrays_file=b"frames"), lease)
    [arrival] = until(fleet, Delivered)
    assert arrival == Delivered(station="alpha", lease=lease, episode=EPISODE, arrays_file=b"frames")


def test_an_implausible_episode_is_delivered_with_its_sender_so_that_its_order_ends(fleet: ZmqFleet, links) -> None:
    for name, data in (("alpha", b"other frames"), ("beta", b"frames")):
        link = links(fleet, name)
        say(link, Parcel(episode=EPISODE, arrays_file=data), lease := join(fleet, link).lease)
        [arrival] = until(fleet, Delivered)
        assert arrival == Delivered(station=name, lease=lease, episode=EPISODE, arrays_file=data)


def test_messages_under_an_old_lease_are_refused(fleet: ZmqFleet, links) -> None:
    link = links(fleet, "alpha")
    old = join(fleet, link).lease
    join(fleet, link, 2)
    say(link, Parcel(episode=EPISODE, arrays_file=b""), old)
    [refused] = until(fleet, Refused)
    assert isinstance(refused, Refused)
    assert f"old lease {old}" in refused.why
    hear(link, Rejoin)


def test_a_newer_process_of_the_same_station_fences_the_older_one(fleet: ZmqFleet, links) -> None:
    zombie, fresh = links(fleet, "alpha"), links(fleet, "alpha")
    old = join(fleet, zombie).lease
    new = join(fleet, fresh).lease
    say(zombie, beat("alpha"), old)
    assert any("replaced" in item.why for item in until(fleet, Refused) if isinstance(item, Refused))
    hear(zombie, Fenced)
    say(fresh, beat("alpha"), new)
    until(fleet, Heartbeat)


def test_a_repeated_or_late_hello_changes_nothing(fleet: ZmqFleet, links) -> None:
    link = links(fleet, "alpha")
    first = join(fleet, link, 1)
    second = join(fleet, link, 2)
    assert second.lease > first.lease
    for late in (2, 1):
        say(link, hello("alpha", late))
    say(link, beat("alpha"), second.lease)
    assert not [arrival for arrival in until(fleet, Heartbeat) if isinstance(arrival, Joined)]


def test_a_station_that_has_not_said_hello_is_asked_to(fleet: ZmqFleet, links) -> None:
    link = links(fleet, "alpha")
    say(link, beat("alpha"), 3)
    [refused] = until(fleet, Refused)
    assert isinstance(refused, Refused)
    assert "hello" in refused.why
    hear(link, Rejoin)


def test_orders_that_cannot_be_sent_come_back_as_aborted(fleet: ZmqFleet, links) -> None:
    order = point_order("a" * 64, 1)
    fleet.send("nobody", [order])
    [back] = fleet.poll(0.0)
    assert isinstance(back, Delivered)
    assert (back.episode.order, back.episode.outcome) == (order, "aborted")
    assert never_began(back.episode.outcome, back.episode.cause), "nobody saw its start: it counts for neither side"
    link = links(fleet, "alpha")
    lease = join(fleet, link).lease
    late = point_order("a" * 64, 2, lease=lease - 1)
    fleet.send("alpha", [late])
    [back] = fleet.poll(0.0)
    assert isinstance(back, Delivered)
    assert back.episode.order == late


def test_goodbye_and_silence_are_reported(tmp_path: Path, links) -> None:
    fleet = ZmqFleet(private_address(tmp_path, "fleet"), tmp_path, tmp_path, silent_s=0.3)
    link = links(fleet, "alpha")
    join(fleet, link)
    assert until(fleet, Left) == [Left(station="alpha", cause="not heard for 0.3 s")]
    lease = join(fleet, link, 2).lease
    say(link, Goodbye(cause="lunch"), lease)
    assert until(fleet, Left) == [Left(station="alpha", cause="lunch")]
    fleet.close()


def test_no_invalid_message_makes_poll_raise_and_other_stations_continue(fleet: ZmqFleet, links) -> None:
    link = links(fleet, "alpha")
    lease = join(fleet, link).lease
    context = zmq.Context()
    hostile = context.socket(zmq.DEALER)
    hostile.setsockopt(zmq.LINGER, 0)
    hostile.connect(fleet.address)
    for frames in ([b""], [b"\xff" * 100], [b"a", b"b", b"c"], [encode(message) for message in ALL]):
        hostile.send_multipart(frames)
    for message in ALL[1:]:
        hostile.send(encode(message, lease))
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(fleet.address.removeprefix("ipc://"))
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"\0" * 1000)
    refused: list[Refused] = []
    deadline = time.monotonic() + WAIT_S
    while len(refused) < 5 and time.monotonic() < deadline:
        refused += [item for item in fleet.poll(0.05) if isinstance(item, Refused)]
    assert len(refused) >= 5
    say(link, beat("alpha"), lease)
    until(fleet, Heartbeat)
    context.destroy(linger=0)


def test_a_policy_is_fetched_in_parts_and_nothing_else_can_be_read(fleet: ZmqFleet, links, tmp_path: Path) -> None:
    folder = write_policy(tmp_path / "files")
    (folder / "weights.safetensors").write_bytes(bytes(PART + 1000))
    policy_id = versions.publish(folder, tmp_path / "versions")
    (tmp_path / "secret").mkdir()
    link = links(fleet, "alpha")
    lease = join(fleet, link).lease
    parts: list[bytes] = []
    for part in (0, 1):
        say(link, WantPolicy(policy_id=policy_id, part=part), lease)
        answer = _answer(fleet, link, PolicyPart)
        assert isinstance(answer, PolicyPart)
        assert (answer.part, answer.parts) == (part, 2)
        parts.append(answer.data)
    (tmp_path / "packed").write_bytes(b"".join(parts))
    assert versions.unpack(tmp_path / "packed", tmp_path / "copy") == policy_id
    for wrong in ("b" * 64, "../secret", "/etc/passwd", ""):
        say(link, WantPolicy(policy_id=wrong, part=0), lease)
        answer = _answer(fleet, link, PolicyMissing)
        assert isinstance(answer, PolicyMissing)
        assert answer.policy_id == wrong


def _answer(fleet: ZmqFleet, link: StationLink, kind: type[Message]) -> Message:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        fleet.poll(0.01)
        for envelope in link.receive(0.01):
            if isinstance(envelope.message, kind):
                return envelope.message
    raise AssertionError(f"no {kind} came")


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:0", "tcp://127.0.0.1:0", "tcp://localhost:7000", "ipc:///tmp/any"])
def test_an_address_that_other_processes_reach_needs_keys(tmp_path: Path, address: str) -> None:
    if address.startswith("ipc"):
        shared = tmp_path / "shared"
        shared.mkdir(mode=0o755)
        address = f"ipc://{shared}/any"
    with pytest.raises(TransportProblem, match="needs keys|other users can enter it"):
        ZmqFleet(address, tmp_path, tmp_path)
    with pytest.raises(TransportProblem, match="needs keys|other users can enter it"):
        StationLink(address, "alpha")


def test_messages_are_numbered_under_their_lease(fleet: ZmqFleet) -> None:
    context = zmq.Context()
    peer = context.socket(zmq.DEALER)
    peer.connect(fleet.address)
    peer.send(encode(hello("alpha")))
    until(fleet, Joined)
    for _ in range(3):
        fleet.control("alpha", "pause")
    envelopes = [decode(peer.recv()) for _ in range(4)]
    assert [(envelope.lease, envelope.number) for envelope in envelopes] == [(7, 1), (7, 2), (7, 3), (7, 4)]
    context.destroy(linger=0)


def test_orders_that_cannot_be_sent_delay_no_other_message(
    fleet: ZmqFleet, links: Callable[[ZmqFleet, str], StationLink]
) -> None:
    one, two = links(fleet, "one"), links(fleet, "two")
    join(fleet, one)
    lease = join(fleet, two).lease
    one.close()
    say(two, beat("two"), lease)
    seen: list[Arrival] = []
    deadline = time.monotonic() + WAIT_S
    # A laboratory that gives an order a turn, and gets it back unsent: what the other station says must come through.
    while not {Left, Heartbeat, Delivered} <= {type(arrival) for arrival in seen}:
        assert time.monotonic() < deadline, seen[-3:]
        fleet.send("one", [point_order("p", 0, "one")])
        seen.extend(fleet.poll(0.05))
    assert [arrival.station for arrival in seen if isinstance(arrival, Left)] == ["one"]


def test_of_many_waiting_heartbeats_only_the_newest_is_read_and_no_other_message_is_skipped(
    tmp_path: Path, links: Callable[[ZmqFleet, str], StationLink]
) -> None:
    now_s = [1000.0]  # no time passes while the fleet reads, so one look reads all that waits
    host = HostServices(clock=lambda: now_s[0])
    fleet = ZmqFleet(private_address(tmp_path, "fleet"), tmp_path, tmp_path, host=host)
    one, two = links(fleet, "one"), links(fleet, "two")
    seen, beats = list[Arrival](), list[Heartbeat]()
    for attempt, waits_s in enumerate((0.5, 2.0, 8.0, 32.0), 1):  # a busy machine delivers late
        leases = {link.name: join(fleet, link, attempt).lease for link in (one, two)}
        for number in range(80):
            for link in (one, two):
                say(link, replace(beat(link.name), queued=number), leases[link.name])
        say(one, Goodbye(cause="it ends"), leases["one"])
        time.sleep(waits_s)
        seen = until(fleet, Left)
        beats = [arrival for arrival in seen if isinstance(arrival, Heartbeat)]
        if len(beats) <= 4:
            break
        now_s[0] += 2.0
    fleet.close()
    assert {arrival.station: arrival.queued for arrival in beats} == {"one": 79, "two": 79}
    assert len(beats) <= 4, "each station's newest, of what one look or two found"
    assert not [arrival for arrival in seen if isinstance(arrival, Refused)], (
        "a beat before a goodbye is heard before it"
    )
