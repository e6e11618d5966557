"""The tokens of one call as the provider counts them, from a whole answer or from the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from enpire.files import LARGEST_WHOLE

Document = Mapping[str, Any]
"""One JSON object: a whole answer, or the data of one event of a stream."""
LARGEST_EVENT = 32 * 2**20
"""Most bytes of one event of a stream."""
ORDINARY_TIERS = ("", "standard", "default", "auto")
"""Service tiers that a price file's prices hold for."""


@dataclass(slots=True)
class Usage:
    """What one call cost so far, by the provider's count."""

    model: str = ""
    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    """With the part that stays for an hour."""
    cache_write_1h: int = 0
    output: int = 0
    complete: bool = False
    """Whether the provider's final count has arrived."""
    ordinary: bool = True
    """Whether nothing in the count has a price of its own: a service tier, a search on the provider's side."""

    @property
    def input(self) -> int:
        """All input tokens."""
        return self.fresh + self.cache_read + self.cache_write


def read_messages(document: Document, usage: Usage) -> None:
    """Take what an answer or an event of the Messages API says. Counts of later events are totals, not increments."""
    kind = document.get("type")
    if kind == "message_start":
        document = _object(document.get("message"))
    elif kind not in ("message", "message_delta"):
        return
    usage.model = str(document.get("model") or usage.model)
    counts = _object(document.get("usage"))
    if not counts:
        return
    usage.fresh = _count(counts, "input_tokens", usage.fresh)
    usage.cache_read = _count(counts, "cache_read_input_tokens", usage.cache_read)
    usage.cache_write = _count(counts, "cache_creation_input_tokens", usage.cache_write)
    usage.output = _count(counts, "output_tokens", usage.output)
    usage.cache_write_1h = _count(
        _object(counts.get("cache_creation")), "ephemeral_1h_input_tokens", usage.cache_write_1h
    )
    served = _object(counts.get("server_tool_use"))
    usage.ordinary &= not any(served.values()) and _is_ordinary(counts)
    usage.complete = kind == "message" or (kind == "message_delta" and "output_tokens" in counts)


def read_chat(document: Document, usage: Usage) -> None:
    """Take what an answer or an event of the Chat Completions API says."""
    usage.model = str(document.get("model") or usage.model)
    usage.ordinary &= _is_ordinary(document)
    _read_openai(_object(document.get("usage")), usage, ("prompt", "completion"))


def read_responses(document: Document, usage: Usage) -> None:
    """Take what an answer or an event of the Responses API says."""
    answer = document if document.get("object") == "response" else _object(document.get("response"))
    usage.model = str(answer.get("model") or usage.model)
    if answer.get("usage"):
        usage.ordinary &= _is_ordinary(answer)
        _read_openai(_object(answer.get("usage")), usage, ("input", "output"))


READERS: Mapping[str, Callable[[Document, Usage], None]] = {
    "messages": read_messages, "chat": read_chat, "responses": read_responses,
}  # fmt: skip
"""endpoint -> reader of its documents."""


@dataclass(slots=True)
class EventStream:
    """Splits a stream of server-sent events."""

    _rest: bytes = field(default=b"")

    def feed(self, data: bytes) -> Iterator[tuple[bytes, Document | None]]:
        """(one whole event as it came, its data; None where that is not a JSON object).

        Raises:
            ValueError: an event is larger than LARGEST_EVENT.
        """
        *whole, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._rest) > LARGEST_EVENT:
            raise ValueError(f"an event has more than {LARGEST_EVENT >> 20} MiB")
        for block in whole:
            lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
            yield block + b"\n\n", read_object(b"\n".join(lines))

    def end(self) -> bytes:
        """What came after the last whole event."""
        rest, self._rest = self._rest, b""
        return rest


def read_object(data: bytes) -> Document | None:
    """A JSON object; None if the bytes are none."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("Document", value) if isinstance(value, dict) else None


def _read_openai(counts: Document, usage: Usage, names: tuple[str, str]) -> None:
    """Their input count includes the part from the cache."""
    if not counts:
        return
    before, after = names
    whole = _count(counts, f"{before}_tokens", 0)
    details = _object(counts.get(f"{before}_tokens_details"))
    # Moonshot gives the cached part beside the others.
    cached = _count(details, "cached_tokens", _count(counts, "cached_tokens", 0))
    usage.cache_read = min(whole, cached)
    usage.fresh = whole - usage.cache_read
    usage.output = _count(counts, f"{after}_tokens", 0)
    spoken = _object(counts.get(f"{after}_tokens_details"))
    usage.ordinary &= not (details.get("audio_tokens") or spoken.get("audio_tokens"))
    usage.complete = f"{before}_tokens" in counts and f"{after}_tokens" in counts


def _is_ordinary(document: Document) -> bool:
    return str(document.get("service_tier") or "") in ORDINARY_TIERS


def _object(value: object) -> Document:
    return cast("Document", value) if isinstance(value, dict) else {}


def _count(counts: Document, name: str, before: int) -> int:
    value: object = counts.get(name)
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_WHOLE
    return cast("int", value) if usable else before
