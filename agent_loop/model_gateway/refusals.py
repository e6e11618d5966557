"""What the model gateway answers by itself, in a form that clients of both styles read."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from agent_loop.model_gateway.statuses import AGAIN, BAD_REQUEST, PAYMENT, TOO_MANY, UNAUTHORIZED

KINDS: Mapping[int, str] = {
    UNAUTHORIZED: "authentication_error", PAYMENT: "billing_error", TOO_MANY: "rate_limit_error",
    BAD_REQUEST: "invalid_request_error",
}  # fmt: skip
NO_LEASE = (
    "The model gateway refuses the call: its lease is missing, wrong or over. Send the token that the room of the "
    "agent session was given; a session that was started again has a new one."
)
NEW_CALL = (
    "It is not sent again by itself. To make a new call, which is paid for, ask something else or give the request "
    "another header `idempotency-key`."
)
UNKNOWN = (
    "The call {call_id} asked the same. It was sent, and its answer, or the provider's count of it, did not arrive: it "
    "may have been paid, so {tokens} tokens are counted for it. " + NEW_CALL
)
UNANSWERED = (
    "The call was sent to the provider {provider}, and its answer did not arrive ({problem}). It may have been paid, "
    "so {tokens} tokens are counted for it. " + NEW_CALL
)
NOT_REACHED = "The provider {provider} could not be reached, so the call was not sent: {problem}. Try again later."
NOT_KEPT = (
    "The call {call_id} asked the same. It was answered and paid, and its answer is not kept in this form: it was "
    "asked for in another form, is too old, was too large, or broke off at its end. " + NEW_CALL
)


def refusal(status: int, why: str, *, kind: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """An answer of the gateway itself. `kind`: the type of the error, where the status does not say it."""
    code = "insufficient_quota" if status == PAYMENT else kind or None
    error = {"type": kind or KINDS.get(status, "api_error"), "message": why, "code": code}
    extra = {"x-should-retry": "true" if status in AGAIN else "false", **(headers or {})}
    return JSONResponse({"type": "error", "error": error}, status, extra)


def too_many(why: str) -> Response:
    """A refusal of a session that must wait."""
    return refusal(TOO_MANY, why, headers={"retry-after": "5"})
