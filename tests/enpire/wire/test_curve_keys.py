import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq
from zmq.utils import z85

from enpire.errors import FileProblem, UsageError
from enpire.fleet.zmq_transport import ZmqFleet
from enpire.store import durable
from enpire.wire.arrivals import Heartbeat, Joined, Refused
from enpire.wire.curve_keys import (
    EncryptedBind,
    KeyAuthenticator,
    KeyPair,
    StationKeys,
    allowed,
    encrypt,
    enroll,
    read_pair,
    server_keys,
    station_keys,
)
from enpire.wire.messages import Welcome, encode
from enpire.wire.zmq_link import StationLink
from tests.enpire.fleet.test_zmq_transport import beat, hear, hello, join, say, until
from tests.fakes.fleet_harness import WAIT_S, FleetHarness
from tests.fakes.point_task import point_order, point_station


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def fleet(keys: Path, tmp_path: Path) -> Iterator[ZmqFleet]:
    bind = EncryptedBind(address="tcp://127.0.0.1:0", keys=keys)
    opened = ZmqFleet(bind, tmp_path / "versions", tmp_path / "incoming")
    yield opened
    opened.close()


def own(keys: Path, station: str) -> StationKeys:
    return station_keys(enroll(keys, station), server_keys(keys).public.decode())


def unknown(keys: Path) -> StationKeys:
    public, secret = zmq.curve_keypair()
    return StationKeys(pair=KeyPair(public=public, secret=secret), server=server_keys(keys).public)


def only_known_joins(fleet: ZmqFleet, known: StationLink, knock: Callable[[], object]) -> None:
    """Assert that no hello of a peer that knocks arrives while a known station joins, and some time longer."""
    began_s, joined = time.monotonic(), list[str]()
    while not joined or time.monotonic() < began_s + 0.7:
        assert time.monotonic() < began_s + WAIT_S, "the known station did not join either"
        knock()
        if not joined:
            known.send(hello(known.name))
        joined += [item.station for item in fleet.poll(0.02) if isinstance(item, Joined)]
        assert set(joined) <= {known.name}


def test_keys_are_made_once_and_readable_by_the_owner_only(keys: Path) -> None:
    first = server_keys(keys)
    assert server_keys(keys) == first
    path = enroll(keys, "alpha")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(allowed(keys).values()) == ["alpha"]
    with pytest.raises(UsageError, match="already"):
        enroll(keys, "alpha")
    with pytest.raises(UsageError, match="name"):
        enroll(keys, "../alpha")
    for mode in (0o644, 0o640, 0o602, 0o601, 0o610):
        path.chmod(mode)
        with pytest.raises(FileProblem, match="chmod 600"):
            read_pair(path)
    path.chmod(0o600)
    assert path.read_bytes().split()[0] == (keys / "allowed" / "alpha.public").read_bytes().strip()
    with pytest.raises(UsageError, match="cannot be named 'server'"):
        enroll(keys, "server")
    with pytest.raises(FileProblem, match="cannot be read"):
        read_pair(keys / "nothing.secret")
    for lines in (b"x" * 40, b"x" * 40 + b"\n" + b"y" * 40 + b"\nz"):
        durable.write(keys / "lines.secret", lines)
        (keys / "lines.secret").chmod(0o600)
        with pytest.raises(FileProblem, match="must hold two lines"):
            read_pair(keys / "lines.secret")
    path.write_text("short\nkeys\n")
    with pytest.raises(FileProblem, match="40 characters"):
        read_pair(path)


def test_a_station_enrolled_while_the_fleet_runs_is_accepted(fleet: ZmqFleet, keys: Path) -> None:
    link = StationLink(fleet.address, "alpha", own(keys, "alpha"))
    deadline = time.monotonic() + 300
    joined: list[Joined] = []
    while not joined and time.monotonic() < deadline:
        link.send(hello("alpha"))
        joined = [item for item in fleet.poll(0.05) if isinstance(item, Joined)]
    assert joined[0].station == "alpha"
    hear(link, Welcome)
    link.close()


def test_an_unknown_key_and_a_plain_peer_get_nothing_through(fleet: ZmqFleet, keys: Path) -> None:
    own(keys, "alpha")
    beta, gamma = (StationLink(fleet.address, name, own(keys, name)) for name in ("beta", "gamma"))
    stranger = StationLink(fleet.address, "alpha", unknown(keys))
    only_known_joins(fleet, beta, lambda: stranger.send(hello("alpha")))
    context = zmq.Context()
    plain = context.socket(zmq.DEALER)
    plain.connect(fleet.address)

    def knock() -> None:
        with suppress(zmq.Again):
            plain.send(encode(hello("alpha")), zmq.NOBLOCK)

    only_known_joins(fleet, gamma, knock)
    context.destroy(linger=0)
    for link in (stranger, beta, gamma):
        link.close()


def test_a_key_that_is_not_enrolled_is_reported(fleet: ZmqFleet, keys: Path) -> None:
    stranger = StationLink(fleet.address, "alpha", unknown(keys))
    refused = [item for item in until(fleet, Refused) if isinstance(item, Refused)]
    assert "not enrolled" in refused[0].why
    stranger.close()


def test_a_key_is_accepted_exactly_while_its_file_exists(keys: Path) -> None:
    context = zmq.Context()
    authenticator = KeyAuthenticator(context, keys)
    asking = context.socket(zmq.REQ)
    asking.connect("inproc://zeromq.zap.01")

    def comes_in(public: bytes) -> str:
        asking.send_multipart([b"1.0", b"1", b"enpire", b"192.0.2.1", b"", b"CURVE", z85.decode(public)])
        refused = authenticator.decide()
        answer = asking.recv_multipart()
        assert (answer[2] == b"200") is not bool(refused)
        return answer[4].decode()

    alpha, beta = zmq.curve_keypair()[0], zmq.curve_keypair()[0]
    assert comes_in(alpha) == "", "nobody is enrolled yet"
    card = keys / "allowed" / "alpha.public"
    durable.make_folder(card.parent)
    durable.write(card, alpha)
    assert [comes_in(alpha), comes_in(beta), comes_in(alpha)] == ["alpha", "", "alpha"]
    with card.open("r+b") as file:
        file.write(beta)  # in place: the folder does not change
    assert [comes_in(alpha), comes_in(beta)] == ["", "alpha"]
    card.rename(card.with_name("gamma.public"))
    assert comes_in(beta) == "gamma"
    card.with_name("gamma.public").unlink()
    assert comes_in(beta) == ""
    context.destroy(linger=0)


def test_a_request_of_another_form_is_refused(keys: Path) -> None:
    public = enroll(keys, "alpha").read_bytes().split()[0]
    right = [b"1.0", b"17", b"enpire", b"192.0.2.1", b"", b"CURVE", z85.decode(public)]
    wrong = [[*right[:at], b"x", *right[at + 1 :]] for at in (0, 2, 5, 6)]
    wrong += [[*right, b""], right[:6], right[:3], right[:2], right[:1], [b""]]
    context = zmq.Context()
    authenticator = KeyAuthenticator(context, keys)
    asking = context.socket(zmq.REQ)
    asking.connect("inproc://zeromq.zap.01")
    asking.send_multipart(right)
    assert authenticator.decide() == ""
    assert asking.recv_multipart() == [b"1.0", b"17", b"200", b"OK", b"alpha", b""]
    for frames in wrong:
        asking.send_multipart(frames)
        where = "192.0.2.1" if len(frames) > 3 else "an unknown address"
        assert authenticator.decide() == f"A connection from {where} has a key that is not enrolled."
        sequence = frames[1] if len(frames) > 1 else b""
        assert asking.recv_multipart() == [b"1.0", sequence, b"400", b"not enrolled", b"", b""]
    context.destroy(linger=0)


@pytest.mark.parametrize("content", [b"", b"x" * 39, b"x" * 41, b"x" * 35, b"x" * 45, b"\xff" * 40])
def test_a_damaged_file_among_the_allowed_keys_allows_no_station(keys: Path, content: bytes) -> None:
    pair = read_pair(enroll(keys, "alpha"))
    assert allowed(keys) == {z85.decode(pair.public): "alpha"}
    durable.write(keys / "allowed" / "beta.public", content)
    assert allowed(keys) == {z85.decode(pair.public): "alpha"}
    with pytest.raises(FileProblem, match="server_key of the station file is not a key"):
        station_keys(keys / "alpha.secret", content.decode("latin-1"))


def test_many_strangers_are_all_refused_and_delay_no_station(fleet: ZmqFleet, keys: Path) -> None:
    link = StationLink(fleet.address, "alpha", own(keys, "alpha"))
    lease = join(fleet, link).lease
    stranger = unknown(keys)
    context = zmq.Context()
    waiting: dict[zmq.Socket[bytes], zmq.Socket[bytes]] = {}
    for _ in range(80):
        knocking = context.socket(zmq.DEALER)
        encrypt(knocking, stranger)
        knocking.setsockopt(zmq.RECONNECT_IVL, -1)
        waiting[knocking] = knocking.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        knocking.connect(fleet.address)
    say(link, beat("alpha"), lease)
    until(fleet, Heartbeat)
    deadline = time.monotonic() + 300
    while waiting and time.monotonic() < deadline:
        longest_s = time.monotonic()
        fleet.poll(0.0)
        assert time.monotonic() - longest_s < 60
        for knocking in [knocking for knocking, watched in waiting.items() if watched.poll(0)]:
            knocking.disable_monitor()
            waiting.pop(knocking).close()
            knocking.close(linger=0)
    assert not waiting
    link.close()
    context.destroy(linger=0)


def test_a_key_is_valid_only_for_its_own_name(fleet: ZmqFleet, keys: Path) -> None:
    link = StationLink(fleet.address, "beta", own(keys, "alpha"))
    deadline = time.monotonic() + 300
    refused: list[Refused] = []
    while not refused and time.monotonic() < deadline:
        link.send(hello("beta"))
        arrivals = fleet.poll(0.05)
        assert not [item for item in arrivals if isinstance(item, Joined)]
        refused = [item for item in arrivals if isinstance(item, Refused)]
    assert "key of alpha" in refused[0].why
    link.close()


def test_the_gateways_own_socket_accepts_no_connection_without_an_authenticator(keys: Path) -> None:
    """Without an authenticator ZeroMQ accepts unknown keys, unless the domain is enforced."""
    context = zmq.Context()
    authenticator, router = KeyAuthenticator(context, keys), context.socket(zmq.ROUTER)
    authenticator.encrypt(router)
    authenticator.socket.close(linger=0)
    address = f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"
    for known in (own(keys, "alpha"), unknown(keys)):
        link = StationLink(address, "alpha", known)
        deadline = time.monotonic() + 0.7
        while time.monotonic() < deadline:
            link.send(hello("alpha"))
            assert not router.poll(20)
        link.close()
    context.destroy(linger=0)


def test_an_encrypted_station_process_runs_orders(tmp_path: Path, keys: Path) -> None:
    harness = FleetHarness(tmp_path)
    harness.fleet.close()
    bind = EncryptedBind(address="tcp://127.0.0.1:0", keys=keys)
    harness.fleet = ZmqFleet(bind, harness.versions, harness.root / "incoming", heartbeat_s=0.05)
    harness.bind = harness.fleet.address
    policy_id = harness.policy("p")
    server = server_keys(keys).public.decode()
    try:
        harness.start(point_station(tmp_path, key_file=enroll(keys, "alpha"), server_key=server))
        lease = harness.join()
        orders = [point_order(policy_id, index, lease=lease) for index in range(4)]
        harness.fleet.send("alpha", orders)
        harness.until_all(orders)
    finally:
        harness.close()
