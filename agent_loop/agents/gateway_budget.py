"""What the model gateway lets an agent session spend: the only account of its tokens that limits it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from agent_loop.agent_context import AgentContext
from enpire.errors import EnpireError

ANSWER_S = 30.0
"""Seconds for the gateway's answer, which waits for no provider."""


class NoGateway(EnpireError):
    """The model gateway does not say what is left."""


class LeaseRefused(EnpireError):
    """The model gateway does not take the lease of the session; asking again does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBudget:
    """What one session may still spend."""

    tokens: int | None
    """Tokens that its next call may cost; None without a limit."""
    refused: str
    """Why a limit refused its last call; empty if none did."""


def gateway_budget(context: AgentContext) -> GatewayBudget:
    """What the session may still spend, with its calls up to now.

    Raises:
        NoGateway: the gateway cannot be reached, or gives no answer that says it.
        LeaseRefused: the lease is wrong or over.
    """
    address = urlsplit(context.models)
    connection = http.client.HTTPConnection(str(address.hostname), address.port or 80, timeout=ANSWER_S)
    try:
        connection.request("GET", "/left", headers={"x-api-key": context.lease})
        answer = connection.getresponse()
        left = cast("Mapping[str, object]", json.loads(answer.read()))
        if answer.status == http.client.UNAUTHORIZED:
            raise LeaseRefused(refusal_of(left)[1] or "The model gateway refuses the lease of this session.")
        tokens = left["tokens"]
        return GatewayBudget(tokens=None if tokens is None else int(str(tokens)), refused=str(left["refused"]))
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as problem:
        raise NoGateway(
            f"The model gateway does not say which tokens are left ({problem!r}). It may be starting again: the next "
            "turn asks once more."
        ) from problem
    finally:
        connection.close()


def refusal_of(body: object) -> tuple[str, str]:
    """(type, sentence) of an error in the body of an answer; empty where it has none."""
    error: object = cast("Mapping[str, object]", body).get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "", ""
    fields = cast("Mapping[str, object]", error)
    return str(fields.get("type") or ""), str(fields.get("message") or "")
