"""Questions to language models through the gateway: what is refused, limited, and sent on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from agent_loop.model_gateway.questions import Endpoint, read_question
from enpire.errors import UsageError
from enpire.requests.model_leases import ModelLimits
from tests.agent_loop.model_gateway.bench import COUNT, LEASE, QUESTION, Bench, Line
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
        (
            "/v1/responses", {"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "web_search"}]}]},
            "no tool of type 'web_search'",
        ),
        ("/v1/responses", {"tools": [{"type": "namespace", "tools": "many"}]}, "`tools` must be a list"),
        (
            "/moonshot/v1/chat/completions",
            {"messages": [{"content": [{"type": "video_url", "video_url": {"url": "ms://film"}}]}]},
            "no 'video_url': its size does not say what it costs",
        ),
        ("/v1/chat/completions", {"prediction": {"type": "content", "content": "x"}}, "no `prediction`"),
        ("/v1/chat/completions", {"plugins": [{"id": "web"}]}, "takes no `plugins`"),
        ("/v1/chat/completions", {"n": 10**9}, "`n` must be a whole number from 1 to 128"),
        ("/v1/messages", {"max_tokens": 10**9}, "`max_tokens` must be a whole number from 1 to 10000000"),
        ("/v1/messages", {"thinking": {"budget_tokens": -1}}, "`budget_tokens` must be a whole number from 0"),
        ("/v1/messages", {"thinking": {"budget_tokens": "all"}}, "`budget_tokens` must be a whole number from 0"),
        ("/v1/messages", {"model": "a\udc00"}, "`model` must be a name of 1 to 200 printable characters"),
        ("/v1/messages", {"model": "a" * 201}, "`model` must be a name of 1 to 200 printable characters"),
        ("/v1/messages", {"metadata": [[]] * 600_000}, "values; at most 1000000 are sent on"),
    ],
)  # fmt: skip
def test_what_would_cost_or_reach_more_than_the_request_shows_is_refused(
    path: str, changes: Mapping[str, object], sentence: str
) -> None:
    endpoint = {"messages": "messages", "completions": "chat", "responses": "responses"}[path.rpartition("/")[2]]
    with pytest.raises(UsageError, match=re.escape(sentence)):
        read_question(cast("Endpoint", endpoint), json.dumps({**QUESTION, **changes}).encode())


def test_a_refused_question_is_not_sent(bench: Bench) -> None:
    async def talk(line: Line) -> None:
        refused = await line.ask(speed="fast")
        assert refused.status_code == 400
        assert refused.json()["error"]["message"].startswith("The model gateway takes no `speed` of 'fast'")

    bench.talk(talk)
    assert bench.script.asked == bench.calls == []


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


def test_a_question_nested_too_deeply_is_refused(bench: Bench) -> None:
    async def talk(line: Line) -> None:
        for depth in range(400, 200_000, 9_973):
            body = f'{{"model": "m", "max_tokens": 9, "messages": {"[" * depth}{"]" * depth}}}'
            headers = {"x-api-key": line.token, "content-type": "application/json"}
            refused = await line.client.post("/v1/messages", content=body.encode(), headers=headers)
            assert refused.status_code in (200, 400)

    bench.script.answers = [Answer(messages(COUNT))] * 50
    bench.talk(talk)


def test_half_of_a_character_is_sent_as_it_came(bench: Bench) -> None:
    """A client that cuts text in the middle of a character writes its half as an escape of JSON."""
    bench.script.answers = [Answer(messages(COUNT))]
    cut = [{"role": "user", "content": "cut \ud83d"}]

    async def talk(line: Line) -> None:
        assert (await line.ask(messages=cut)).status_code == 200

    bench.talk(talk)
    assert bench.script.asked[0]["messages"] == cut


def bound(endpoint: Endpoint = "messages", **changes: object) -> int:
    return read_question(endpoint, json.dumps({"model": "m", **changes}).encode()).with_answer_limit(1000).answer_bound


def test_the_bound_of_an_answer_holds_all_that_the_model_may_write() -> None:
    assert bound(max_tokens=100, thinking={"type": "enabled", "budget_tokens": 80}) == 100
    assert bound(max_tokens=100, thinking={"type": "enabled", "budget_tokens": 5000}) == 5100
    assert bound(max_tokens=100, thinking={"type": "adaptive"}) == 100
    assert bound("chat", max_tokens=100, max_completion_tokens=30, n=4) == 400
    assert bound("chat", n=128) == 128 * 7
    assert bound("responses") == 1000


def test_the_bound_of_a_question_holds_what_is_cached_and_is_the_same_for_a_stream() -> None:
    text = {"role": "user", "content": [{"type": "text", "text": "w" * 4000, "cache_control": {"type": "ephemeral"}}]}
    for streamed in (False, True):
        data = json.dumps({"model": "m", "messages": [text], "stream": streamed}).encode()
        assert 6000 < read_question("messages", data).read_bound < 6300


@pytest.mark.parametrize("streamed", [False, True])
def test_a_very_large_question_is_stopped_before_it_is_sent(bench: Bench, streamed: bool) -> None:
    bench.script.answers = [Answer(messages(COUNT))] * 3
    large = [{"role": "user", "content": "w" * 3_000_000}]

    async def talk(line: Line) -> None:
        for _ in range(2):
            refused = await line.ask(messages=large, stream=streamed)
            assert refused.status_code == 402
            assert "it could cost 300" in refused.json()["error"]["message"]
        thinks = await line.ask(stream=streamed, thinking={"type": "enabled", "budget_tokens": 60_000})
        assert thinks.status_code == 402
        assert (await line.ask(key="small")).status_code == 200

    bench.talk(talk, replace(LEASE, own=ModelLimits(tokens=50_000)))
    assert len(bench.script.asked) == 1


def test_a_flood_of_looks_at_what_is_left_ends_at_the_gateway(bench: Bench) -> None:
    async def talk(line: Line) -> None:
        line.gateway.clock = lambda: 0.0
        looks = [await line.client.get("/left", headers={"x-api-key": line.token}) for _ in range(122)]
        assert [look.status_code for look in looks] == [200] * 120 + [429] * 2

    bench.talk(talk)
