"""The connection of the model gateway to a provider: it puts the provider's key in the place of the lease."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping

import httpx

from agent_loop.model_gateway.questions import as_bytes
from enpire.service.processes import Provider

PASSED_ON = ("anthropic-version", "anthropic-beta", "openai-beta", "user-agent")
"""Headers of a question that reach the provider. Its key, cookies and organisation are the harness's own."""
PASSED_BACK = ("content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry")
"""Headers of an answer that reach the agent, with those that begin with anthropic-ratelimit and x-ratelimit."""
CONNECT_S, SILENCE_S = 30.0, 600.0
"""Seconds to connect, and without a byte, after which a call counts as lost."""
PATHS = {"messages": "/v1/messages", "chat": "/chat/completions", "responses": "/responses"}
"""endpoint -> its path below the provider's address."""
COUNT_PATH = "/v1/messages/count_tokens"
COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking")
"""Keys of a question that the count takes."""
FREE = ("max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier")
"""Keys that the model does not read. Of all others, each byte counts as a token."""
COUNT_MARGIN = 1.05
"""The provider's count of a question is an estimate; the real count may be slightly higher."""


def open_client() -> httpx.AsyncClient:
    """A client for all providers. It follows no redirect, which could lead the key elsewhere."""
    timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
    return httpx.AsyncClient(timeout=timeout, follow_redirects=False)


def request_headers(provider: Provider, given: Mapping[str, str]) -> dict[str, str]:
    """The headers of a question to a provider."""
    headers = {name: given[name] for name in PASSED_ON if name in given and given[name].isascii()}
    headers |= {"content-type": "application/json", "accept-encoding": "identity"}
    key = os.environ.get(provider.key_variable, "")
    bearer = os.environ.get(provider.bearer_variable, "") if provider.bearer_variable else ""
    if provider.style == "anthropic" and key:
        return {**headers, "x-api-key": key}
    token = key or bearer
    return {**headers, "authorization": f"Bearer {token}"} if token else headers


def answer_headers(given: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer to an agent."""
    limits = ("anthropic-ratelimit", "x-ratelimit")
    return {name: value for name, value in given.items() if name in PASSED_BACK or name.startswith(limits)}


async def count_question(
    client: httpx.AsyncClient, provider: Provider, body: Mapping[str, object], given: Mapping[str, str]
) -> int:
    """Input tokens of a question by the count of an Anthropic-style provider, which is free; 0 if it gives none."""
    counted_keys = {key: body[key] for key in COUNTED if key in body}
    others = {key: value for key, value in body.items() if key not in (*COUNTED, *FREE)}
    try:
        answer = await client.post(
            provider.address + COUNT_PATH, content=as_bytes(counted_keys), headers=request_headers(provider, given)
        )
        counted: object = answer.json()["input_tokens"] if answer.status_code == httpx.codes.OK else 0
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return 0
    more = len(json.dumps(others)) if others else 0
    return math.ceil(COUNT_MARGIN * counted) + more if isinstance(counted, int) and counted > 0 else 0
