"""Questions to language models through the gateway: what is refused, limited, and sent on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from enpire.requests.model_leases import ModelLimits
from tests.agent_loop.model_gateway.bench import COUNT, LEASE, Bench, Line
from tests.agent_loop.model_gateway.scripted_provider import Answer, messages

RESPONSE = {"input_tokens": 120, "output_tokens": 30, "input_tokens_details": {"cached_tokens": 90}}


@pytest.mark.parametrize(
    ("path", "changes", "sentence"),
    [
        ("/v1/messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "no tool of type"),
        ("/v1/messages", {"tools": [{"type": "code_execution_20250825"}]}, "no tool of type"),
        ("/v1/messages", {"mcp_servers": [{"url": "http://else"}]}, "takes no `mcp_servers`"),
        (
            "/v1/messages",
            {"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": "http://else/i.png"}}]}]},
            "no content by `url`",
        ),
        ("/v1/messages", {"context_management": {"edits": [{"type": "compact_20260112"}]}}, "no 'compact_20260112'"),
        ("/v1/messages", {"speed": "fast"}, "no `speed` of 'fast'"),
        (
            "/v1/messages", {"messages": [{"content": [{"type": "document", "source": {"type": "base64"}}]}]},
            "takes no packed file",
        ),
        ("/v1/responses", {"service_tier": "priority"}, "no `service_tier` of 'priority'"),
        ("/v1/responses", {"input": [{"type": "item_reference", "id": "x"}]}, "no 'item_reference'"),
        ("/v1/messages", {"max_tokens": "many"}, "must be a whole number"),
        ("/v1/messages", {"model": 7}, "an object with a `model`"),
        ("/v1/chat/completions", {"web_search_options": {"a": 1}}, "takes no `web_search_options`"),
        (
            "/v1/chat/completions",
            {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://else"}}]}]},
            "no content by `image_url`",
        ),
        (
            "/v1/chat/completions", {"messages": [{"content": [{"type": "file", "file": {"file_id": "f"}}]}]},
            "no content by `file_id`",
        ),
        ("/v1/responses", {"previous_response_id": "r"}, "takes no `previous_response_id`"),
        ("/v1/responses", {"background": True}, "takes no `background`"),
        ("/v1/responses", {"tools": [{"type": "mcp", "server_url": "http://else"}]}, "no tool of type"),
    ],
)  # fmt: skip
def test_what_would_cost_or_reach_more_than_the_request_shows_is_refused(
    bench: Bench, path: str, changes: Mapping[str, object], sentence: str
) -> None:
    async def talk(line: Line) -> None:
        refused = await line.ask(path, **changes)
        assert refused.status_code == 400
        assert sentence in refused.json()["error"]["message"]

    bench.talk(talk)
    assert bench.script.asked == []


def test_an_agents_own_words_are_not_mistaken_for_content_elsewhere(bench: Bench) -> None:
    bench.script.answers = [Answer(messages(COUNT))]
    used = {"type": "tool_use", "id": "t", "name": "x", "input": {"type": "image", "url": "http://else"}}
    tool = {"name": "x", "input_schema": {"properties": {"url": {"type": "image", "url": "http://else"}}}}

    async def talk(line: Line) -> None:
        assert (await line.ask(messages=[{"role": "assistant", "content": [used]}], tools=[tool])).status_code == 200

    bench.talk(talk)


def test_an_answer_without_a_limit_gets_one(bench: Bench) -> None:
    answer = Answer({"object": "response", "usage": RESPONSE})
    bench.script.answers = [answer, answer]

    async def talk(line: Line) -> None:
        assert (await line.ask("/v1/responses")).status_code == 200

    async def tight(line: Line) -> None:
        assert (await line.ask("/v1/responses", key="another call")).status_code == 200

    bench.talk(talk)
    bench.talk(tight, replace(LEASE, own=ModelLimits(tokens=6000)))
    wide, narrow = (question["max_output_tokens"] for question in bench.script.asked)
    assert wide == 32_000
    assert 256 < narrow < 4000


def test_a_flood_of_requests_ends_at_the_gateway(bench: Bench) -> None:
    bench.script.answers = [Answer(messages(COUNT))] * 200

    async def talk(line: Line) -> None:
        now = [0.0]
        line.gateway.clock = lambda: now[0]
        statuses = [(await line.ask()).status_code for _ in range(125)]
        assert statuses == [200] * 120 + [429] * 5
        now[0] = 1.0
        assert [(await line.ask()).status_code for _ in range(3)] == [200, 200, 429]

    bench.talk(talk)
    assert len(bench.script.asked) == 122
