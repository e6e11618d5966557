"""A question to a language model: what it may contain, and the most tokens that it can cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from enpire.errors import UsageError

Endpoint = Literal["messages", "chat", "responses"]
ANSWER_TOKENS = 32_000
"""Most tokens of an answer to a question that names no limit itself."""
MOST_ANSWER_TOKENS, MOST_ANSWERS = 10_000_000, 128
"""The largest limit of an answer that a question may name, and the most answers that it may ask for."""
MOST_VALUES = 1_000_000
"""Values of a question, counted by the commas and brackets in it; more would need too much memory here."""
LONGEST_MODEL = 200
"""Characters of the name of a model."""
OVERHEAD_TOKENS = 2_000
"""What a provider may add to a question with tools."""
IMAGE_TOKENS: Mapping[Endpoint, int] = {"messages": 5_000, "chat": 50_000, "responses": 50_000}
"""Most tokens of one image, by its size in pixels, which its size in bytes does not show."""
LIMIT_KEYS: Mapping[Endpoint, tuple[str, ...]] = {
    "messages": ("max_tokens",), "chat": ("max_completion_tokens", "max_tokens"), "responses": ("max_output_tokens",),
}  # fmt: skip
"""Keys that limit the answer; the first one is set where a question has none."""
ELSEWHERE: Mapping[Endpoint, tuple[str, ...]] = {
    "messages": ("mcp_servers", "container"),
    "chat": ("web_search_options", "plugins"),
    "responses": ("previous_response_id", "conversation", "prompt", "background", "plugins"),
}
"""Keys of questions that a provider completes or works on by itself, so that neither cost nor effect is known here."""
ORDINARY: Mapping[str, tuple[object, ...]] = {
    "speed": ("standard",), "service_tier": ("auto", "default", "standard_only", "flex"), "inference_geo": (),
    "audio": (), "modalities": (["text"],), "prediction": (),
}  # fmt: skip
"""Key -> the values that cost what the price file says; others are refused."""
OWN_TOOLS: Mapping[Endpoint, tuple[str, ...]] = {
    "messages": ("", "custom", "bash_", "text_editor_", "memory_"),
    "chat": ("function", "custom"),
    "responses": ("function", "custom", "local_shell", "shell", "apply_patch", "namespace"),
}
"""Beginnings of the types of tools that run in the room. A provider runs the others, some with a network."""
DEEPEST_TOOLS = 3
"""Levels of groups of tools."""
REMOTE_SOURCES = ("file_id", "image_url", "file_url", "url")
"""Keys of content that the provider fetches."""
CONTENT = ("image", "document", "image_url", "input_image", "input_file", "file", "url", "container_upload")
"""Types of content that may have such a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One checked question."""

    endpoint: Endpoint
    body: dict[str, Any]
    """As it is sent."""
    model: str
    read_bound: int
    """Most input tokens: a token has at least one byte."""
    streamed: bool
    hides_count: bool = False
    """Whether the agent did not ask for the count at the end of the stream, which the gateway needs."""

    @property
    def answer_bound(self) -> int:
        """Most output tokens over all answers, with the reasoning; 0 if the question names no limit."""
        limits = [self.body[key] for key in LIMIT_KEYS[self.endpoint] if self.body.get(key) is not None]
        most = max(limits, default=0)
        reasoning = _reasoning(self.body)
        return (most + (reasoning if most and reasoning >= most else 0)) * _answers(self.body)

    def with_answer_limit(self, most: int) -> Question:
        """The question with a limit of its answer, where it has none."""
        if self.answer_bound:
            return self
        body = {**self.body, LIMIT_KEYS[self.endpoint][0]: max(1, most // _answers(self.body))}
        return Question(
            endpoint=self.endpoint, body=body, model=self.model, read_bound=self.read_bound, streamed=self.streamed,
            hides_count=self.hides_count,
        )  # fmt: skip

    def data(self) -> bytes:
        """The bytes that are sent."""
        return as_bytes(self.body)


def as_bytes(body: Mapping[str, object]) -> bytes:
    """A question as it is sent. Half of a character is written as JSON's escape of it, which providers take."""
    return json.dumps(body, ensure_ascii=False).encode(errors="backslashreplace")


def read_question(endpoint: Endpoint, data: bytes) -> Question:
    """Check a question.

    Raises:
        UsageError: it is no question, or its cost or effect would not be known; one sentence.
    """
    body = _read_body(data)
    _require_known(endpoint, body)
    _require_limits(endpoint, body)
    streamed, hides = bool(body.get("stream")), False
    if endpoint == "chat" and streamed:
        options = body.get("stream_options")
        options = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
        hides = not options.get("include_usage")
        body["stream_options"] = {**options, "include_usage": True}
    if endpoint == "responses":
        body["store"] = False
    images = list(_images(body))
    pictures = sum(map(len, images))
    try:
        size = len(as_bytes(body)) - pictures
    except RecursionError as problem:
        raise UsageError("The request has values nested too deeply to be sent on; nest them less.") from problem
    bound = size + OVERHEAD_TOKENS + sum(max(len(image), IMAGE_TOKENS[endpoint]) for image in images)
    return Question(
        endpoint=endpoint, body=body, model=body["model"], read_bound=bound, streamed=streamed, hides_count=hides
    )  # fmt: skip


def _read_body(data: bytes) -> dict[str, Any]:
    if (values := sum(map(data.count, (b",", b"[", b"{")))) > MOST_VALUES:
        raise UsageError(f"The request has about {values} values; at most {MOST_VALUES} are sent on: send less.")
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"The request is not JSON: {problem}. Send an object.") from problem
    if not isinstance(body, dict) or not isinstance(model := body.get("model"), str):
        raise UsageError("The request must be an object with a `model`.")
    if not model.isprintable() or not 1 <= len(model) <= LONGEST_MODEL:
        raise UsageError(f"`model` must be a name of 1 to {LONGEST_MODEL} printable characters.")
    return cast("dict[str, Any]", body)


def _require_known(endpoint: Endpoint, body: Mapping[str, Any]) -> None:
    for key in ELSEWHERE[endpoint]:
        if body.get(key):
            raise UsageError(f"The model gateway takes no `{key}`: send the whole conversation with each request.")
    for key, values in ORDINARY.items():
        if body.get(key) and body[key] not in values:
            raise UsageError(
                f"The model gateway takes no `{key}` of {str(body[key])[:40]!r}: it has another price. Leave it out."
            )
    _require_own_tools(endpoint, body.get("tools"))
    for node in _nodes(body):
        _require_counted(node)
        nested = node.get("file")
        for key in REMOTE_SOURCES:
            source = _source(nested if node.get("type") == "file" and isinstance(nested, dict) else node, key)
            if source and node.get("type") in CONTENT and not source.startswith("data:"):
                raise UsageError(f"The model gateway takes no content by `{key}`: put the content into the request.")


def _require_own_tools(endpoint: Endpoint, tools: object, depth: int = 0) -> None:
    if not isinstance(tools, list | None) or depth > DEEPEST_TOOLS:
        raise UsageError(f"`tools` must be a list, with lists of tools at most {DEEPEST_TOOLS} deep in it.")
    for tool in cast("list[object]", tools or []):
        fields = cast("Mapping[str, object]", tool) if isinstance(tool, dict) else {"type": "?"}
        kind = str(fields.get("type") or "")
        _require_own_tools(endpoint, fields.get("tools"), depth + 1)
        if not _is_own(kind, OWN_TOOLS[endpoint]):
            raise UsageError(
                f"The model gateway takes no tool of type {kind[:40]!r}, which the provider would run: use the tools "
                "of the room."
            )


def _require_counted(node: Mapping[str, Any]) -> None:
    """Refuse content whose tokens its size does not bound: packed files, video, stored items, and compaction."""
    kind = str(node.get("type") or "")
    if kind == "item_reference" or kind.startswith("compact"):
        raise UsageError(
            f"The model gateway takes no {kind[:40]!r}: what it costs is not known before the call. Send its content."
        )
    if "video" in kind or "audio" in kind:
        raise UsageError(f"The model gateway takes no {kind[:40]!r}: its size does not say what it costs. Send images.")
    if kind in ("document", "input_file", "file"):
        places = [node, node.get("file"), node.get("source")]
        held = [cast("Mapping[str, object]", one) for one in places if isinstance(one, dict)]
        if any(one.get("file_data") or one.get("type") == "base64" for one in held):
            raise UsageError("The model gateway takes no packed file: put its text into the request.")


def _source(node: Mapping[str, Any], key: str) -> str:
    """The address of a piece of content; empty if it has none under this key."""
    source = node.get(key)
    source = cast("Mapping[str, object]", source).get("url") if isinstance(source, dict) else source
    return source if isinstance(source, str) else ""


def _is_own(kind: str, beginnings: tuple[str, ...]) -> bool:
    return any(kind == one or (one.endswith("_") and kind.startswith(one)) for one in beginnings)


def _require_limits(endpoint: Endpoint, body: Mapping[str, Any]) -> None:
    for key, most in (*((key, MOST_ANSWER_TOKENS) for key in LIMIT_KEYS[endpoint]), ("n", MOST_ANSWERS)):
        value = body.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most):
            raise UsageError(f"`{key}` must be a whole number from 1 to {most}.")
    if not 0 <= _reasoning(body) <= MOST_ANSWER_TOKENS:
        raise UsageError(f"`budget_tokens` must be a whole number from 0 to {MOST_ANSWER_TOKENS}.")


def _reasoning(body: Mapping[str, Any]) -> int:
    """Tokens that the model may use for its reasoning; -1 if that is no whole number.

    Below the limit of the answer they are part of it. A larger number spans several answers, so it counts beside.
    """
    section = body.get("thinking")
    value: object = cast("Mapping[str, object]", section).get("budget_tokens") if isinstance(section, dict) else 0
    if value is None:
        return 0
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _answers(body: Mapping[str, Any]) -> int:
    return int(body.get("n") or 1)


def _nodes(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All objects in the content of a question, at any depth, without the tools and what was said to them."""
    waiting: list[object] = [value for key, value in body.items() if key != "tools"]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            node = cast("dict[str, Any]", one)
            yield node
            waiting += [item for key, item in node.items() if key != "input" or node.get("type") != "tool_use"]
        elif isinstance(one, list):
            waiting += cast("list[object]", one)


def _images(body: Mapping[str, Any]) -> Iterator[str]:
    """The data of the images and files in a question."""
    for node in _nodes(body):
        if node.get("type") == "base64" and isinstance(node.get("data"), str):
            yield node["data"]
        yield from (source for key in ("image_url", "file_data") if (source := _source(node, key)).startswith("data:"))
