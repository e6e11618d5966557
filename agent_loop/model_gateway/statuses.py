"""HTTP statuses with which the model gateway refuses, and the type of one error that a client must know."""

from __future__ import annotations

BAD_REQUEST, UNAUTHORIZED, PAYMENT, TOO_MANY, BAD_GATEWAY, UNAVAILABLE = 400, 401, 402, 429, 502, 503
SENT_BEFORE = "sent_before"
"""Type of the error of a call that was sent before and is not sent again. Its status is 400, because coding CLIs send a
request again by themselves after others, such as 409."""
AGAIN = (TOO_MANY, UNAVAILABLE, BAD_GATEWAY)
"""Statuses of calls that were not sent, so that a client may send them again by itself."""
