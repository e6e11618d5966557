import contextlib
import dataclasses
import hashlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.errors import TransportProblem
from enpire.types import Episode
from enpire.wire import messages
from enpire.wire.arrivals import MOST_LANES, Heartbeat
from enpire.wire.messages import (
    LARGEST,
    LARGEST_PICTURES,
    PART,
    SCHEMA,
    Acknowledge,
    Alive,
    ControlMessage,
    Envelope,
    Fenced,
    Goodbye,
    Hello,
    Message,
    Orders,
    Parcel,
    PicturesPart,
    PolicyMissing,
    PolicyPart,
    Refuse,
    Rejoin,
    Release,
    WantPictures,
    WantPolicy,
    Welcome,
    decode,
    encode,
    is_heartbeat,
    seal,
)
from tests.fakes.point_task import point_order


def packed(content: object) -> bytes:
    data = msgpack.packb(content)
    assert isinstance(data, bytes)
    return seal(data)


ORDER = point_order("a" * 64, 3)
FRAMES = b"frames"
EPISODE = Episode(
    order=ORDER, outcome="success", cause="", confidence=0.75, ran_policy_id="a" * 64, ticks=7, began_s=1.5,
    ended_s=2.25, achieved_start=(0.1, -0.2), reset_attempts=1, clipped=2, attempts=(3,),
    sha256=hashlib.sha256(FRAMES).hexdigest(),
)  # fmt: skip
ALL: list[Message] = [
    Hello(station="alpha", greeting=2, lanes=16, running=("01A",), spooled=("01B",), facts={"task": "point"}),
    Heartbeat(
        station="alpha", lease=0, phase="rollout", seconds={"rollout": 1.5, "reset": 0.25}, queued=3, running=2,
        deployed="c" * 64, stopped=True, paused=False, alarm="look", stop_id="01S", stop_by="somebody",
        stop_ids=("01S", "01R"), own_stop_id="01T", overdue=("01A",), rate_hz=29.5, jitter_ms=0.75,
        reading=(0.5, -1.25), moved_by="operator", viability=0.25,
        motion_id="M1", motion_problem="stopped by ann", waits_for_person=("01C",), person_moves=("01D",),
    ),
    Parcel(episode=EPISODE, arrays_file=FRAMES),
    Parcel(episode=dataclasses.replace(EPISODE, pictures_sha256="b" * 64), arrays_file=FRAMES),
    PicturesPart(order_id="01A", offset=7, total=9, data=b"\x00\xff"),
    WantPictures(order_id="01A", offset=7, size=4096),
    WantPolicy(policy_id="a" * 64, part=1),
    Goodbye(cause="done"),
    Welcome(greeting=2, heartbeat_s=0.5, silent_s=5.0, preview_port=4711),
    Orders(orders=(ORDER,)),
    Acknowledge(order_ids=("01A", "01B")),
    Refuse(order_ids=("01A",), why="another ledger"),
    Release(order_ids=()),
    ControlMessage(control="deploy", argument="a" * 64),
    ControlMessage(control="resume", argument="ann", stop_ids=("01S", "01T")),
    PolicyPart(policy_id="a" * 64, part=0, parts=2, data=b"xyz"),
    PolicyMissing(policy_id="a" * 64, why="gone"),
    Alive(),
    Rejoin(),
    Fenced(),
]  # fmt: skip


NEWER = {
    (Heartbeat, "own_stop_id"),
    (Heartbeat, "rate_hz"),
    (Heartbeat, "jitter_ms"),
    (Heartbeat, "reading"),
    (Heartbeat, "moved_by"),
    (Heartbeat, "viability"),
    (Heartbeat, "motion_id"),
    (Heartbeat, "motion_problem"),
    (Heartbeat, "waits_for_person"),
    (Heartbeat, "person_moves"),
    (Heartbeat, "stop_ids"),
    (ControlMessage, "stop_ids"),
}
"""Fields that messages of earlier versions lack."""


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_every_message_comes_back_equal(message: Message) -> None:
    envelope = decode(encode(message, lease=9, number=4))
    assert envelope.message == message
    assert (envelope.lease, envelope.number) == (9, 4)


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_a_missing_or_wrong_field_is_named(message: Message) -> None:
    whole = msgpack.unpackb(encode(message)[8:])
    assert len(whole[4]) == len(dataclasses.fields(message))
    for key in whole[4]:
        if (type(message), key) == (Heartbeat, "lease"):  # taken from the envelope
            continue
        for damage in ("wrong",) if (type(message), key) in NEWER else ("missing", "wrong"):
            content = dict(whole[4])
            if damage == "missing":
                del content[key]
            else:
                content[key] = 1.5e300
            with pytest.raises(TransportProblem, match=key):
                decode(packed([*whole[:4], content]))


def test_messages_of_earlier_versions_lack_the_newer_fields_and_are_read() -> None:
    for message in ALL:
        whole = msgpack.unpackb(encode(message)[8:])
        newer = {key for kind, key in NEWER if kind is type(message)}
        before = decode(packed([*whole[:4], {key: value for key, value in whole[4].items() if key not in newer}]))
        defaults = {item.name: item.default for item in dataclasses.fields(message) if item.name in newer}
        assert before.message == dataclasses.replace(decode(encode(message)).message, **defaults)  # type: ignore[type-var]


def test_renamed_classes_and_fields_keep_their_names_on_the_wire() -> None:
    assert WIRE[Heartbeat][1] == "Beat"
    assert WIRE[ControlMessage][1] == "Command"
    assert WIRE[ControlMessage][4] == {"verb": "resume", "argument": "ann", "stop_ids": ["01S", "01T"]}
    assert WIRE[Parcel][1] == "Parcel", "spools on the disks of stations hold messages of this name"


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_a_transport_problem(data: bytes) -> None:
    for form in (data, seal(data)):
        with contextlib.suppress(TransportProblem):
            decode(form)


ATOMS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=8) | st.binary(max_size=8)
)
WIRE = {type(message): msgpack.unpackb(encode(message)[8:]) for message in ALL}
KEYS = sorted({key for whole in WIRE.values() for key in whole[4]})
VALUES = ATOMS | st.dictionaries(st.sampled_from(KEYS), ATOMS | st.lists(ATOMS, max_size=3), max_size=6)


@given(st.sampled_from([whole[1] for whole in WIRE.values()]), VALUES)
def test_any_content_of_a_known_type_is_a_message_or_a_transport_problem(kind: str, content: object) -> None:
    with contextlib.suppress(TransportProblem):
        decode(packed([SCHEMA, kind, 1, 1, content]))


@given(st.sampled_from(ALL), st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_detected_also_with_a_matching_digest(message: Message, where: int, mask: int) -> None:
    data = bytearray(encode(message, 3, 2))
    data[where % len(data)] ^= mask
    with pytest.raises(TransportProblem, match="damaged"):
        decode(bytes(data))
    with contextlib.suppress(TransportProblem):
        decode(seal(bytes(data[8:])))


def test_another_schema_an_unknown_type_and_an_oversize_are_named() -> None:
    with pytest.raises(TransportProblem, match="schema"):
        decode(packed([SCHEMA + 1, "Alive", 0, 0, {}]))
    with pytest.raises(TransportProblem, match="unknown type 'Dance'"):
        decode(packed([SCHEMA, "Dance", 0, 0, {}]))
    with pytest.raises(TransportProblem, match="at most"):
        decode(bytes(LARGEST + 1))
    with pytest.raises(TransportProblem, match="may be sent"):
        encode(PolicyPart(policy_id="a" * 64, part=0, parts=1, data=bytes(LARGEST)))


def test_the_sizes_that_stations_and_orchestrators_agree_on() -> None:
    assert (SCHEMA, PART, LARGEST_PICTURES) == (1, 4 * 2**20, 2 * 2**30)
    assert len(encode(Alive())) == 8 + len(msgpack.packb([1, "Alive", 0, 0, {}]) or b"")
    assert decode(encode(Alive())) == Envelope(message=Alive(), lease=0, number=0)


def test_a_message_may_be_exactly_as_large_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    message = PolicyPart(policy_id="a" * 64, part=0, parts=1, data=bytes(1000))
    data = encode(message)
    monkeypatch.setattr(messages, "LARGEST", len(data))
    assert decode(encode(message)).message == message
    monkeypatch.setattr(messages, "LARGEST", len(data) - 1)
    with pytest.raises(TransportProblem, match="may be sent"):
        encode(message)
    with pytest.raises(TransportProblem, match="are allowed"):
        decode(data)


def test_a_field_without_a_name_is_refused() -> None:
    with pytest.raises(TransportProblem, match="A message is not msgpack"):
        decode(packed([1, "Alive", 0, 0, {1: 2}]))


@pytest.mark.parametrize(
    "content",
    [None, {}, [], [True, "Alive", 0, 0, {}], [1, "Alive", 0, 0], [1, "Alive", 0, 0, {}, 0], [1, 5, 0, 0, {}]],
)
def test_another_outer_form_is_refused(content: object) -> None:
    with pytest.raises(TransportProblem, match="A message"):
        decode(packed(content))


def test_a_value_that_msgpack_cannot_write_is_named() -> None:
    for greeting in (2**70, object()):
        with pytest.raises(TransportProblem, match="A Hello message cannot be written"):
            encode(Hello(station="a", greeting=greeting, lanes=1, running=(), spooled=()))  # type: ignore[arg-type]


def test_only_a_heartbeat_begins_like_one() -> None:
    for message in ALL:
        data = encode(message, lease=5, number=77)
        assert is_heartbeat(data) == is_heartbeat(memoryview(data)) == isinstance(message, Heartbeat)


LIMITS: list[tuple[type, str, list[object], list[object]]] = [
    (Hello, "lanes", [1, MOST_LANES], [0, MOST_LANES + 1]),
    (Hello, "spooled", [["a"] * 100_000], [["a"] * 100_001]),
    (Hello, "running", [["a"] * 100_000], [["a"] * 100_001]),
    (Heartbeat, "seconds", [{"rollout": 0}], [{"rollout": -0.5}]),
    (Heartbeat, "deployed", ["", "x" * 128], ["x" * 129]),
    (Heartbeat, "alarm", ["", "x" * 1000], ["x" * 1001]),
    (Heartbeat, "stop_by", ["", "x" * 200], ["x" * 201]),
    (Heartbeat, "rate_hz", [0.0, 1e6], [-0.1, 1e6 + 0.1]),
    (Heartbeat, "jitter_ms", [0.0, 1e9], [-0.1, 1e9 + 0.1]),
    (Heartbeat, "viability", [0.0, 1.0, None], [-0.1, 1.1]),
    (Heartbeat, "moved_by", ["", "x" * 128], ["x" * 129]),
    (Heartbeat, "motion_problem", ["", "x" * 1000], ["x" * 1001]),
    (Heartbeat, "overdue", [["a"] * 100_000], [["a"] * 100_001]),
    (Heartbeat, "waits_for_person", [["a"] * 100_000], [["a"] * 100_001]),
    (Heartbeat, "person_moves", [["a"] * 100_000], [["a"] * 100_001]),
    (ControlMessage, "stop_ids", [["a"] * 64, [], None], [["a"] * 65]),
    (WantPolicy, "policy_id", ["x" * 128], ["x" * 129]),
    (PolicyMissing, "policy_id", ["x" * 128], ["x" * 129]),
    (PolicyPart, "policy_id", ["x" * 128], ["x" * 129]),
    (PolicyPart, "parts", [1, 4096], [0, 4097]),
    (WantPictures, "size", [1, PART], [0, PART + 1]),
    (Goodbye, "cause", ["", "x" * 1000], ["x" * 1001]),
    (Welcome, "heartbeat_s", [0.001, 3600.0], [0.0009, 3600.1]),
    (Welcome, "silent_s", [0.001, 86400.0], [0.0009, 86400.1]),
    (Welcome, "preview_port", [0, 65535], [-1, 65536]),
]


@pytest.mark.parametrize(("kind", "field", "allowed", "refused"), LIMITS)
def test_values_up_to_the_limit_are_read_and_no_further(
    kind: type, field: str, allowed: list[object], refused: list[object]
) -> None:
    *outer, content = WIRE[kind]
    for value in allowed:
        read = getattr(decode(packed([*outer, {**content, field: value}])).message, field)
        assert read == (tuple(value) if isinstance(value, list) else value)
    for value in refused:
        with pytest.raises(TransportProblem, match="must be"):
            decode(packed([*outer, {**content, field: value}]))


def test_a_heartbeat_names_at_most_two_stops() -> None:
    *outer, content = WIRE[Heartbeat]
    read = decode(packed([*outer, {**content, "stop_ids": ["A", "B", "C"]}])).message
    assert isinstance(read, Heartbeat)
    assert read.stop_ids == ("A", "B")


HELLO = Hello(station="alpha", greeting=1, lanes=1, running=(), spooled=())
LONG: dict[str, Message] = {
    "lanes": dataclasses.replace(HELLO, lanes=1025),
    "spooled": dataclasses.replace(HELLO, spooled=("01A",) * 100_001),
    "facts": dataclasses.replace(HELLO, facts={f"fact {number}": "" for number in range(17)}),
    "fact": dataclasses.replace(HELLO, facts={"fact": "x" * 513}),
    "cause": Goodbye(cause="x" * 1001),
    "orders": Orders(orders=(ORDER,) * 4097),
    "order_ids": Acknowledge(order_ids=("01A",) * 4097),
    "attempts": Parcel(episode=dataclasses.replace(EPISODE, attempts=(1,) * 4097), arrays_file=b""),
}


@pytest.mark.parametrize("field", LONG)
def test_more_lanes_or_orders_than_allowed_are_refused(field: str) -> None:
    with pytest.raises(TransportProblem, match=f"'{field}', must be"):
        decode(encode(LONG[field]))


def test_names_that_could_leave_a_folder_are_refused() -> None:
    for bad in ("../etc", "a/b", ".hidden", "", "a" * 200, "a\0b"):
        with pytest.raises(TransportProblem, match="order_ids"):
            decode(encode(Acknowledge(order_ids=(bad,))))
