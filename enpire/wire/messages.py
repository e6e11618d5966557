"""Messages between stations and the orchestrator: msgpack, a schema number, one frozen dataclass per message.

`decode` trusts no input: it checks a digest before it parses, and for any bytes returns a message or raises
TransportProblem. An envelope carries the sender's lease (the fence token from the orchestrator's welcome) and a
sequence number, from which a station detects lost, repeated and reordered messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]

from enpire.codec import episode_fields, order_fields, read_episode, read_order
from enpire.errors import TransportProblem
from enpire.field_reader import Fields
from enpire.types import MOTIONS, PHASES, Episode, Order, Phase
from enpire.wire.arrivals import MOST_LANES, Heartbeat
from enpire.wire.socket_limits import LARGEST

SCHEMA = 1
LARGEST_PICTURES = 2 * 2**30
"""Largest file of camera images of one episode in bytes; it is sent in parts."""
_HELD = 100_000
"""Most orders that a station may list as running, or as spooled."""
_STOPS = 64
"""Most stops that one message may name."""
_DIGEST = 8
PART = 4 * 2**20
"""Bytes of one part of a policy's files, and largest part of an episode's images."""
_HEARTBEAT_NAME = "Beat"
_KEYS: Mapping[str, str] = {"control": "verb"}
"""Fields whose key in a message is not the name of the field."""
_HEARTBEAT = b"\x95" + b"".join(cast(bytes, msgpack.packb(item)) for item in (SCHEMA, _HEARTBEAT_NAME))  # pyright: ignore[reportUnknownMemberType]
"""First bytes of a packed heartbeat: a list of five, the schema, the name."""
Control = Literal["pause", "resume", "stop", "deploy", "leave", "reset", "home"]
CONTROLS: tuple[Control, ...] = ("pause", "resume", "stop", "deploy", "leave", *MOTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Station: I am connected, and I still hold these orders."""

    station: str
    greeting: int
    """Number of this hello. The welcome repeats it, so that the station ignores a welcome to an older hello."""
    lanes: int
    running: tuple[str, ...]
    spooled: tuple[str, ...]
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Station: an episode that is durable in my spool. Spools on disk hold messages of this type."""

    episode: Episode
    arrays_file: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WantPolicy:
    """Station: send me one part of the files of a policy version."""

    policy_id: str
    part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturesPart:
    """Station: some bytes of the image file of an episode in my spool."""

    order_id: str
    offset: int
    total: int
    """Bytes of the whole file."""
    data: bytes
    """Empty only at the end of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodbye:
    """Station: I am leaving."""

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Orchestrator: the answer to a hello; the lease is in the envelope."""

    greeting: int
    heartbeat_s: float
    silent_s: float
    preview_port: int
    """Port for live images; 0 if the orchestrator takes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Orchestrator: execute these orders."""

    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Orchestrator: these episodes are durable here."""

    order_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Orchestrator: these episodes belong to no campaign of mine. Keep them."""

    order_ids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WantPictures:
    """Orchestrator: send me a range of bytes of the image file of an episode that you announced."""

    order_id: str
    offset: int
    size: int
    """Most bytes to send, in one part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Orchestrator: release these orders if they have not begun."""

    order_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMessage:
    """Orchestrator: do this now."""

    control: Control
    argument: str = ""
    stop_ids: tuple[str, ...] | None = None
    """Of a `stop`, `reset` or `home`: its id. Of a `resume`: the stops that it ends; the station stays stopped by any
    other. None from earlier versions, whose `resume` ends every stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPart:
    """Orchestrator: one part of the packed files of a policy version."""

    policy_id: str
    part: int
    parts: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyMissing:
    """Orchestrator: I cannot send that policy."""

    policy_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """Orchestrator: I received your heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoin:
    """Orchestrator: I do not know your lease; say hello."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Orchestrator: another process has taken your name; stop."""


Message = (
    Hello | Heartbeat | Parcel | PicturesPart | WantPolicy | Goodbye
    | Welcome | Orders | Acknowledge | Refuse | WantPictures | Release | ControlMessage | PolicyPart | PolicyMissing
    | Alive | Rejoin | Fenced
)  # fmt: skip


_NAMES: Mapping[type, str] = {Heartbeat: _HEARTBEAT_NAME, ControlMessage: "Command"}
"""Types whose name on the wire differs from the name of the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message with the sender's lease and its number in the sender's sequence."""

    message: Message
    lease: int
    number: int


def encode(message: Message, lease: int = 0, number: int = 0) -> bytes:
    """The bytes of a message.

    Raises:
        TransportProblem: it is larger than `LARGEST`, or holds a value that msgpack cannot write.
    """
    kind = _wire_name(type(message))
    try:
        content = {_KEYS.get(item.name, item.name): _plain(getattr(message, item.name)) for item in fields(message)}
        whole = [SCHEMA, kind, lease, number, content]
        packed = cast(bytes, msgpack.packb(whole))  # pyright: ignore[reportUnknownMemberType]
    except (OverflowError, TypeError, ValueError) as problem:
        raise TransportProblem(f"A {kind} message cannot be written: {problem}.") from problem
    if len(packed) > LARGEST - _DIGEST:
        raise TransportProblem(f"A {kind} message has {len(packed)} bytes; at most {LARGEST - _DIGEST} may be sent.")
    return seal(packed)


def _wire_name(message_type: type) -> str:
    return _NAMES.get(message_type, message_type.__name__)


def seal(content: bytes) -> bytes:
    """Put a digest before a message, so that damage is found before parsing. It does not authenticate the sender."""
    return _digest(content) + content


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def decode(data: bytes | memoryview) -> Envelope:
    """The envelope in these bytes.

    Raises:
        TransportProblem: the bytes are not a message of this schema. No other error is raised, whatever the bytes are.
    """
    if len(data) > LARGEST:
        raise TransportProblem(f"A message of {len(data)} bytes is refused; at most {LARGEST} are allowed.")
    packed = memoryview(data)[_DIGEST:]  # no copy: image parts are large
    if _digest(packed) != data[:_DIGEST]:
        raise TransportProblem(f"A message of {len(data)} bytes is damaged, or is no message of this system.")
    try:
        content = cast(object, msgpack.unpackb(packed, raw=False, strict_map_key=True))  # pyright: ignore[reportUnknownMemberType]
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as problem:
        raise TransportProblem(f"A message is not msgpack: {type(problem).__name__}.") from problem
    if not isinstance(content, list):
        raise TransportProblem("A message must be a list of schema, type, lease, number and fields.")
    items = cast("list[object]", content)
    if not items or items[0] != SCHEMA or isinstance(items[0], bool):
        raise TransportProblem(
            f"A message has schema {str(items[:1])[:20]}; this side uses {SCHEMA}. "
            "Run the same version of ENPIRE on both sides."
        )
    if len(items) != 5:
        raise TransportProblem(f"A message has {len(items)} items; it must have 5.")
    outer = Fields({"type": items[1], "lease": items[2], "number": items[3]}, "A message")
    kind = outer.text("type", 40)
    reader = _READERS.get(kind)
    if reader is None:
        raise TransportProblem(f"A message has the unknown type {kind!r}; known are: {', '.join(_READERS)}.")
    message = reader(Fields(items[4], f"A {kind} message"))
    return Envelope(message=message, lease=outer.whole("lease"), number=outer.whole("number"))


def is_heartbeat(data: bytes | memoryview) -> bool:
    """Whether these bytes begin like a heartbeat. Only the last of several heartbeats matters; this parses none."""
    return data[_DIGEST : _DIGEST + len(_HEARTBEAT)] == _HEARTBEAT


def _plain(value: object) -> object:
    match value:
        case Order():
            return order_fields(value)
        case Episode():
            return episode_fields(value)
        case tuple():
            return [_plain(item) for item in cast("tuple[object, ...]", value)]
        case Mapping():
            return dict(cast("Mapping[object, object]", value))
        case _:
            return value


def _hello(found: Fields) -> Hello:
    return Hello(
        station=found.identifier("station"),
        greeting=found.whole("greeting"),
        lanes=found.whole("lanes", 1, MOST_LANES),
        running=found.identifiers("running", _HELD),
        spooled=found.identifiers("spooled", _HELD),
        facts=found.texts_by_name("facts"),
    )


def _heartbeat(found: Fields) -> Heartbeat:
    given = found.mapping("seconds")
    seconds = Fields(given, "The seconds of a heartbeat")
    spent: dict[Phase, float] = {phase: seconds.number(phase, 0.0) for phase in PHASES if phase in given}
    return Heartbeat(
        station=found.identifier("station"),
        lease=0,
        phase=found.choice("phase", PHASES),
        seconds=spent,
        queued=found.whole("queued"),
        running=found.whole("running"),
        deployed=found.text("deployed", 128),
        stopped=found.flag("stopped"),
        paused=found.flag("paused"),
        alarm=found.text("alarm", 1000),
        stop_id=found.letters("stop_id"),
        stop_by=found.text("stop_by", 200),
        stop_ids=(_stop_ids(found) or ())[:2],  # a station holds at most one from each source
        own_stop_id=found.letters("own_stop_id") if "own_stop_id" in found else "",
        overdue=found.identifiers("overdue", _HELD),
        rate_hz=found.number("rate_hz", 0.0, 1e6) if "rate_hz" in found else 0.0,
        jitter_ms=found.number("jitter_ms", 0.0, 1e9) if "jitter_ms" in found else 0.0,
        reading=found.numbers("reading") if "reading" in found else (),
        moved_by=found.text("moved_by", 128) if "moved_by" in found else "",
        viability=_share(found, "viability"),
        motion_id=found.letters("motion_id") if "motion_id" in found else "",
        motion_problem=found.text("motion_problem", 1000) if "motion_problem" in found else "",
        waits_for_person=found.identifiers("waits_for_person", _HELD) if "waits_for_person" in found else (),
        person_moves=found.identifiers("person_moves", _HELD) if "person_moves" in found else (),
    )


def _share(found: Fields, name: str) -> float | None:
    """A number in [0, 1]; None where it is null or missing."""
    return found.number(name, 0.0, 1.0) if name in found and found.get(name) is not None else None


def _policy_part(found: Fields) -> PolicyPart:
    return PolicyPart(
        policy_id=found.text("policy_id", 128),
        part=found.whole("part"),
        parts=found.whole("parts", 1, 4096),
        data=found.data("data"),
    )


def _pictures_part(found: Fields) -> PicturesPart:
    return PicturesPart(
        order_id=found.identifier("order_id"),
        offset=found.whole("offset"),
        total=found.whole("total"),
        data=found.data("data"),
    )


def _welcome(found: Fields) -> Welcome:
    return Welcome(
        greeting=found.whole("greeting"),
        heartbeat_s=found.number("heartbeat_s", 0.001, 3600.0),
        silent_s=found.number("silent_s", 0.001, 86400.0),
        preview_port=found.whole("preview_port", 0, 65535),
    )


def _control(found: Fields) -> ControlMessage:
    return ControlMessage(
        control=found.choice("verb", CONTROLS), argument=found.text("argument"), stop_ids=_stop_ids(found)
    )


def _stop_ids(found: Fields) -> tuple[str, ...] | None:
    """Ids of stops, letters and digits; None where an earlier version sent none."""
    if "stop_ids" not in found or found.get("stop_ids") is None:
        return None
    items = found.items("stop_ids", _STOPS)
    return tuple(Fields({"stop_ids": item}, "A list of stops").letters("stop_ids") for item in items)


_READERS: Mapping[str, Callable[[Fields], Message]] = {
    "Hello": _hello,
    "Beat": _heartbeat,
    "Parcel": lambda found: Parcel(episode=read_episode(found.get("episode")), arrays_file=found.data("arrays_file")),
    "PicturesPart": _pictures_part,
    "WantPolicy": lambda found: WantPolicy(policy_id=found.text("policy_id", 128), part=found.whole("part")),
    "Goodbye": lambda found: Goodbye(cause=found.text("cause", 1000)),
    "Welcome": _welcome,
    "Orders": lambda found: Orders(orders=tuple(read_order(item) for item in found.items("orders"))),
    "Acknowledge": lambda found: Acknowledge(order_ids=found.identifiers("order_ids")),
    "Refuse": lambda found: Refuse(order_ids=found.identifiers("order_ids"), why=found.text("why")),
    "WantPictures": lambda found: WantPictures(
        order_id=found.identifier("order_id"), offset=found.whole("offset"), size=found.whole("size", 1, PART)
    ),
    "Release": lambda found: Release(order_ids=found.identifiers("order_ids")),
    "Command": _control,
    "PolicyPart": _policy_part,
    "PolicyMissing": lambda found: PolicyMissing(policy_id=found.text("policy_id", 128), why=found.text("why")),
    "Alive": lambda _: Alive(),
    "Rejoin": lambda _: Rejoin(),
    "Fenced": lambda _: Fenced(),
}
